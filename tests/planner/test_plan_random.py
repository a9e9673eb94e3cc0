"""Random boolean trees over AI calls, ordinary predicates and NULLs give the rows of plain DuckDB."""

from __future__ import annotations

from collections import Counter

import duckdb
from covey_planner.plan import PlanOptions, plan
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.plan_reference import DOCUMENT_FIRST, Dice, MemoryCatalog, run_both

RELAXED = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

TICKET = st.sampled_from(
    [
        "AI_FILTER('a?', t.body)",
        "AI_FILTER('b?', t.body)",
        "AI_FILTER('c?', t.body)",
        "AI_FILTER('a?', t.note)",
        "AI_FILTER(PROMPT('{0} fits {1}', t.body, t.note))",
        "AI_FILTER('d?', t.score)",
    ]
)
CHEAP = st.sampled_from(
    [
        "t.id < 12",
        "t.product = 2",
        "t.note IS NULL",
        "t.product > 1",
        "NULL",
        "t.score < 1",
        "t.body LIKE '%e%'",
    ]
)
PAIR = st.sampled_from(
    [
        "AI_FILTER(PROMPT('{0} is {1}', t.body, p.description))",
        "AI_FILTER(PROMPT('{0} was {1}', t.body, p.description))",
        "AI_FILTER(PROMPT('{1} has {0}', t.note, p.name))",
        "t.product = p.id",
        "t.id < p.id",
        "AI_FILTER('e?', p.name)",
    ]
)


def trees(leaves: st.SearchStrategy[str], size: int) -> st.SearchStrategy[str]:
    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        pair = st.tuples(inner, inner)
        return st.one_of(
            pair.map(lambda p: f"({p[0]} AND {p[1]})"),
            pair.map(lambda p: f"({p[0]} OR {p[1]})"),
            inner.map(lambda p: f"(NOT {p})"),
            pair.map(lambda p: f"({p[0]} OR NOT {p[1]})"),
            inner.map(lambda p: f"(({p}) IS NOT TRUE)"),
            st.tuples(inner, inner, inner).map(lambda p: f"(CASE WHEN {p[0]} THEN {p[1]} ELSE {p[2]} END)"),
        )

    return st.recursive(leaves, grow, max_leaves=size)


FILTERS = trees(st.one_of(TICKET, TICKET, CHEAP), 8)
JOINS = trees(st.one_of(PAIR, TICKET, CHEAP), 5)


def check(database: duckdb.DuckDBPyConnection, sql: str, order: int | None = None) -> None:
    if "AI_FILTER" not in sql:
        return
    dice = None if order is None else Dice(order)
    _, rows, expected, asked = run_both(database, sql, DOCUMENT_FIRST, dice)
    assert Counter(map(repr, rows)) == Counter(map(repr, expected)), sql
    assert len(asked) <= 4000


@RELAXED
@given(tree=FILTERS)
def test_where(database: duckdb.DuckDBPyConnection, tree: str) -> None:
    check(database, f"SELECT t.id FROM tickets t WHERE {tree}")


@RELAXED
@given(tree=FILTERS, other=FILTERS)
def test_values(database: duckdb.DuckDBPyConnection, tree: str, other: str) -> None:
    check(database, f"SELECT t.id, {tree} AS flag FROM tickets t WHERE {other}")


@RELAXED
@given(tree=FILTERS)
def test_groups(database: duckdb.DuckDBPyConnection, tree: str) -> None:
    check(database, f"SELECT {tree} AS flag, count(*), count(*) FILTER ({tree}) FROM tickets t GROUP BY flag")


@settings(RELAXED, max_examples=25)
@given(on=JOINS, where=FILTERS)
def test_joins(database: duckdb.DuckDBPyConnection, on: str, where: str) -> None:
    check(database, f"SELECT t.id, p.id FROM tickets t JOIN products p ON {on} WHERE {where}")


@settings(RELAXED, max_examples=25)
@given(inner=JOINS, outer=FILTERS, negated=st.booleans())
def test_correlated(database: duckdb.DuckDBPyConnection, inner: str, outer: str, negated: bool) -> None:
    word = "NOT EXISTS" if negated else "EXISTS"
    check(
        database,
        f"SELECT t.id FROM tickets t WHERE {outer} AND {word} (SELECT 1 FROM products p WHERE {inner})",
    )


CONDITIONS = st.lists(trees(st.one_of(PAIR, TICKET, CHEAP), 2), min_size=2, max_size=6)
DICE = st.integers(0, 9)


@settings(RELAXED, max_examples=30)
@given(conditions=CONDITIONS, order=DICE, selected=PAIR)
def test_orders(
    database: duckdb.DuckDBPyConnection, conditions: list[str], order: int, selected: str
) -> None:
    on, *where = conditions
    columns = f"t.id, p.id, d.id, {selected}"
    text = f"SELECT {columns} FROM tickets t JOIN products p ON {on} JOIN defects d ON d.product = p.id"
    check(database, f"{text} WHERE {' AND '.join(where)} AND t.id < 20", order)


@settings(RELAXED, max_examples=15)
@given(inner=CONDITIONS, outer=CONDITIONS, order=DICE, negated=st.booleans())
def test_orders_of_correlated(
    database: duckdb.DuckDBPyConnection, inner: list[str], outer: list[str], order: int, negated: bool
) -> None:
    exists = f"EXISTS (SELECT 1 FROM products p WHERE {' AND '.join(inner)})"
    word = f"NOT {exists}" if negated else exists
    alone = " AND ".join(part for part in outer if "p." not in part) or "t.id > 2"
    check(database, f"SELECT t.id FROM tickets t WHERE {word} AND {alone}", order)


@RELAXED
@given(tree=FILTERS)
def test_plans_are_the_same_every_time(database: duckdb.DuckDBPyConnection, tree: str) -> None:
    catalog, options = MemoryCatalog(database), PlanOptions(DOCUMENT_FIRST)
    sql = f"SELECT t.id FROM tickets t WHERE {tree}"
    assert plan(sql, catalog, options) == plan(sql, catalog, options)
