"""What the Python client executes is prepared first; its plan serves the execution, unless something was written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import adbc_driver_flightsql.dbapi as dbapi
import pytest
from covey_server.ai import ModelSide
from support.hash_server import Host
from support.sql import rows, run

ASKED = "SELECT id, AI_FILTER('Is it urgent?', body) FROM notes ORDER BY id"


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The text of each statement that is planned, as often as it is."""
    found: list[str] = []
    plan = ModelSide.plan
    monkeypatch.setattr(
        ModelSide,
        "plan",
        lambda self, checked, *rest: (found.append(checked.sql), plan(self, checked, *rest))[1],
    )
    return found


@pytest.fixture
def uri(host: Host, tmp_path: Path) -> Iterator[str]:
    with host.serve(tmp_path) as address:
        with dbapi.connect(address, autocommit=True) as connection:
            run(connection, "CREATE TABLE notes AS SELECT 1 AS id, 'late' AS body")
        yield address


def test_an_execution_uses_the_plan_once(uri: str, plans: list[str]) -> None:
    with dbapi.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
        for times in (1, 2):
            cursor.execute(ASKED)
            assert len(cursor.fetchall()) == 1
            assert plans == [ASKED] * times
        run(connection, "INSERT INTO notes SELECT 2, body FROM notes WHERE AI_SCORE('Is it?', body) >= 0")
        assert len(plans) == 3
        assert rows(connection, "SELECT count(*) FROM notes") == [(2,)]


def test_parameters_are_part_of_a_plan(uri: str, plans: list[str]) -> None:
    with dbapi.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT id FROM ({ASKED}) WHERE id = ?", (1,))
        assert cursor.fetchall() == [(1,)]
        assert len(plans) == 2


@pytest.mark.parametrize(
    "change",
    [
        "INSERT INTO notes VALUES (2, 'lost')",
        "CREATE OR REPLACE TABLE notes AS SELECT 1 AS id, 'lost' AS body UNION ALL SELECT 2, 'lost'",
        "CREATE OR REPLACE TABLE notes AS SELECT 'lost' AS body, range AS id FROM range(1, 3)",
    ],
)
def test_what_is_written_meanwhile_is_seen(uri: str, plans: list[str], change: str) -> None:
    with dbapi.connect(uri, autocommit=True) as one, dbapi.connect(uri, autocommit=True) as other:
        with one.cursor() as cursor:
            cursor.adbc_prepare(ASKED)
            run(other, change)
            cursor.execute(ASKED)
            assert [number for number, _ in cursor.fetchall()] == [1, 2]
        assert len(plans) == 2


def test_what_is_committed_meanwhile_is_seen(uri: str, plans: list[str]) -> None:
    with dbapi.connect(uri, autocommit=True) as one, dbapi.connect(uri) as other, one.cursor() as cursor:
        run(other, "CREATE OR REPLACE TABLE notes AS SELECT 7 AS id, 'late' AS body")
        cursor.adbc_prepare(ASKED)
        other.commit()
        cursor.execute(ASKED)
        assert [number for number, _ in cursor.fetchall()] == [7]
        assert len(plans) == 2


def test_a_transaction_plans_what_it_runs(uri: str, plans: list[str]) -> None:
    with dbapi.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.adbc_prepare(ASKED)
        run(connection, "BEGIN")
        run(connection, "INSERT INTO notes VALUES (2, 'wet')")
        cursor.execute(ASKED)
        assert len(cursor.fetchall()) == 2
        run(connection, "ROLLBACK")
        cursor.execute(ASKED)
        assert len(cursor.fetchall()) == 1
        assert len(plans) == 3


def test_another_schema_has_other_tables(uri: str, plans: list[str]) -> None:
    everything = "SELECT * FROM notes WHERE AI_FILTER('Is it urgent?', body) OR true"
    with dbapi.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
        run(connection, "CREATE SCHEMA side")
        run(connection, "CREATE TABLE side.notes AS SELECT 1 AS id, 'late' AS body, 2 AS more")
        cursor.adbc_prepare(everything)
        connection.adbc_current_db_schema = "side"
        cursor.execute(everything)
        assert cursor.fetch_arrow_table().column_names == ["id", "body", "more"]
    assert len(plans) == 2


def test_what_other_statements_did_is_read_anew(uri: str, plans: list[str]) -> None:
    counted = "SELECT count(*) FROM covey_queries WHERE AI_FILTER('Is it a query?', sql) OR true"
    with dbapi.connect(uri, autocommit=True) as connection:
        ((before,),) = rows(connection, counted)
        assert rows(connection, counted) > [(before,)]
    assert len(plans) == 4
