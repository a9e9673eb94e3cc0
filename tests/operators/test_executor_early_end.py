"""Statements that need not ask all: EXISTS and LIMIT through planner, operators and a fake engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import duckdb
import pytest
from covey_engine.operators.executor import Executor
from covey_planner.plan import PlanOptions, plan
from covey_planner.profiles import load_profile
from covey_storage.catalog import Database
from support.fake_engine import FakeEngine
from support.hand_plans import rows, start

pytestmark = pytest.mark.usefixtures("leftovers")

Run = Callable[..., tuple[list[tuple[Any, ...]], int]]

PAIR = "AI_FILTER(PROMPT('{0} mentions {1}', d.body, t.name))"
LONG = "Is it A? " + "really " * 30


@pytest.fixture
def run(executor: Executor, database: Database, cursor: duckdb.DuckDBPyConnection) -> Run:
    """The rows of a statement, sorted, and how many prompts were asked."""

    def run(sql: str, **options: Any) -> tuple[list[tuple[Any, ...]], int]:
        planned = plan(sql, database, PlanOptions(load_profile("smollm2_document_first")))
        result = start(executor, planned, cursor, **options)
        return rows(result), result.figures().prompts

    return run


def in_full(inner: str, word: str) -> str:
    """A subquery that is true as EXISTS is, and asks all pairs."""
    return f"(SELECT coalesce(sum(1), 0) FROM {inner}) {'=' if word.startswith('NOT') else '>'} 0"


@pytest.mark.parametrize("word", ["EXISTS", "NOT EXISTS"])
@pytest.mark.parametrize(
    "inner",
    [
        f"terms t WHERE {PAIR}",
        f"terms t WHERE {PAIR} AND NOT AI_FILTER(PROMPT('{{0}} denies {{1}}', d.body, t.name))",
        f"terms t WHERE (NOT {PAIR} OR AI_FILTER(PROMPT('{{0}} denies {{1}}', d.body, t.name))) AND t.id < 5",
        f"nothing n, terms t WHERE {PAIR}",
    ],
)
def test_exists_gives_the_rows_of_all_answers_from_fewer(run: Run, word: str, inner: str) -> None:
    found, asked = run(f"SELECT d.id FROM docs d WHERE {word} (SELECT 1 FROM {inner})")
    expected, all_asked = run(f"SELECT d.id FROM docs d WHERE {in_full(inner, word)}")
    assert found == expected
    assert asked < 0.7 * all_asked


def test_partners_linked_to_the_row_around_are_asked_in_full(run: Run) -> None:
    inner = f"terms t WHERE t.id = d.id % 7 AND {PAIR}"
    found, asked = run(f"SELECT d.id FROM docs d WHERE EXISTS (SELECT 1 FROM {inner})")
    assert (found, asked) == run(f"SELECT d.id FROM docs d WHERE {in_full(inner, 'EXISTS')}")


@pytest.mark.parametrize("limit", [0, 1, 5, 20, 1_000])
@pytest.mark.parametrize("offset", ["", " OFFSET 3"])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM docs WHERE AI_FILTER('Is it A?', body)",
        "SELECT id FROM docs WHERE AI_FILTER('Is it A?', body) AND NOT AI_FILTER('Is it B?', body) AND id < 50",
        f"SELECT d.id, t.id FROM docs d JOIN terms t ON {PAIR} AND d.id < 20",
        f"SELECT d.id, t.id FROM docs d JOIN terms t ON t.id = d.id % 7 AND {PAIR}",
    ],
)
def test_limit_gives_as_many_rows_that_pass(run: Run, sql: str, limit: int, offset: str) -> None:
    everything, all_asked = run(sql)
    found, asked = run(f"{sql} LIMIT {limit}{offset}")
    skipped = 3 if offset else 0
    assert Counter(found) <= Counter(everything)
    assert len(found) == max(0, min(limit, len(everything) - skipped))
    assert asked <= all_asked
    if limit <= 1:
        assert asked < 0.5 * all_asked or limit + skipped == 0 == asked


def test_values_of_limited_rows_are_all_there(run: Run) -> None:
    sql = "SELECT id, AI_FILTER('Is it B?', body) AS b FROM docs WHERE AI_FILTER('Is it A?', body)"
    everything, _ = run(sql)
    found, _ = run(f"{sql} LIMIT 6")
    assert len(found) == 6
    assert set(found) <= set(everything)
    assert None not in [b for _, b in found]


@pytest.mark.parametrize("overflow", ["null", "truncate"])
def test_texts_over_the_context_are_counted_only_where_they_match(
    executor: Executor,
    engine: FakeEngine,
    database: Database,
    cursor: duckdb.DuckDBPyConnection,
    overflow: str,
    run: Run,
) -> None:
    cursor.execute("CREATE TABLE long AS SELECT i AS id, repeat('word ', i) || i AS body FROM range(80) r(i)")
    engine._context_length = 420
    questions = f"AI_FILTER('Is it A?', body) AND AI_FILTER('{LONG}', body)"
    everything, all_asked = run(f"SELECT id FROM long WHERE {questions}", overflow=overflow)
    found, asked = run(f"SELECT id FROM long WHERE {questions} LIMIT 3", overflow=overflow)
    assert len(found) == 3
    assert set(found) <= set(everything)
    assert asked < all_asked
    all_of_them, _ = run(f"SELECT id FROM long WHERE {questions} LIMIT 100", overflow=overflow)
    assert all_of_them == everything
    cursor.execute("DROP TABLE long")


def test_an_order_says_whose_it_is_and_what_ends_it(run: Run, engine: FakeEngine) -> None:
    run("SELECT id FROM docs WHERE AI_FILTER('Is it A?', body) LIMIT 2 OFFSET 1", user="ann")
    run(f"SELECT d.id FROM docs d WHERE EXISTS (SELECT 1 FROM terms t WHERE {PAIR})")
    run("SELECT id FROM docs WHERE AI_FILTER('Is it A?', body)")
    assert [(order.user, order.exists, order.enough) for order in engine.orders] == [
        ("ann", False, 3),
        ("", True, None),
        ("", False, None),
    ]
