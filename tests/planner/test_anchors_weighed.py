"""From which side a step about pairs costs less, once what is left is counted: against a trie of all its prompts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from covey_planner.cost.statistics import Pinned, TokenCount
from covey_planner.ordering.anchors import Left, Weighed, exchanged
from covey_planner.physical import AnchorText, AskStep, PartnerText, Text
from covey_planner.plan import Planned, PlanOptions, plan
from hypothesis import given, settings
from hypothesis import strategies as st
from support.plan_reference import DOCUMENT_FIRST, QUESTION_FIRST, MemoryCatalog, words

RELAXED = settings(max_examples=60, deadline=None, derandomize=True, database=None)


def texts(rows: float, mean: float) -> TokenCount:
    return TokenCount(rows, rows, rows * mean, rows * mean, mean, exact=True)


STATISTICS = Pinned(
    tables={"tickets": 100, "products": 50},
    texts={("tickets", "body"): texts(100, 30), ("products", "description"): texts(50, 40)},
)
OPTIONS = PlanOptions(DOCUMENT_FIRST, encode=words, price=lambda work: work.fresh)
JOIN = "AI_FILTER(PROMPT('Does {0} match {1} ?', t.body, p.description)OPTION)"
SQL = f"SELECT t.id FROM tickets t, products p WHERE {JOIN}"
Pairs = list[tuple[int, int]]


@pytest.fixture
def planned(catalog: MemoryCatalog):
    def of(sql: str = SQL, options: PlanOptions = OPTIONS) -> Planned:
        return plan(sql.replace("OPTION", ""), catalog, options, (), STATISTICS)

    return of


def left(lengths: list[int], rows: list[int]) -> Left:
    """A side, whose rows stand in pairs as often as they are among these."""
    return Left((np.array(lengths, np.int64),), np.bincount(rows, minlength=len(lengths)))


def fresh(step: AskStep, anchors: list[int], partners: list[int], pairs: Pairs) -> int:
    """Tokens of the distinct beginnings of all prompts."""
    seen: dict[tuple[object, ...], int] = {}
    for anchor, partner in pairs:
        for question in step.questions:
            path: tuple[object, ...] = ()
            for segment in (*step.prefix, *question.suffix):
                match segment:
                    case Text(text):
                        path, size = (*path, text), len(words(text, True))
                    case AnchorText():
                        path, size = (*path, ("anchor", anchor)), anchors[anchor]
                    case PartnerText():
                        path, size = (*path, ("partner", partner)), partners[partner]
                seen[path] = size
    return sum(seen.values())


def weigh(
    found: Planned, anchors: list[int], partners: list[int], pairs: Pairs, known: float = 0.0
) -> Weighed:
    assert found.anchors is not None
    (step,) = found.physical.steps
    sides = left(anchors, [pair[0] for pair in pairs]), left(partners, [pair[1] for pair in pairs])
    weighed = found.anchors.weigh(step, *sides, known)
    assert weighed is not None
    return weighed


def every(anchors: list[int], partners: list[int]) -> Pairs:
    return [(anchor, partner) for anchor in range(len(anchors)) for partner in range(len(partners))]


@st.composite
def sides(draw: st.DrawFn) -> tuple[list[int], list[int], Pairs]:
    lengths = st.lists(st.integers(0, 40), min_size=1, max_size=6)
    anchors, partners = draw(lengths), draw(lengths)
    chosen = draw(st.lists(st.sampled_from(every(anchors, partners)), min_size=1, unique=True))
    return anchors, partners, draw(st.sampled_from([chosen, every(anchors, partners)]))


@pytest.mark.parametrize("profile", [DOCUMENT_FIRST, QUESTION_FIRST], ids=lambda profile: profile.name)
@pytest.mark.parametrize("two", [False, True])
def test_both_sides_cost_what_all_their_prompts_have_in_tokens(planned, profile, two: bool) -> None:
    """Of two questions, the second is asked of every pair where the first is true of all."""
    first = JOIN.replace("OPTION", ", {'selectivity': 1}")
    second = first.replace("Does", "Or does really") if two else "TRUE"
    found = planned(SQL.replace(JOIN, f"{first} AND {second}"), replace(OPTIONS, profile=profile))
    (step,) = found.physical.steps
    assert len(step.questions) == 1 + two
    assert step.anchors.arguments[0].expression == "p.description"

    @RELAXED
    @given(sides())
    def check(drawn: tuple[list[int], list[int], Pairs]) -> None:
        anchors, partners, pairs = drawn
        weighed = weigh(found, anchors, partners, pairs)
        assert weighed.planned == pytest.approx(fresh(step, anchors, partners, pairs))
        turned = [(partner, anchor) for anchor, partner in pairs]
        assert weighed.other == pytest.approx(fresh(exchanged(step), partners, anchors, turned))

    check()


def test_the_other_side_is_chosen_where_what_is_left_of_it_is_longer(planned) -> None:
    found, few, many = planned(), [40] * 5, [30] * 5
    assert not weigh(found, few, many, every(few, many)).exchanged
    long = [60] * 5
    weighed = weigh(found, few, long, every(few, long))
    assert weighed.exchanged
    assert weighed.planned - weighed.other == 5 * 40 + 25 * 60 - (5 * 60 + 25 * 40)


def test_equal_costs_leave_the_planned_side(planned) -> None:
    same = [25] * 4
    assert not weigh(planned(), same, same, every(same, same)).exchanged


def test_pairs_count_by_themselves(planned) -> None:
    """One long text that is in a single pair is no reason to ask all the others about the short ones."""
    anchors, partners = [40] * 6, [400, *[10] * 6]
    pairs = [(0, 0), *[(anchor, partner) for anchor in range(6) for partner in range(1, 7)]]
    assert not weigh(planned(), anchors, partners, pairs).exchanged
    assert weigh(planned(), anchors, partners, every(anchors, partners)).exchanged


def test_what_is_known_counts_for_the_planned_side(planned) -> None:
    few, long = [40] * 5, [60] * 5
    without, with_ = (weigh(planned(), few, long, every(few, long), known) for known in (0.0, 0.5))
    assert with_ == Weighed(without.planned / 2, without.other)
    assert not with_.exchanged


def test_exchanged_sides_ask_the_same_question(planned) -> None:
    (step,) = planned().physical.steps
    turned = exchanged(step)
    assert (turned.anchors, turned.partners) == (step.partners, step.anchors)
    assert turned.exchanged
    assert turned.other is None
    assert turned.pairs is None
    (first,) = planned(options=replace(OPTIONS, anchor="first")).physical.steps
    assert (turned.prefix, turned.questions[0].suffix) == (first.prefix, first.questions[0].suffix)


def test_linked_pairs_are_the_same_pairs(planned) -> None:
    (step,) = planned(f"{SQL} AND t.product = p.id").physical.steps
    assert exchanged(step).pairs == f"SELECT p0 AS a0, a0 AS p0 FROM ({step.pairs}) AS __covey_e"


SCORE = JOIN.replace("AI_FILTER", "AI_SCORE")
PINNED = JOIN.replace("OPTION", ", {'anchor': 'p'}")
CLOSED = {
    "an option": (SQL.replace(JOIN, PINNED), OPTIONS),
    "the session": (SQL, replace(OPTIONS, anchor="first")),
    "no statistics": (SQL, replace(OPTIONS, encode=None)),
    "as written": (SQL, replace(OPTIONS, optimize=False)),
    "an early end": (f"{SQL} LIMIT 3", OPTIONS),
    "a first match": (
        f"SELECT id FROM products p WHERE EXISTS (SELECT 1 FROM tickets t WHERE {JOIN})",
        OPTIONS,
    ),
    "two steps ask it": (f"SELECT t.id, {JOIN} FROM tickets t, products p WHERE {JOIN} OR t.id = 3", OPTIONS),
    "two kinds of answer": (
        f"SELECT t.id, {SCORE} FROM tickets t, products p WHERE {JOIN} OR t.id = 3",
        OPTIONS,
    ),
    "no pairs": ("SELECT id FROM tickets t WHERE AI_FILTER('Is it late ?', t.body)", OPTIONS),
}


@pytest.mark.parametrize("name", CLOSED)
def test_the_planned_side_stays(planned, name: str) -> None:
    found = planned(*CLOSED[name])
    assert (found.anchors is None) == (name in ("the session", "no statistics", "as written"))
    sides = left([1], [0]), left([100], [0])
    if found.anchors is not None:
        assert [found.anchors.weigh(step, *sides) for step in found.physical.steps] == [None] * len(
            found.physical.steps
        )
