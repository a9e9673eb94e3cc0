"""Comparisons of scores and labels that become questions answered by yes or no: which do, and what is asked then."""

from __future__ import annotations

import duckdb
import pytest
from covey_planner.physical import Above, Question
from covey_planner.plan import PlanOptions, plan
from support.plan_reference import DOCUMENT_FIRST, MemoryCatalog

SCORE = "AI_SCORE('a?', t.body)"
LABEL = "AI_CLASSIFY(t.body, ['late', 'rude', 'other'])"


def questions(catalog: MemoryCatalog, sql: str, dialect: str = "duckdb") -> list[Question]:
    steps = plan(sql, catalog, PlanOptions(DOCUMENT_FIRST, dialect)).physical.steps
    return [question for step in steps for question in step.questions]


@pytest.fixture
def catalog(database: duckdb.DuckDBPyConnection) -> MemoryCatalog:
    return MemoryCatalog(database)


@pytest.mark.parametrize(
    ("condition", "above"),
    [
        (f"{SCORE} > 0.7", Above(0.7)),
        (f"({SCORE}) >= (1)", Above(1.0, least=True)),
        (f"0.7 < {SCORE}", Above(0.7)),
        (f"{SCORE} < 0.7", Above(0.7, least=True)),
        (f"NOT {SCORE} <= 0.25", Above(0.25)),
        (f"{SCORE} > CAST('0.1' AS DOUBLE)", Above(0.1)),
        # What is compared with no number that is written out, or is more than compared, stays a value.
        (f"{SCORE} > t.id", None),
        (f"{SCORE} > 0.1234567890123456", None),
        (f"{SCORE} = 0.5", None),
        (f"{SCORE} + 1 > 1.5", None),
        (f"CASE WHEN t.id > 3 THEN {SCORE} > 0.5 END", None),
        (f"{SCORE} > 0.3 AND {SCORE} < 0.7", None),
    ],
)
def test_scores(catalog: MemoryCatalog, condition: str, above: Above | None) -> None:
    found = questions(catalog, f"SELECT t.id FROM tickets t WHERE t.id > 2 AND {condition}")
    assert {(each.kind, each.above) for each in found} == {("score" if above is None else "boolean", above)}


@pytest.mark.parametrize(
    ("condition", "accepted"),
    [
        (f"{LABEL} = 'late'", ("late",)),
        (f"'late' <> {LABEL}", ("late",)),
        (f"{LABEL} NOT IN ('rude', 'late', 'unknown')", ("late", "rude")),
        ("AI_SENTIMENT(t.body) IN ('positive', 'mixed')", ("positive", "mixed")),
        (f"{LABEL} = t.note", None),
        (f"upper({LABEL}) = 'LATE'", None),
        (f"{LABEL} LIKE 'l%'", None),
        (f"({LABEL} = 'late' OR {LABEL} = 'rude')", None),
    ],
)
def test_labels(catalog: MemoryCatalog, condition: str, accepted: tuple[str, ...] | None) -> None:
    found = questions(catalog, f"SELECT t.id FROM tickets t WHERE {condition}")
    assert {(each.kind, each.accepted) for each in found} == {("label", accepted)}


@pytest.mark.parametrize("form", ["{}:labels[0] = 'late'", "{}:labels[0]::string = 'late'"])
def test_labels_of_an_object(catalog: MemoryCatalog, form: str) -> None:
    (found,) = questions(catalog, f"SELECT t.id FROM tickets t WHERE {form.format(LABEL)}", "snowflake")
    assert found.accepted == ("late",)


@pytest.mark.parametrize("sql", [f"{LABEL}:labels[1] = 'late'", f"upper({LABEL}:labels[0]::string) = 'LATE'"])
def test_other_parts_of_an_object_stay_values(catalog: MemoryCatalog, sql: str) -> None:
    (found,) = questions(catalog, f"SELECT t.id FROM tickets t WHERE {sql}", "snowflake")
    assert found.accepted is None


def test_an_answer_that_is_wanted_as_a_value_is_asked_for_once(catalog: MemoryCatalog) -> None:
    sql = f"SELECT t.id FROM tickets t WHERE {SCORE} > 0.7 ORDER BY {SCORE} DESC"
    assert {(each.kind, each.above) for each in questions(catalog, sql)} == {("score", None)}
    sql = f"SELECT t.id, {SCORE} AS s FROM tickets t WHERE {SCORE} > 0.7"
    assert {(each.kind, each.above) for each in questions(catalog, sql)} == {("score", None)}
    kinds = [(each.kind, each.above) for each in questions(catalog, f"{sql} LIMIT 2")]
    assert kinds == [("boolean", Above(0.7)), ("score", None)]


def test_a_score_and_a_filter_on_the_same_texts_are_one_step(catalog: MemoryCatalog) -> None:
    sql = f"SELECT t.id FROM tickets t WHERE {SCORE} > 0.7 AND AI_FILTER('b?', t.body) AND {LABEL} = 'late'"
    steps = plan(sql, catalog, PlanOptions(DOCUMENT_FIRST)).physical.steps
    assert [len(step.questions) for step in steps] == [2, 1]


def test_without_the_optimizer_they_stay_values(catalog: MemoryCatalog) -> None:
    sql = f"SELECT t.id FROM tickets t WHERE {SCORE} > 0.7"
    steps = plan(sql, catalog, PlanOptions(DOCUMENT_FIRST, optimize=False)).physical.steps
    assert [question.kind for step in steps for question in step.questions] == ["score"]
