"""Statements that write: what plain DuckDB with AI calls as a function would have written, and what they yield."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import duckdb
import pytest
from covey_planner.errors import PlanError
from covey_planner.plan import PlanOptions, plan
from support.plan_reference import DOCUMENT_FIRST, MemoryCatalog, Reference

F = "AI_FILTER('a?', body)"
G = "AI_FILTER('b?', note)"
P = "AI_FILTER(PROMPT('{0} is {1}', t.body, p.description))"


Fresh = Callable[[], duckdb.DuckDBPyConnection]


def flagged(fresh: Fresh) -> duckdb.DuckDBPyConnection:
    connection = fresh()
    connection.execute("ALTER TABLE tickets ADD COLUMN flag BOOLEAN")
    return connection


@pytest.mark.parametrize(
    ("sql", "written"),
    [
        (f"CREATE TABLE n AS SELECT id, {F} FROM tickets WHERE {F} OR id < 5", "n"),
        (
            f"CREATE OR REPLACE TEMP TABLE n AS (WITH w AS (FROM tickets WHERE {F}) SELECT id, {G} AS g FROM w)",
            "n",
        ),
        (f"CREATE TABLE IF NOT EXISTS n(a, b) AS SELECT id, {F} FROM tickets WITH NO DATA", "n"),
        (f"INSERT INTO products (id, name) SELECT id, body FROM tickets WHERE {F}", "products"),
        (
            f"INSERT INTO products BY NAME SELECT id, body AS name FROM tickets WHERE {F} RETURNING id",
            "products",
        ),
        (
            f"INSERT INTO products (id) (SELECT id FROM tickets WHERE {F} UNION SELECT id FROM defects)",
            "products",
        ),
        (f"INSERT INTO tickets (id, body) FROM (SELECT id + 100, body FROM tickets WHERE {F})", "tickets"),
        (f"UPDATE tickets SET flag = {F}, note = upper(note) WHERE id < 20", "tickets"),
        (f"UPDATE tickets SET flag = true WHERE {F} AND NOT {G}", "tickets"),
        (f"UPDATE tickets SET flag = CASE WHEN id > 9 THEN {F} ELSE {G} END RETURNING id, flag", "tickets"),
        (f"UPDATE tickets SET (flag, note) = ({F}, 'x') WHERE id < 9", "tickets"),
        (
            f"UPDATE tickets AS t SET note = p.name, flag = {P} FROM products p WHERE t.product = p.id AND {P}",
            "tickets",
        ),
        (
            "UPDATE tickets SET flag = EXISTS (SELECT 1 FROM products p "
            "WHERE AI_FILTER(PROMPT('{0} is {1}', tickets.body, p.name)) AND p.id < 3)",
            "tickets",
        ),
        (
            "UPDATE tickets AS t SET flag = true FROM (SELECT id, AI_FILTER('x?', name) AS x FROM products) p "
            f"WHERE t.product = p.id AND p.x AND {F}",
            "tickets",
        ),
        (
            "UPDATE tickets AS t SET note = d.title FROM products p LEFT JOIN defects d ON d.id = p.id "
            f"AND AI_FILTER('d?', d.title) WHERE t.product = p.id AND {F}",
            "tickets",
        ),
        (
            "DELETE FROM tickets t USING products p RIGHT JOIN defects d ON d.id = p.id "
            f"WHERE t.product = d.product AND {F}",
            "tickets",
        ),
        (
            "DELETE FROM tickets t USING (SELECT id FROM products WHERE AI_FILTER('x?', name)) p, defects d "
            "WHERE t.product = p.id AND d.id = p.id AND AI_FILTER('d?', d.title)",
            "tickets",
        ),
        (
            "WITH w AS (SELECT id FROM products WHERE AI_FILTER('x?', name)) "
            "UPDATE tickets SET flag = false WHERE product IN (FROM w)",
            "tickets",
        ),
        (f"DELETE FROM tickets WHERE {F} OR id = 3", "tickets"),
        (
            "DELETE FROM tickets t USING products p, defects d "
            f"WHERE t.product = p.id AND d.product = p.id AND {P} RETURNING t.id",
            "tickets",
        ),
        (
            "DELETE FROM tickets WHERE id IN (SELECT t.id FROM tickets t "
            f"LEFT JOIN products p ON {P} WHERE p.id IS NULL)",
            "tickets",
        ),
    ],
)
def test_what_is_written(fresh: Fresh, sql: str, written: str) -> None:
    with flagged(fresh) as planned_, flagged(fresh) as plain:
        found = plan(sql, MemoryCatalog(planned_), PlanOptions(DOCUMENT_FIRST))
        assert found.writes
        before = planned_.execute(f"SELECT count(*) FROM {written}").fetchall() if written != "n" else []
        planned_._bind(found.describe_sql, with_writes=True, values=None)
        if before:
            assert planned_.execute(f"SELECT count(*) FROM {written}").fetchall() == before
        rows = Reference(planned_).run(found.physical)[1]
        assert Counter(map(repr, rows)) == Counter(map(repr, plain.execute(sql).fetchall()))
        names, wanted = (connection.sql(f"FROM {written}").columns for connection in (planned_, plain))
        if written != "n" or "AS g" in sql or "n(a, b)" in sql:
            assert names == wanted
        contents = [connection.execute(f"FROM {written}").fetchall() for connection in (planned_, plain)]
        assert Counter(map(repr, contents[0])) == Counter(map(repr, contents[1]))


def test_parameters_stand_anywhere(fresh: Fresh) -> None:
    with flagged(fresh) as connection:
        sql = f"UPDATE tickets SET note = ? WHERE {F} AND id < ? RETURNING ?"
        found = plan(sql, MemoryCatalog(connection), PlanOptions(DOCUMENT_FIRST), ["it's ?", 9, 7])
        rows = Reference(connection).run(found.physical)[1]
        assert set(rows) == {(7,)}
        changed = connection.execute("SELECT count(*) FROM tickets WHERE note = 'it''s ?'").fetchall()
        assert changed == [(len(rows),)]
        sql = f"INSERT INTO products (id, name) SELECT id, ? FROM tickets WHERE {F} RETURNING name || ?"
        found = plan(sql, MemoryCatalog(connection), PlanOptions(DOCUMENT_FIRST), ["a", "b"])
        assert set(Reference(connection).run(found.physical)[1]) == {("ab",)}


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "INSERT INTO products VALUES (1, DEFAULT, 'b', AI_FILTER('q', 'x'))",
            "DEFAULT beside an AI call in VALUES",
        ),
        (
            "INSERT INTO products SELECT 1 RETURNING AI_FILTER('q', name)",
            "an AI call in RETURNING is not supported",
        ),
        ("DELETE FROM tickets RETURNING AI_FILTER('q', body)", "an AI call in RETURNING is not"),
        (f"MERGE INTO tickets t USING products p ON {P} WHEN MATCHED THEN DELETE", "an AI call in MERGE"),
        (
            f"WITH w AS (SELECT 1) INSERT INTO products (id) SELECT id FROM tickets WHERE {F}",
            "WITH stands behind INSERT",
        ),
        (f"CREATE VIEW IF NOT EXISTS v AS SELECT id FROM tickets WHERE {F}", "CREATE OR REPLACE VIEW"),
        (f"CREATE VIEW other.v AS SELECT id FROM tickets WHERE {F}", "belongs in the schema main"),
        (f"CREATE VIEW v AS SELECT id FROM tickets WHERE {F} AND id < ?", "a view has no parameters"),
        (f"UPDATE tickets SET flag = {F} WHERE nothing = 1", "no column 'nothing'"),
        ("UPDATE tickets SET flag = AI_FILTER('a?', bodi)", "no column 'bodi' (there is body"),
        (f"CREATE INDEX i ON tickets ({F})", "an AI call in an index is not supported"),
    ],
)
def test_what_is_refused(fresh: Fresh, sql: str, message: str) -> None:
    with flagged(fresh) as connection, pytest.raises(PlanError) as caught:
        plan(sql, MemoryCatalog(connection), PlanOptions(DOCUMENT_FIRST))
    assert message in str(caught.value)
