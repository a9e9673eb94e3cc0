"""Answers of the SELECT list are asked for the rows below the LIMIT alone, and the rows stay DuckDB's."""

from __future__ import annotations

import duckdb
import pytest
from covey_planner.plan import PlanOptions, plan
from support.plan_reference import DOCUMENT_FIRST, MemoryCatalog, Reference

A, B = "AI_FILTER('a?', body)", "AI_FILTER('b?', note)"
FITS = "AI_FILTER(PROMPT('{0} fits {1}', t.body, p.name))"


def run(database: duckdb.DuckDBPyConnection, sql: str) -> tuple[list[tuple[object, ...]], list[str]]:
    planned = plan(sql, MemoryCatalog(database), PlanOptions(DOCUMENT_FIRST))
    reference = Reference(database)
    names, rows = reference.run(planned.physical)
    assert names == [name for name, _ in planned.columns]
    return rows, reference.asked


WAIT = [
    (f"SELECT id, {A} FROM tickets ORDER BY id LIMIT 5", 5),
    (f"SELECT id, {A} FROM tickets ORDER BY id LIMIT 3 OFFSET 9", 3),
    (f"SELECT *, {A} AS a FROM tickets ORDER BY score, id DESC LIMIT 4", 4),
    (f"SELECT {A} AS a, *, NOT {B} AS b FROM tickets ORDER BY id LIMIT 4", 8),
    (f"SELECT id, id, {A}, {A} AS again FROM tickets ORDER BY id LIMIT 4", 4),
    (f"SELECT upper(note) || CAST({A} AS VARCHAR) AS s, note FROM tickets ORDER BY id LIMIT 4", 4),
    ("SELECT AI_FILTER('a?', upper(body) || note) AS a FROM tickets ORDER BY id LIMIT 4", 4),
    (f"SELECT CASE WHEN id > 1 THEN {A} ELSE score > 1 END FROM tickets ORDER BY id LIMIT 4", 4),
    (f"SELECT id AS n, {A} AS a, n + 1 AS m FROM tickets ORDER BY n DESC LIMIT 3", 3),
    (f"WITH c AS (SELECT * FROM tickets WHERE id > 3) SELECT id, {A} FROM c ORDER BY id LIMIT 3", 3),
    (
        f"SELECT t.id, p.id, {FITS} FROM tickets t JOIN products p ON p.id = t.product ORDER BY t.id, p.id LIMIT 6",
        6,
    ),
    ("SELECT x.id, AI_FILTER('a?', x.b) FROM (SELECT id, body AS b FROM tickets) x ORDER BY 1 LIMIT 3", 3),
    ("SELECT id, AI_FILTER('a?', b) FROM (SELECT id, body AS b FROM tickets) ORDER BY id LIMIT 3", 3),
    (
        'SELECT "the text" AS "odd ""name", AI_FILTER(\'a?\', "the text") AS "select" FROM "odd table"'
        " ORDER BY 1 LIMIT 2",
        2,
    ),
    (f"SELECT id, {A} FROM tickets ORDER BY id LIMIT 0", 0),
    ("SELECT id, AI_FILTER('a?', 'always') FROM tickets ORDER BY id LIMIT 3", 1),
]


@pytest.mark.parametrize(("sql", "most"), WAIT)
def test_only_the_rows_below_the_limit_are_asked(
    database: duckdb.DuckDBPyConnection, sql: str, most: int
) -> None:
    rows, asked = run(database, sql)
    assert rows == database.execute(sql).fetchall()
    assert len(asked) <= most


def test_a_filter_comes_first_and_the_list_last(database: duckdb.DuckDBPyConnection) -> None:
    sql = f"SELECT id, {B} AS b, {A} AS a FROM tickets WHERE {A} ORDER BY id LIMIT 4"
    rows, asked = run(database, sql)
    assert rows == database.execute(sql).fetchall()
    assert sum("b?" in prompt for prompt in asked) <= 4
    assert all(row[2] is True for row in rows)


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT id, {A} AS a FROM tickets ORDER BY a, id LIMIT 5",
        f"SELECT id, {A} FROM tickets ORDER BY 2, id LIMIT 5",
        f"SELECT id, {A} FROM tickets ORDER BY {A}, id LIMIT 5",
        f"SELECT id, {A} AS a, a IS NULL AS n FROM tickets ORDER BY id LIMIT 5",
        f"SELECT {A} AS a FROM tickets ORDER BY ALL LIMIT 5",
        f"SELECT DISTINCT {A} AS a FROM tickets ORDER BY a LIMIT 2",
        f"SELECT count(*) FILTER (WHERE {A}) FROM tickets LIMIT 1",
        f"SELECT id, {A} AS a, sum(id) OVER (PARTITION BY {A}) FROM tickets ORDER BY id LIMIT 5",
        f"SELECT id, (SELECT count(*) FROM products p WHERE AI_FILTER('c?', p.name)) AS n, {A} FROM tickets"
        " ORDER BY id LIMIT 5",
        f"SELECT id, {A} AS a FROM tickets QUALIFY row_number() OVER (ORDER BY id) < 9 ORDER BY id LIMIT 5",
    ],
)
def test_what_cannot_wait_is_asked_as_before(database: duckdb.DuckDBPyConnection, sql: str) -> None:
    rows, _ = run(database, sql)
    assert rows == database.execute(sql).fetchall()


def test_without_an_order_any_rows_do(database: duckdb.DuckDBPyConnection) -> None:
    everything = {row[0]: row for row in database.execute(f"SELECT id, {A}, body FROM tickets").fetchall()}
    rows, asked = run(database, f"SELECT id, {A}, body FROM tickets LIMIT 6")
    assert len(rows) == 6
    assert all(row == everything[row[0]] for row in rows)
    assert len(asked) <= 6


def test_many_labels_below_a_limit_are_one_list(database: duckdb.DuckDBPyConnection) -> None:
    # DuckDB bounds how deep an expression may be, and each label is a question of its own.
    labels = ", ".join(f"'label {number}'" for number in range(200))
    sql = f"SELECT id, AI_CLASSIFY(body, [{labels}], output_mode => 'multi') FROM tickets ORDER BY id LIMIT 1"
    residual = plan(sql, MemoryCatalog(database), PlanOptions(DOCUMENT_FIRST)).physical.residual
    assert residual.count("UNION ALL") == 199
    assert residual.count("LEFT JOIN") == 1
