"""The worker killed again and again while queries run: each ends, nothing is left behind, the next statement works."""

from __future__ import annotations

import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as dbapi
import psutil
import pytest
from covey_engine.prefill.config import EngineConfig
from covey_engine.prefill.process import client as engines
from covey_engine.prefill.process.client import EngineClient
from support.fake_worker import OPENER, PAUSE
from support.hash_server import Host
from support.sql import rows, run

TESTS = Path(__file__).resolve().parents[1]
ROWS = 200
FORMS = (
    "SELECT count(*) FROM t WHERE AI_FILTER('Is it {n}?', body)",
    "SELECT id, AI_SCORE('Is it {n}?', body || '{n}') FROM t",
    "EXPLAIN ANALYZE SELECT id FROM t WHERE AI_FILTER('Is it {n}?', body)",
    "CREATE TABLE made{n} AS SELECT id FROM t WHERE AI_FILTER('Is it {n}?', body) IS NOT NULL",
    "INSERT INTO grown SELECT id FROM t WHERE AI_FILTER('Is it {n}?', body) IS NOT NULL",
    "SELECT a.id, b.id FROM t a JOIN t b ON AI_FILTER(PROMPT('Is {{0}} {{1}} {n}?', a.body, b.body)) "
    "WHERE a.id < 4 AND b.id < 20",
)
"""Statements that ask something new each time; {n} is a name of their own."""

LOST = ("the prefill worker was lost", "the prefill worker ended while it loaded")


