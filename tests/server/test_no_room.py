"""A disk that is full: the statement fails and names the place, the server goes on, and with room it all works again.

The limit on the size of a file stands for the disk: it can be set for a running process, and taken back.
"""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import adbc_driver_flightsql.dbapi as dbapi
import pyarrow as pa
import pytest
from covey_server.errors import NoRoom, status_of
from covey_server.results import Rows
from grpc import StatusCode
from support.serving import ServerProcess, serve
from support.sql import rows, run

SORTED = "SELECT md5(range::VARCHAR) AS m FROM range(1000000) ORDER BY m LIMIT 1 OFFSET 900000"
LONG = "SELECT range AS n, repeat('x', 1000) AS s FROM range(60000)"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server on a database file, with little memory and temporary files of its own."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "temporary").mkdir()
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TMPDIR", str(folder / "temporary"))
        process = serve(
            folder,
            *("--model", "none", "--database", str(folder / "shop.duckdb")),
            *("--sql-memory", "48MB", "--sql-threads", "1"),
        )
    yield process
    assert process.stop() == 0
    assert "Traceback" not in process.output()
    assert list((folder / "temporary").iterdir()) == []


@contextmanager
def full(process: ServerProcess | None = None) -> Iterator[None]:
    """While the block runs, no file that this process (or the given one) writes grows beyond 64 KiB."""
    pid = 0 if process is None else process.pid
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1 << 16, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def refused(connection: dbapi.Connection, sql: str) -> str:
    with pytest.raises(dbapi.Error) as caught:
        rows(connection, sql)
    return str(caught.value)


def test_a_database_file_that_cannot_grow_is_named(small: ServerProcess) -> None:
    with dbapi.connect(small.uri, autocommit=True) as connection:
        run(connection, "CREATE TABLE t AS SELECT range AS n FROM range(10)")
        with full(small):
            said = refused(connection, "INSERT INTO t SELECT range FROM range(300000)")
            assert "shop.duckdb" in said
            assert "ResourceExhausted" in said
            assert rows(connection, "SELECT count(*) FROM t") == [(10,)]
        assert run(connection, "INSERT INTO t SELECT range FROM range(300000)") == 300_000
        assert rows(connection, "SELECT count(*) FROM t") == [(300_010,)]


def test_a_sort_that_cannot_spill_is_told_so_and_runs_once_there_is_room(small: ServerProcess) -> None:
    with dbapi.connect(small.uri, autocommit=True) as connection:
        with full(small):
            said = refused(connection, SORTED)
            assert "duckdb_temp_" in said
            assert "ResourceExhausted" in said
            assert rows(connection, "SELECT 1") == [(1,)]
        assert len(rows(connection, SORTED)) == 1


def test_a_result_that_cannot_be_kept_costs_its_reader_alone(small: ServerProcess) -> None:
    for room in (False, True):
        with dbapi.connect(small.uri) as connection, connection.cursor() as reading:
            reading.execute(LONG)
            batches = reading.fetch_record_batch()
            first = batches.read_next_batch().num_rows
            if room:
                assert rows(connection, "SELECT 1") == [(1,)]
                assert first + sum(batch.num_rows for batch in batches) == 60_000
                continue
            with full(small):
                assert rows(connection, "SELECT 1") == [(1,)]
            with pytest.raises(
                Exception, match="the rest of the result was dropped, as it cannot be kept"
            ) as caught:
                list(batches)
            assert "temporary: File too large" in str(caught.value)
            assert rows(connection, "SELECT 2") == [(2,)]


def test_a_source_that_fails_like_a_disk_is_not_taken_for_one() -> None:
    def source() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": [1]})
        raise OSError("INTERRUPT Error: Interrupted!")

    kept = Rows(pa.schema([("n", pa.int64())]), source(), lambda: None)
    assert kept.spool() == 1
    assert kept.next() is not None
    with pytest.raises(OSError, match="INTERRUPT"):
        kept.next()
    kept.close()


def test_what_cannot_be_kept_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    closed: list[bool] = []
    batch = pa.record_batch({"s": ["x" * (1 << 20)] * 4})
    kept = Rows(batch.schema, iter([batch] * 12), lambda: closed.append(True))
    with full():
        assert kept.spool() == 0
    assert closed == [True]
    failure = kept.failure
    assert isinstance(failure, NoRoom)
    assert str(tmp_path) in str(failure)
    assert status_of(failure).code is StatusCode.RESOURCE_EXHAUSTED
    with pytest.raises(NoRoom):
        kept.next()
    assert kept.next() is None
    kept.close()
    assert list(tmp_path.iterdir()) == []
