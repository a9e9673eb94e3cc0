"""`ORDER BY key LIMIT k` over a filter: asked in the order of the key, in waves, until k rows have passed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import pytest
from covey_engine.operators import waves
from covey_engine.operators.executor import Executor
from covey_planner.plan import PlanOptions, plan
from covey_planner.profiles import load_profile
from covey_storage.catalog import Database
from support.hand_plans import rows, start

pytestmark = pytest.mark.usefixtures("leftovers")

Run = Callable[..., tuple[list[tuple[Any, ...]], int]]
A, B = "AI_FILTER('Is it A?', body)", "AI_FILTER('Is it B?', body)"


@pytest.fixture(autouse=True)
def small_waves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waves, "LEAST", 4)


@pytest.fixture
def run(executor: Executor, database: Database, cursor: duckdb.DuckDBPyConnection) -> Run:
    """The rows of a statement, sorted, and how many prompts were asked; `written`: without any plan."""

    def run(sql: str, written: bool = False, **options: Any) -> tuple[list[tuple[Any, ...]], int]:
        profile = load_profile("smollm2_document_first")
        planned = plan(sql, database, PlanOptions(profile, optimize=not written))
        result = start(executor, planned, cursor, **options)
        return rows(result), result.figures().prompts

    return run


@pytest.mark.parametrize("limit", ["LIMIT 1", "LIMIT 2 OFFSET 1", "LIMIT 1000"])
@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT id, body FROM docs WHERE {A} ORDER BY id",
        f"SELECT id AS n FROM docs WHERE {A} AND id > 7 ORDER BY n DESC",
        f"SELECT id FROM docs WHERE NOT {A} AND {B} ORDER BY lang DESC NULLS FIRST, -id",
        f"SELECT lang, id FROM docs WHERE {A} OR {B} ORDER BY 1, 2",
        f"SELECT d.id FROM (SELECT id, body, id % 9 AS k FROM docs) d WHERE {A} ORDER BY k, d.id",
        f"SELECT -id AS id FROM docs WHERE {A} ORDER BY id",
        f"WITH c AS (SELECT * FROM docs WHERE id > 4) SELECT id, {B} AS b FROM c WHERE {A} ORDER BY c.id",
    ],
)
def test_the_first_rows_from_fewer_questions(run: Run, sql: str, limit: str) -> None:
    found, asked = run(f"{sql} {limit}")
    expected, in_full = run(f"{sql} {limit}", written=True)
    assert found == expected
    assert asked <= in_full
    if limit != "LIMIT 1000":
        assert asked < 0.9 * in_full


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT id FROM docs WHERE {A} ORDER BY {B}, id LIMIT 2",
        f"SELECT count(*) AS n, lang FROM docs WHERE {A} GROUP BY lang ORDER BY lang LIMIT 1",
        f"SELECT id, row_number() OVER (ORDER BY id) AS r FROM docs WHERE {A} ORDER BY r DESC LIMIT 2",
        f"SELECT DISTINCT lang FROM docs WHERE {A} ORDER BY lang LIMIT 1",
        f"SELECT d.id, t.id FROM docs d JOIN terms t ON t.id = d.id % 7 WHERE {A} ORDER BY t.id, d.id LIMIT 2",
        f"SELECT id FROM docs WHERE {A} ORDER BY (SELECT max(id) FROM terms) - id LIMIT 2",
    ],
)
def test_other_orders_are_asked_in_full(run: Run, sql: str) -> None:
    assert run(sql)[0] == run(sql, written=True)[0]


def test_texts_that_are_too_long_do_not_end_it(run: Run, executor: Executor) -> None:
    sql = "SELECT id FROM docs WHERE AI_FILTER('Is it A?', repeat(body, 1 + id % 3 * 8)) ORDER BY id LIMIT 1"
    executor._engine._context_length = 300  # type: ignore[attr-defined]
    for mode in ("null", "truncate"):
        found, asked = run(sql, overflow=mode)
        expected, in_full = run(sql, written=True, overflow=mode)
        assert found == expected
        assert asked < in_full
