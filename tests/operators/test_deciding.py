"""Subqueries of which some rows decide, through operators and a fake engine: the rows of all answers, from fewer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import duckdb
import pytest
from covey_engine.operators import groups
from covey_engine.operators.executor import Executor
from covey_planner.plan import PlanOptions, plan
from covey_planner.profiles import load_profile
from covey_storage.catalog import Database
from support.fake_engine import FakeEngine
from support.hand_plans import rows, start

pytestmark = pytest.mark.usefixtures("leftovers")

Run = Callable[..., tuple[list[tuple[Any, ...]], int]]
A, B = "AI_FILTER('Is it A?', e.body)", "AI_FILTER('Is it B?', d.body)"
PAIR = "AI_FILTER(PROMPT('{0} mentions {1}', d.body, t.name))"
LINKED = f"(SELECT 1 FROM terms t WHERE t.id <> d.id % 7 AND {PAIR})"
SAME = f"(SELECT 1 FROM docs e WHERE e.id % 5 = d.id % 5 AND {A})"


@pytest.fixture(autouse=True)
def small_waves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "LEAST", 4)


@pytest.fixture
def run(executor: Executor, database: Database, cursor: duckdb.DuckDBPyConnection) -> Run:
    """The rows of a statement, sorted, and how many prompts were asked; `written`: without any plan."""

    def run(sql: str, written: bool = False, **options: Any) -> tuple[list[tuple[Any, ...]], int]:
        planned = plan(
            sql, database, PlanOptions(load_profile("smollm2_document_first"), optimize=not written)
        )
        result = start(executor, planned, cursor, **options)
        return rows(result), result.figures().prompts

    return run


@pytest.mark.parametrize(
    ("condition", "share"),
    [
        (f"EXISTS {LINKED}", 0.8),
        (f"NOT EXISTS {LINKED}", 0.8),
        (f"EXISTS {SAME}", 0.6),
        (f"{B} AND NOT EXISTS {SAME}", 0.8),
        (f"EXISTS (SELECT 1 FROM docs e WHERE {A})", 0.3),
        (f"(SELECT count(*) FROM docs e WHERE {A}) > 2", 0.4),
        (f"(SELECT count(*) FROM docs e WHERE e.id % 3 = d.id % 3 AND {A}) BETWEEN 1 AND 2", 0.8),
        (f"(SELECT count(*) FROM terms t WHERE {PAIR}) >= 2", 0.9),
        (f"(SELECT count(*) FROM terms t WHERE t.id <> d.id % 7 AND {PAIR}) < 2", 0.9),
        (f"d.lang IN (SELECT e.lang FROM docs e WHERE {A})", 0.6),
        (f"d.lang NOT IN (SELECT e.lang FROM docs e WHERE {A})", 0.6),
        (f"(d.lang IN (SELECT e.lang FROM docs e WHERE e.id < d.id AND {A})) IS NULL", 0.9),
        ("EXISTS (SELECT 1 FROM docs e WHERE e.id < 0 AND AI_FILTER('Is it A?', e.body || d.id))", 1.0),
    ],
)
def test_the_rows_of_all_answers_from_fewer(run: Run, condition: str, share: float) -> None:
    sql = f"SELECT d.id FROM docs d WHERE {condition}"
    found, asked = run(sql)
    expected, in_full = run(sql, written=True)
    assert found == expected
    assert asked < share * in_full or asked == in_full == 0


@pytest.mark.parametrize("limit", ["LIMIT 1", "LIMIT 3 OFFSET 1", "LIMIT 1000", "LIMIT 0"])
@pytest.mark.parametrize("order", ["", " ORDER BY d.id", " ORDER BY d.lang DESC NULLS FIRST, -d.id"])
@pytest.mark.parametrize(
    "condition",
    [
        f"EXISTS {LINKED}",
        f"NOT EXISTS {LINKED}",
        f"NOT EXISTS (SELECT 1 FROM terms t WHERE {PAIR})",
        f"NOT EXISTS {SAME}",
        f"d.id % 40 IN (SELECT e.id FROM docs e WHERE {A})",
        f"d.lang IN (SELECT e.lang FROM docs e WHERE {A})",
        f"NOT EXISTS (SELECT 1 FROM docs e WHERE e.id < 0 AND {A} AND d.id > 1)",
        f"(SELECT count(*) FROM terms t WHERE {PAIR}) >= 2",
    ],
)
def test_limits_over_subqueries(run: Run, condition: str, order: str, limit: str) -> None:
    sql = f"SELECT d.id, d.body FROM docs d WHERE {condition}{order}"
    everything, in_full = run(sql, written=True)
    found, asked = run(f"{sql} {limit}")
    assert asked <= in_full
    if order:
        assert found == run(f"{sql} {limit}", written=True)[0]
    else:
        assert Counter(found) <= Counter(everything)
        assert len(found) == len(run(f"{sql} {limit}", written=True)[0])
    if limit == "LIMIT 1" and in_full and "% 40" not in condition:
        assert asked < 0.6 * in_full


def test_the_pairs_of_a_row_are_asked_in_one_order_where_it_has_an_anchor_of_its_own(
    run: Run, engine: FakeEngine
) -> None:
    run(f"SELECT d.id FROM docs d WHERE EXISTS {LINKED}")
    together = [(order.exists, order.each) for order in engine.orders]
    run(f"SELECT d.id FROM docs d WHERE (SELECT count(*) FROM terms t WHERE {PAIR}) > 2")
    assert (engine.orders[-1].exists, engine.orders[-1].each) == (True, 3)
    # Two texts come twice, with other partners each time: those are asked in full.
    assert together == [(True, 1), (False, 1)]


@pytest.mark.parametrize("overflow", ["null", "truncate"])
def test_texts_over_the_context_decide_nothing_that_is_not_asked(
    run: Run, engine: FakeEngine, overflow: str
) -> None:
    engine._context_length = 300
    question = "AI_FILTER('Is it A?', repeat(e.body, 1 + e.id % 3 * 8))"
    for test in ("EXISTS", "NOT EXISTS"):
        sql = f"SELECT d.id FROM docs d WHERE {test} (SELECT 1 FROM docs e WHERE e.id % 9 = d.id % 9 AND {question})"
        found, asked = run(sql, overflow=overflow)
        expected, in_full = run(sql, written=True, overflow=overflow)
        assert found == expected
        assert asked < in_full
