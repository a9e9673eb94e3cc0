"""A database that DuckDB has given up is opened again: who broke it hears so, who was beside it is told to repeat."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import adbc_driver_flightsql.dbapi as dbapi
import duckdb
import pytest
from covey_server import guard as guarding
from covey_server.config import ServerConfig
from covey_server.core import Core
from covey_server.guard import Guard
from covey_server.server import Server
from covey_server.sessions import Sessions
from covey_storage.catalog import Database
from covey_storage.errors import StorageError
from support.hash_server import Host
from support.sql import rows, run

FATAL = (
    "SELECT count(*) FROM tickets t LEFT JOIN products p ON (CASE WHEN t.id IN (SELECT id FROM products) THEN true END)"
    " JOIN tickets u ON t.id < u.id"
)
"""On this DuckDB fails for good."""

Open = Callable[[Path | None], str]


def broken(connection: dbapi.Connection) -> str:
    with pytest.raises(dbapi.InternalError) as caught:
        rows(connection, FATAL)
    return str(caught.value)


@contextmanager
def serving(host: Host, database: Database) -> Iterator[str]:
    """A server on this database whose guard lets everything through."""

    async def start() -> tuple[Server, int]:
        server = Server(ServerConfig(port=0, grace_seconds=0), database, guard, None)
        port = server.bind()
        await server.start()
        return server, port

    cursor = database.cursor()
    guard = Guard(cursor)
    cursor.close()
    server, port = host.do(start())
    try:
        yield f"grpc://127.0.0.1:{port}"
    finally:
        host.do(server.stop())


@pytest.fixture(params=["memory", "file"])
def database(
    request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Database]:
    monkeypatch.setattr(guarding, "fragile_text", lambda _sql: False)
    (folder / "tickets.csv").write_text("id\n1\n2\n3\n4\n5\n")
    (folder / "products.csv").write_text("id\n1\n2\n")
    path = folder / "shop.duckdb" if request.param == "file" else None
    opened = Database.open(path, [folder / "tickets.csv", folder / "products.csv"])
    yield opened
    opened.close()


@pytest.fixture
def connect(host: Host, database: Database) -> Iterator[Callable[..., dbapi.Connection]]:
    with ExitStack() as stack:
        uri = stack.enter_context(serving(host, database))
        yield lambda **options: stack.enter_context(dbapi.connect(uri, **options))


def test_the_statement_after_the_one_that_broke_it_runs(connect, database: Database) -> None:
    connection = connect(autocommit=True)
    run(connection, "CREATE TABLE kept AS SELECT 42 AS n")
    for _ in range(2):
        said = broken(connection)
        assert "DuckDB failed on this statement (INTERNAL Error: " in said
        assert "; the database was opened again, with " in said
        assert "Stack Trace" not in said
        assert "\n" not in said
        assert rows(connection, "SELECT count(*) FROM tickets") == [(5,)]
    if database.path is not None:
        assert "with all that was committed" in said
        assert rows(connection, "SELECT n FROM kept") == [(42,)]
    else:
        assert "with the tables of its data files, and no others" in said
        with pytest.raises(dbapi.ProgrammingError, match="kept does not exist"):
            rows(connection, "SELECT n FROM kept")
    with pytest.raises(dbapi.ProgrammingError, match="SET is not available"):
        rows(connection, "SET enable_external_access = true")


def test_what_runs_beside_it_is_told_to_run_again(connect) -> None:
    reader, breaker, sums = (connect(autocommit=True) for _ in range(3))
    failed: list[str] = []

    def add_up() -> None:
        with pytest.raises(dbapi.OperationalError) as caught:
            rows(sums, "SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b")
        failed.append(str(caught.value))

    with reader.cursor() as cursor:
        cursor.execute("SELECT a.range FROM range(1000000) a, range(1000000) b")
        batches = cursor.fetch_record_batch()
        batches.read_next_batch()
        thread = threading.Thread(target=add_up)
        thread.start()
        while rows(breaker, "SELECT count(*) FROM covey_queries WHERE state = 'running'")[0][0] < 3:
            pass
        broken(breaker)
        thread.join()
        with pytest.raises(Exception, match="DuckDB failed on another statement") as caught:
            for _ in batches:
                pass
    assert "UNAVAILABLE" in str(caught.value) or "Unavailable" in str(caught.value)
    assert "DuckDB failed on another statement" in failed[0]
    assert "run this one again" in failed[0]
    for connection in (reader, breaker, sums):
        assert rows(connection, "SELECT count(*) FROM products") == [(2,)]


def test_a_transaction_that_has_written_is_lost_and_says_so(connect) -> None:
    writer, reading, breaker = connect(), connect(), connect(autocommit=True)
    run(writer, "CREATE TABLE never AS SELECT 1 AS n")
    assert rows(reading, "SELECT count(*) FROM tickets") == [(5,)]
    broken(breaker)
    assert rows(reading, "SELECT count(*) FROM tickets") == [(5,)]
    with pytest.raises(dbapi.OperationalError, match="the transaction is lost, as DuckDB failed on another"):
        rows(writer, "SELECT 1")
    writer.rollback()
    assert rows(writer, "SELECT count(*) FROM tickets") == [(5,)]
    with pytest.raises(dbapi.ProgrammingError, match="never does not exist"):
        rows(writer, "SELECT * FROM never")


def test_plans_that_were_made_ahead_are_made_anew(core: Core) -> None:
    sessions = Sessions(core.database, 60, 60)
    before = sessions.writes
    sessions.lose()
    assert sessions.writes > before


def test_an_error_that_leaves_the_database_as_it_is_changes_nothing(connect, database: Database) -> None:
    connection = connect()
    run(connection, "CREATE TABLE written AS SELECT 1 AS n")
    before = database.cursor()
    assert not database.reopen()
    assert before.execute("SELECT 1").fetchall() == [(1,)]
    assert rows(connection, "SELECT n FROM written") == [(1,)]


def test_a_database_that_cannot_be_opened_again_says_why(connect, database: Database, folder: Path) -> None:
    connection = connect(autocommit=True)
    hidden = folder / "tickets.csv"
    before = hidden.read_text()
    hidden.write_text("")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("covey_server.recovery._PATIENCE_SECONDS", 0.0)
        said = broken(connection)
        assert "the database cannot be opened again: cannot read data file" in said
        with pytest.raises(dbapi.Error, match="cannot be opened again"):
            rows(connection, "SELECT 1")
    hidden.write_text(before)
    with pytest.raises(
        dbapi.OperationalError, match=r"DuckDB failed on another statement; .*: run this one again"
    ):
        rows(connection, "SELECT 1")
    assert rows(connection, "SELECT count(*) FROM tickets") == [(5,)]


def test_a_file_stays_closed_as_long_as_something_holds_on_to_it(folder: Path) -> None:
    database = Database.open(folder / "shop.duckdb")
    held = database.cursor()
    held.execute("CREATE TABLE tickets AS SELECT range AS id FROM range(5)")
    held.execute("CREATE TABLE products AS SELECT range AS id FROM range(2)")
    reader = held.sql("FROM range(1000000)").to_arrow_reader(100)
    with pytest.raises(duckdb.InternalException):
        database.cursor().execute(FATAL)
    with pytest.raises(StorageError):
        database.reopen()
    reader.close()
    assert database.reopen()
    assert database.columns() == {"products": {"id": "BIGINT"}, "tickets": {"id": "BIGINT"}}
    database.close()
