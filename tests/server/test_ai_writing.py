"""Statements with AI calls that write, through the real client: counts, parameters, transactions, and failures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import adbc_driver_flightsql.dbapi as dbapi
import pytest
from support.hash_server import Host
from support.sql import rows, run

URGENT = "AI_FILTER('Is it urgent?', body)"


@pytest.fixture
def uri(host: Host, tmp_path: Path) -> Iterator[str]:
    """A server with a small table, of which the model calls some rows urgent."""
    with host.serve(tmp_path) as address:
        with dbapi.connect(address, autocommit=True) as connection:
            run(
                connection,
                "CREATE TABLE notes AS "
                "SELECT range AS id, 'text ' || range AS body, NULL::BOOLEAN AS urgent FROM range(40)",
            )
        yield address


@pytest.fixture
def client(uri: str) -> Iterator[dbapi.Connection]:
    with dbapi.connect(uri, autocommit=True) as connection:
        yield connection


def urgent(client: dbapi.Connection) -> list[int]:
    return [row[0] for row in rows(client, f"SELECT id FROM notes WHERE {URGENT} ORDER BY id")]


def test_counts_of_changed_rows(client: dbapi.Connection) -> None:
    ids = urgent(client)
    assert 5 < len(ids) < 35
    assert run(client, f"UPDATE notes SET urgent = {URGENT}") == 40
    assert [row[0] for row in rows(client, "SELECT id FROM notes WHERE urgent ORDER BY id")] == ids
    assert run(client, f"INSERT INTO notes (id) SELECT id + 100 FROM notes WHERE {URGENT}") == len(ids)
    assert run(client, f"DELETE FROM notes WHERE {URGENT}") == len(ids)
    assert rows(client, "SELECT count(*) FROM notes") == [(40,)]
    run(client, f"CREATE TABLE left_ AS SELECT id, {URGENT} AS urgent FROM notes WHERE id < 100")
    assert set(rows(client, "SELECT urgent, count(*) FROM left_ GROUP BY urgent")) == {(False, 40 - len(ids))}


def test_returning_yields_rows_and_runs_once(client: dbapi.Connection) -> None:
    ids = urgent(client)
    found = rows(
        client,
        f"INSERT INTO notes SELECT id + 100, body, true FROM notes WHERE {URGENT} RETURNING id, urgent",
    )
    assert sorted(found) == [(number + 100, True) for number in ids]
    assert rows(client, "SELECT count(*) FROM notes") == [(40 + len(ids),)]
    assert len(rows(client, f"DELETE FROM notes WHERE {URGENT} AND id >= 100 RETURNING *")) == len(ids)


def test_prepared_statements_take_one_or_many_rows_of_parameters(client: dbapi.Connection) -> None:
    ids = urgent(client)
    sql = f"UPDATE notes SET urgent = {URGENT} WHERE id >= ? AND id < ?"
    with client.cursor() as cursor:
        cursor.execute(sql, (0, 10))
        assert cursor.rowcount == 10
        cursor.executemany(sql, [(10, 20), (20, 40)])
        assert cursor.rowcount == 30
    assert [row[0] for row in rows(client, "SELECT id FROM notes WHERE urgent ORDER BY id")] == ids
    with client.cursor() as cursor:
        cursor.adbc_prepare(f"DELETE FROM notes WHERE {URGENT} AND id < ?")
        cursor.execute(f"DELETE FROM notes WHERE {URGENT} AND id < ?", (10,))
        assert cursor.rowcount == sum(number < 10 for number in ids)
    (prompts,) = rows(
        client, f"SELECT prompts FROM covey_queries WHERE sql = '{sql.replace(chr(39), chr(39) * 2)}'"
    )[-1]
    assert prompts == 30


def test_transactions_undo_and_keep(uri: str) -> None:
    with dbapi.connect(uri) as connection, dbapi.connect(uri, autocommit=True) as other:
        run(connection, f"DELETE FROM notes WHERE {URGENT}")
        left = rows(connection, "SELECT count(*) FROM notes")
        assert left < [(40,)]
        assert rows(other, "SELECT count(*) FROM notes") == [(40,)]
        connection.rollback()
        assert rows(connection, "SELECT count(*) FROM notes") == [(40,)]
        run(connection, f"DELETE FROM notes WHERE {URGENT}")
        connection.commit()
        assert rows(other, "SELECT count(*) FROM notes") == left


@pytest.mark.parametrize("explicit", [False, True])
def test_what_fails_writes_nothing(uri: str, explicit: bool) -> None:
    with dbapi.connect(uri, autocommit=not explicit) as connection:
        run(connection, "INSERT INTO notes VALUES (50, repeat('word ', 50000), NULL)")
        for sql in (
            f"UPDATE notes SET urgent = {URGENT}",
            f"DELETE FROM notes WHERE {URGENT}",
            f"CREATE TABLE made AS SELECT {URGENT} FROM notes",
            f"INSERT INTO notes SELECT id, body, {URGENT} FROM notes RETURNING id",
        ):
            with pytest.raises(dbapi.Error, match="tokens"):
                run(connection, sql)
        assert rows(connection, "SELECT count(*), count(urgent) FROM notes") == [(41, 0)]
        with pytest.raises(dbapi.Error, match="made"):
            rows(connection, "SELECT * FROM made")


def test_a_statement_is_checked_before_anything_is_asked(client: dbapi.Connection) -> None:
    for sql, said in (
        (f"INSERT INTO notes SELECT id, {URGENT} FROM notes", "2 columns|3 columns|2 values"),
        (f"INSERT INTO nothing SELECT {URGENT} FROM notes", "nothing"),
        (f"UPDATE notes SET nothing = {URGENT}", "nothing"),
        (f"CREATE TABLE covey_x AS SELECT {URGENT} FROM notes", "reserved"),
        ("CREATE TABLE covey_x AS SELECT AI.IF(('Is it urgent? ', body)) AS x FROM notes", "reserved"),
        (f"CREATE TEMP TABLE t AS SELECT {URGENT} FROM notes", "transaction"),
        (f"COPY (SELECT {URGENT} FROM notes) TO '/tmp/x.csv'", "COPY"),
    ):
        with pytest.raises(dbapi.Error, match=said):
            run(client, sql)
        (prompts,) = rows(client, "SELECT sum(prompts)::BIGINT FROM covey_queries")[0]
        assert prompts == 0


def test_other_dialects_write_under_the_same_rules(client: dbapi.Connection) -> None:
    ids = urgent(client)
    run(client, "SET ai_dialect = 'snowflake'")
    for kind, said in (("TEMPORARY TABLE t", "transaction"), ("TABLE covey_t", "reserved")):
        with pytest.raises(dbapi.Error, match=said):
            run(
                client,
                f"CREATE {kind} AS SELECT id FROM notes WHERE AI_FILTER(PROMPT('Is it urgent? {{0}}', body))",
            )
    assert run(client, f"UPDATE notes SET urgent = {URGENT} WHERE {URGENT}") == len(ids)
    assert run(client, f"DELETE FROM notes WHERE {URGENT}") == len(ids)
