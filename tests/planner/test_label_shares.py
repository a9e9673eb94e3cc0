"""How often a condition on a label is true, as far as its labels and earlier answers say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from covey_planner.cost.statistics import Pinned, Selectivity, TokenCount
from covey_planner.logical import Ask, Condition, Not
from covey_planner.ordering import posing
from covey_planner.ordering.labels import accepted, labelled
from covey_planner.ordering.problem import Share
from covey_planner.physical import CallKey
from covey_planner.plan import PlanOptions, plan
from support.plan_reference import DOCUMENT_FIRST, MemoryCatalog, words

LABELS = ("late", "rude", "broken", "other")
CALL = "AI_CLASSIFY(body, ['late', 'rude', 'broken', 'other'])"
LATE = 0.03
KEY = CallKey(
    "Which label fits best? Answer with one of these labels: late, rude, broken, other.\n{0}\n"
    + "\n".join(LABELS),
    ("tickets.body",),
    "label",
)


def texts(rows: float, mean: float) -> TokenCount:
    return TokenCount(rows, rows, rows * mean, rows * mean, mean, exact=True)


BARE = Pinned(
    tables={"tickets": 1_000},
    texts={("tickets", "body"): texts(1_000, 30), ("tickets", "note"): texts(1_000, 30)},
)
KNOWN = replace(
    BARE,
    answers={
        replace(KEY, label=label): Selectivity(share, share, share, "remembered", 1_000)
        for label, share in zip(LABELS, (LATE, 0.5, 0.3, 0.17), strict=True)
    },
)


def true_labels(condition: Condition) -> tuple[str, ...]:
    """The labels for which a condition is true."""
    match condition:
        case Ask(call):
            return call.accepted or ()
        case Not(Ask(call)):
            return tuple(label for label in call.labels if label not in (call.accepted or ()))
    call = labelled(condition)
    return () if call is None else accepted(condition, call.labels)


@pytest.fixture
def share(catalog: MemoryCatalog, monkeypatch: pytest.MonkeyPatch):
    """The share of a condition, and the labels for which it is true."""

    def found(condition: str, statistics: Pinned, dialect: str = "duckdb") -> tuple[Share, tuple[str, ...]]:
        seen: list[tuple[Share, tuple[str, ...]]] = []
        pose = posing.Poser.pose

        def spy(poser: posing.Poser, block):
            problem, units = pose(poser, block)
            condition = units[0].condition
            assert condition is not None
            seen.append((problem.predicates[0].selectivity, true_labels(condition)))
            return problem, units

        monkeypatch.setattr(posing.Poser, "pose", spy)
        options = PlanOptions(DOCUMENT_FIRST, dialect, encode=words)
        sql = f"SELECT id FROM tickets WHERE {condition} AND AI_FILTER('Is it new?', note)"
        plan(sql, catalog, options, (), statistics)
        return seen[0]

    return found


@pytest.mark.parametrize(
    ("condition", "labels"),
    [
        (f"{CALL} = 'late'", ("late",)),
        (f"'late' = {CALL}", ("late",)),
        (f"{CALL} <> 'late'", ("rude", "broken", "other")),
        (f"{CALL} IN ('late', 'rude', 'unknown')", ("late", "rude")),
        (f"{CALL} NOT IN ('late', 'rude')", ("broken", "other")),
        (f"NOT ({CALL} = 'late')", ("rude", "broken", "other")),
        (f"({CALL} = 'late' OR {CALL} = 'other')", ("late", "other")),
        (f"({CALL} <> 'late' AND {CALL} <> 'other' OR {CALL} = 'late')", ("late", "rude", "broken")),
        (f"{CALL} = note", ()),
        (f"{CALL} LIKE 'l%'", ()),
        (f"({CALL} = 'late' OR AI_FILTER('Is it late?', body))", ()),
    ],
)
def test_the_labels_for_which_a_condition_is_true(share, condition: str, labels: tuple[str, ...]) -> None:
    assert share(condition, BARE)[1] == labels


@pytest.mark.parametrize(
    ("dialect", "condition"),
    [
        ("snowflake", f"{CALL}:labels[0]::string = 'late'"),
        ("bigquery", "AI.CLASSIFY(body, categories => ['late', 'rude', 'broken', 'other']) IN ('late')"),
    ],
)
def test_the_labels_of_other_dialects(share, dialect: str, condition: str) -> None:
    assert share(condition, BARE, dialect)[1] == ("late",)


def test_labels_are_equally_likely_until_there_are_answers(share) -> None:
    assert share(f"{CALL} = 'late'", BARE)[0].value == pytest.approx(1 / 4)
    assert share(f"{CALL} IN ('late', 'other')", BARE)[0].value == pytest.approx(2 / 4)
    assert share(f"{CALL} = 'late'", KNOWN)[0].value == pytest.approx(LATE)
    assert share(f"{CALL} IN ('late', 'other')", KNOWN)[0].value == pytest.approx(LATE + 0.17)
    assert share(f"{CALL} <> 'late'", KNOWN)[0].value == pytest.approx(0.97)


def test_a_condition_that_is_not_understood_may_be_anything(share) -> None:
    found = share(f"{CALL} LIKE 'l%'", KNOWN)[0]
    assert (found.low, found.value, found.high) == (0.05, 0.5, 0.95)


def test_a_rare_label_is_asked_for_first(catalog: MemoryCatalog) -> None:
    """Of two texts that are equally long."""

    def first(condition: str) -> str:
        condition += " AND AI_FILTER('Is it rude?', note, {'selectivity': 0.5})"
        steps = plan(
            f"SELECT id FROM tickets WHERE {condition}",
            catalog,
            PlanOptions(DOCUMENT_FIRST, encode=words),
            (),
            KNOWN,
        ).physical.steps
        return steps[0].questions[0].kind

    assert first(f"{CALL} <> 'late'") == "boolean"
    assert first(f"{CALL} = 'late'") == "label"