@pytest.fixture(scope="module")
def pause(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """While this file is there, no worker computes more than one chunk."""
    return tmp_path_factory.mktemp("pause") / "here"


@pytest.fixture(scope="module")
def engine(pause: Path) -> Iterator[EngineClient]:
    """A worker process that takes 50 ms for a chunk."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", str(TESTS), prepend=os.pathsep)
        patched.setenv(PAUSE, str(pause))
        opened = EngineClient.start(EngineConfig("paused", chunk_tokens=512), OPENER)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the server's token columns."""
    return tmp_path_factory.mktemp("tokens")


@pytest.fixture(scope="module")
def uri(host: Host, place: Path, engine: EngineClient) -> Iterator[str]:
    with host.serve(place, engine) as uri:
        with dbapi.connect(uri, autocommit=True) as connection:
            run(
                connection,
                f"CREATE TABLE t AS SELECT range AS id, 'text ' || range AS body FROM range({ROWS})",
            )
            run(connection, "CREATE TABLE grown (id BIGINT)")
        yield uri


@pytest.fixture
def connection(uri: str) -> Iterator[dbapi.Connection]:
    with dbapi.connect(uri, autocommit=True) as opened:
        yield opened


def eventually(condition: Callable[[], Any], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass in time"
        time.sleep(0.02)


def workers() -> list[psutil.Process]:
    """Those of this module's engine: other tests' servers go on."""
    return [child for child in psutil.Process().children() if _paused(child)]


def _paused(process: psutil.Process) -> bool:
    try:
        return PAUSE in process.environ()
    except psutil.Error:
        return False


def kill() -> None:
    for worker in workers():
        worker.kill()


def held(place: Path) -> dict[str, Any]:
    """What a query may leave behind: open files, sockets, processes, temporary files."""
    scratch = place / "scratch"
    return {
        "descriptors": psutil.Process().num_fds(),
        "workers": len(workers()),
        "scratch": list(scratch.iterdir()) if scratch.exists() else [],
        "temporary": sorted(
            path.name for path in Path(tempfile.gettempdir()).glob(f"covey-*-{os.getpid()}-*")
        ),
        "shared memory": sorted(path.name for path in Path("/dev/shm").glob("*covey*")),
    }


def computing(connection: dbapi.Connection) -> bool:
    """Whether a chunk has been computed for a statement that runs."""
    asked = "SELECT count(*) FROM covey_queries WHERE state = 'running' AND fresh_tokens > 0"
    return bool(rows(connection, asked)[0][0])


def kill_in_the_middle(connection: dbapi.Connection, pause: Path) -> None:
    """Kill the worker while it computes for a statement."""
    pause.touch()
    eventually(lambda: computing(connection))
    kill()
    pause.unlink()


class Asker(threading.Thread):
    """Runs statements one after another; done: each with its error or None."""

    def __init__(self, uri: str, seed: int, stopping: threading.Event) -> None:
        super().__init__(daemon=True)
        self.done: list[tuple[str, str | None]] = []
        self._uri, self._seed, self._stopping = uri, seed, stopping

    def run(self) -> None:
        draw = random.Random(self._seed)
        with dbapi.connect(self._uri, autocommit=True) as connection:
            for number in range(1000):
                if self._stopping.is_set():
                    return
                sql = draw.choice(FORMS).format(n=f"{self._seed}x{number}")
                try:
                    rows(connection, sql)
                    self.done.append((sql, None))
                except dbapi.Error as error:
                    self.done.append((sql, str(error)))


def test_workers_killed_at_random_moments_leave_nothing_behind(
    uri: str, connection: dbapi.Connection, place: Path, pause: Path
) -> None:
    before = held(place)
    stopping = threading.Event()
    askers = [Asker(uri, seed, stopping) for seed in range(3)]
    for asker in askers:
        asker.start()
    draw = random.Random(7)
    for turn in range(6):
        if turn % 3 == 0:
            kill_in_the_middle(connection, pause)
        # The others come while a worker starts, or whatever is done then.
        time.sleep(draw.choice((0.05, 0.5, 1.5)))
        kill()
    stopping.set()
    for asker in askers:
        asker.join(120)
        assert not asker.is_alive(), "a statement hangs"
    done = [each for asker in askers for each in asker.done]
    assert all(error is None or any(said in error for said in LOST) for _, error in done), done
    assert any(error is not None for _, error in done)
    made = {sql.split()[2] for sql, error in done if sql.startswith("CREATE") and error is None}
    there = {name for (name,) in rows(connection, "SELECT table_name FROM duckdb_tables()")} - {"t", "grown"}
    assert there == made
    for name in made:
        assert rows(connection, f"SELECT count(*) FROM {name}") == [(ROWS,)]
    inserted = sum(sql.startswith("INSERT") and error is None for sql, error in done)
    assert rows(connection, "SELECT count(*) FROM grown") == [(ROWS * inserted,)]
    assert rows(connection, "SELECT count(*) FROM t WHERE AI_FILTER('Is it the last?', body) IS NULL") == [
        (0,)
    ]
    assert rows(connection, "SELECT count(*) FROM covey_queries WHERE state = 'running'") == [(1,)]
    deadline = time.monotonic() + 30
    while (left := held(place)) != before and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == before


@pytest.mark.parametrize("form", FORMS)
def test_a_worker_killed_in_the_middle_of_a_statement_fails_it_alone(
    uri: str, connection: dbapi.Connection, pause: Path, form: str
) -> None:
    sql = form.format(n="middle")
    failed: list[str] = []

    def ask() -> None:
        with dbapi.connect(uri, autocommit=True) as other, pytest.raises(dbapi.Error) as caught:
            rows(other, sql)
        failed.append(str(caught.value))

    asking = threading.Thread(target=ask)
    asking.start()
    kill_in_the_middle(connection, pause)
    asking.join(60)
    assert len(failed) == 1
    assert "the prefill worker was lost (killed by SIGKILL)" in failed[0]
    assert "Unavailable" in failed[0]
    assert rows(connection, "SELECT state FROM covey_queries WHERE sql = ?", (sql,)) == [("failed",)]
    assert len(rows(connection, sql)) <= ROWS


def test_a_transaction_in_which_a_worker_was_lost_keeps_what_it_wrote_or_says_so(
    uri: str, pause: Path
) -> None:
    with dbapi.connect(uri) as connection, dbapi.connect(uri, autocommit=True) as watching:
        run(connection, "CREATE TABLE kept AS SELECT 1 AS n")
        sql = FORMS[0].format(n="in a transaction")
        killing = threading.Thread(target=kill_in_the_middle, args=(watching, pause))
        killing.start()
        with pytest.raises(dbapi.Error, match="the prefill worker was lost"):
            rows(connection, sql)
        killing.join()
        assert rows(connection, "SELECT n FROM kept") == [(1,)]
        connection.commit()
        assert rows(watching, "SELECT n FROM kept") == [(1,)]
        run(watching, "DROP TABLE kept")


def test_a_query_that_waits_for_the_next_worker_can_be_stopped(
    uri: str, connection: dbapi.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    starting, go = threading.Event(), threading.Event()
    start = EngineClient._start_worker

    def late(self: EngineClient) -> Any:
        starting.set()
        go.wait(60)
        return start(self)

    monkeypatch.setattr(engines.EngineClient, "_start_worker", late)
    kill()
    assert starting.wait(30)
    sql = "SELECT id FROM t WHERE AI_FILTER('Is there nobody?', body)"
    try:
        # What a plan needs to know of the model is known.
        assert rows(connection, f"EXPLAIN {sql}")
        with dbapi.connect(uri, autocommit=True) as other, other.cursor() as cursor:
            cursor.execute(sql)
            states = "SELECT state FROM covey_queries WHERE sql = ?"

            def stop() -> None:
                eventually(lambda: rows(connection, states, (sql,)) == [("running",)])
                cursor.adbc_cancel()

            stopping = threading.Thread(target=stop)
            stopping.start()
            with pytest.raises(dbapi.Error, match=r"(?i)cancel"):
                cursor.fetchall()
            stopping.join()
            eventually(lambda: rows(connection, states, (sql,)) == [("cancelled",)])
            assert not go.is_set()
    finally:
        go.set()
    assert len(rows(connection, sql)) <= ROWS
