"""When a sample is worth its cost, and what it changes: plans of statements under statistics that are written down."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import duckdb
import pytest
from covey_planner.cost.statistics import CallKey, Pinned, Selectivity, TokenCount, hinted
from covey_planner.ordering import doubt
from covey_planner.ordering.doubt import range_of
from covey_planner.plan import Planned, PlanOptions, plan
from support.plan_reference import DOCUMENT_FIRST, MemoryCatalog

ROWS = 50_000


@pytest.fixture(scope="module")
def catalog() -> MemoryCatalog:
    connection = duckdb.connect()
    for table in ("r", "m", "s", "t"):
        connection.execute(f"CREATE TABLE {table} (id INTEGER, k INTEGER, body VARCHAR)")
    return MemoryCatalog(connection)


def planned(catalog: MemoryCatalog, where: str, answers: dict[CallKey, Selectivity] | None = None) -> Planned:
    counts = {"r": ROWS, "m": ROWS, "s": 20, "t": 20}
    texts = {(t, "body"): TokenCount(n, n, 100 * n, 100 * n, 100.0, exact=True) for t, n in counts.items()}
    statistics = Pinned(tables=counts, texts=texts, answers=answers or {})
    options = PlanOptions(DOCUMENT_FIRST, encode=lambda text, _: list(text.encode())[::4], sampling=True)
    return plan(f"SELECT r.id FROM r, m, s, t WHERE r.k = m.id AND {where}", catalog, options, (), statistics)


def f(number: int, column: str = "r.body", hint: float | None = None) -> str:
    option = "" if hint is None else f", {{'selectivity': {hint}}}"
    return f"AI_FILTER('Q{number}?', {column}{option})"


def j(number: int, one: str, other: str, hint: float | None = None) -> str:
    option = "" if hint is None else f", {{'selectivity': {hint}}}"
    return f"AI_FILTER(PROMPT('Q{number}? {{0}} {{1}}', {one}, {other}){option})"


def asked(found: Planned) -> list[list[str]]:
    """The questions of each sample."""
    return [[question.call for question in step.questions] for step in found.samples]


def sampled(share: float) -> Selectivity:
    return Selectivity(share, share, share, "sample", 128)


def test_questions_on_either_side_of_a_join_are_both_in_doubt(catalog: MemoryCatalog) -> None:
    found = planned(catalog, f"{f(1)} AND {f(2, 'm.body')}")
    one, other = (step.questions[0].key for step in found.physical.steps)
    assert one is not None
    assert other is not None
    assert asked(found) == [[f(1)]], "what is asked first anyway is sampled first"
    few, many = (found.doubt.further({one: sampled(share)}) for share in (0.01, 0.9))
    assert not few
    assert many == {other}
    right = found.doubt.verdict({one: sampled(0.05), other: sampled(0.9)})
    wrong = found.doubt.verdict({one: sampled(0.9), other: sampled(0.05)})
    assert not right.matters
    assert right.best == right.given
    assert wrong.matters
    assert wrong.best < 0.7 * wrong.given


def test_what_is_known_well_is_not_in_doubt(catalog: MemoryCatalog) -> None:
    texts = {"r": ("r.body",), "m": ("m.body",)}
    keys = [CallKey("Q1?\n{0}", texts["r"]), CallKey("Q2?\n{0}", texts["m"])]
    known = {key: Selectivity(0.3, 0.295, 0.305, "remembered", 30_000) for key in keys}
    assert not planned(catalog, f"{f(1)} AND {f(2, 'm.body')}", known).samples
    half = planned(catalog, f"{f(1)} AND {f(2, 'm.body')}", {keys[0]: known[keys[0]]})
    assert asked(half) == [[f(2, "m.body")]]


@pytest.mark.parametrize("where", [f(1), j(1, "r.body", "s.body"), f"{f(1, 's.body')} AND {f(2, 's.body')}"])
def test_one_order_or_few_texts_leave_no_doubt(catalog: MemoryCatalog, where: str) -> None:
    assert not planned(catalog, where).samples


def test_pairs_are_asked_about_once_texts_are_known(catalog: MemoryCatalog) -> None:
    """A filter and linked pairs: only where the filter lets most texts pass, it matters how many pairs do."""
    found = planned(catalog, f"{f(1, hint=0.1)} AND {j(2, 'r.body', 'm.body')}")
    (filter_,) = found.doubt.keys
    assert filter_.arguments == ("r.body",)
    few, many = (found.doubt.further({filter_: sampled(share)}) for share in (0.02, 0.95))
    assert not few
    assert {key.arguments for key in many} == {("r.body", "m.body")}


def test_eight_questions_are_looked_at_with_a_bounded_number_of_searches(
    catalog: MemoryCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels: list[int] = []
    compare = doubt.Posed.compare

    def counted(posed: doubt.Posed, several: Sequence[doubt.Shares]) -> list[tuple[float, float]]:
        levels.append(len(posed.problem.predicates))
        assert len(several) <= 8
        return compare(posed, several)

    monkeypatch.setattr(doubt.Posed, "compare", counted)
    eight = [f(number, column) for number in range(4) for column in ("r.body", "m.body")]
    found = planned(catalog, " AND ".join(eight))
    assert found.samples
    assert levels == [8]
    levels.clear()
    doubt.doubt(found.doubt.posed * 9)
    assert 16 <= sum(levels) <= doubt._LEVELS


def test_what_is_still_unknown_is_judged_by_the_order_that_would_run(catalog: MemoryCatalog) -> None:
    """The order at hand stays while no other one is known to be better: then it may matter what else is true."""
    found = planned(catalog, f"{j(1, 'r.body', 's.body', 0.02)} AND {j(2, 'r.body', 't.body', 0.2)}")
    (first,) = found.doubt.keys
    assert first.arguments == ("r.body", "s.body")
    assert not found.doubt.verdict({first: sampled(0.5)}).matters
    assert {key.arguments for key in found.doubt.further({first: sampled(0.5)})} == {("r.body", "t.body")}


def test_hints_are_suspected_to_be_wrong_by_more_than_ten_times() -> None:
    for wrong, right in ((0.05, 0.5), (0.5, 0.05), (0.9, 0.09), (0.09, 0.9)):
        low, high = range_of(hinted(wrong))
        assert low < right < high


@pytest.mark.parametrize("count", range(1, 8))
def test_any_two_shares_are_tried_at_all_combinations_of_their_ends(
    catalog: MemoryCatalog, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    (posed,) = planned(catalog, f"{f(1)} AND {f(2, 'm.body')}").doubt.posed
    keys = [CallKey(f"Q{number}", ("r.body",)) for number in range(count)]
    tried: list[tuple[float, ...]] = []

    def compare(_: doubt.Posed, several: Sequence[doubt.Shares]) -> list[tuple[float, float]]:
        tried.extend(tuple(shares[key].value for key in keys) for shares in several)
        return [(1.0, 1.0)] * len(several)

    monkeypatch.setattr(doubt.Posed, "compare", compare)
    doubt._loss(posed, keys, {key: hinted(0.3) for key in keys})
    for one, other in combinations(range(count), 2):
        pairs = [(values[one], values[other]) for values in tried]
        assert len(set(pairs)) == 4
        assert {pairs.count(pair) for pair in set(pairs)} == {len(tried) // 4}


@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        ("AI_CLASSIFY(r.body, ['late', 'rude', 'broken', 'other']) = 'late'", "label"),
        ("AI_CLASSIFY(r.body, ['late', 'rude', 'broken', 'other']) NOT IN ('late', 'rude')", "label"),
        ("AI_SCORE('Q1?', r.body) > 0.9", "boolean"),
    ],
)
def test_labels_and_scores_are_sampled_as_filters_are(
    catalog: MemoryCatalog, condition: str, kind: str
) -> None:
    found = planned(catalog, f"{condition} AND {f(2, 'm.body')}")
    kinds = {question.kind for step in found.samples for question in step.questions}
    further = found.doubt.further({key: sampled(0.5) for key in found.doubt.keys})
    assert kind in kinds | {"label" if key.kind == "label" else "boolean" for key in further}
    (own,) = (key for key in (*found.doubt.keys, *further) if key.arguments == ("r.body",))
    seldom, mostly = (found.doubt.verdict({own: sampled(share)}) for share in (0.02, 0.98))
    assert seldom != mostly


def test_a_sampled_share_counts_the_other_way_round_under_not(catalog: MemoryCatalog) -> None:
    plain, negated = (planned(catalog, f"{word}{f(1)} AND {f(2, 'm.body')}") for word in ("", "NOT "))
    one, other = (step.questions[0].key for step in plain.physical.steps)
    assert one is not None
    assert other is not None
    for share in (0.1, 0.8):
        found = negated.doubt.verdict({one: sampled(1 - share), other: sampled(0.4)})
        expected = plain.doubt.verdict({one: sampled(share), other: sampled(0.4)})
        assert found.best == pytest.approx(expected.best, rel=0.05)
