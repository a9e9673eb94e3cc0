"""Every malformed statement is refused through the real client with its one line, place included, before the model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import adbc_driver_flightsql.dbapi as dbapi
import duckdb
import pytest
from support.hash_model import HashEngine
from support.hash_server import Host
from support.small_tables import build
from support.sql import rows, run

TEXT = (Path(__file__).parents[1] / "planner" / "malformed.sql").read_text("utf-8")
CASES = [part.strip().rsplit("\n-> ", 1) for part in TEXT.split("\n\n") if not part.startswith("--")]


def definitions() -> list[str]:
    """Statements that make the tables and views."""
    with duckdb.connect() as connection:
        build(connection)
        found = "SELECT sql FROM duckdb_tables() UNION ALL SELECT sql FROM duckdb_views() WHERE NOT internal"
        return [str(row[0]) for row in connection.execute(found).fetchall()]


@pytest.fixture(scope="module")
def engine() -> HashEngine:
    return HashEngine()


@pytest.fixture(scope="module")
def client(engine: HashEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dbapi.Connection]:
    host = Host()
    with (
        host.serve(tmp_path_factory.mktemp("tokens"), engine) as uri,
        dbapi.connect(uri, autocommit=True) as connection,
    ):
        for definition in definitions():
            run(connection, definition)
        yield connection
    host.close()


GUARDED = ("is not available to SQL users", "one statement at a time")
"""What the server says of statements that it refuses before anything is planned."""


@pytest.mark.parametrize(("sql", "expected"), CASES)
def test_message(client: dbapi.Connection, engine: HashEngine, sql: str, expected: str) -> None:
    with pytest.raises(dbapi.Error) as caught:
        rows(client, sql)
    found = str(caught.value)
    assert expected.partition(": ")[2] in found or any(words in found for words in GUARDED)
    assert "\n" not in found.strip()
    assert not engine.orders


def test_few_statements_are_refused_without_a_place(client: dbapi.Connection) -> None:
    placed = 0
    for sql, _ in CASES:
        with pytest.raises(dbapi.Error) as caught:
            rows(client, sql)
        placed += "(line " in str(caught.value)
    assert placed >= len(CASES) - 6
