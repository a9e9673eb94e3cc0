"""Readers that stop reading: the server keeps little for them, works for others, and lets go when they are stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as dbapi
import grpc
import pytest
from covey_server import server as serving
from covey_server.proto import flight_pb2 as flight
from covey_server.proto import flight_sql_pb2 as sql
from covey_server.threads import Threads
from covey_server.wire import descriptor, pack
from grpc import StatusCode
from support.hash_model import HashEngine
from support.hash_server import Host
from support.sql import rows, run

METHOD = "/arrow.flight.protocol.FlightService/"
READERS = 4
THREADS = 2
"""Fewer than there are readers: one that waits must hold none."""

LARGE = (
    "SELECT t.id, repeat('x', 10000) AS s FROM t, range(1000000) "
    "WHERE AI_FILTER('Is it {n}?', upper(t.body)) IS NOT NULL"
)
"""40 GB; the computed text is kept in temporary files as long as the statement runs."""

KEPT_ROWS = 10_000
"""100 MB: far more than the slices that are under way, and far less than the result."""


@pytest.fixture
def engine() -> HashEngine:
    return HashEngine()


@pytest.fixture
def uri(host: Host, folder: Path, engine: HashEngine, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(serving, "Threads", lambda: Threads(statements=THREADS, uploads=1, aside=2))
    with host.serve(folder, engine) as uri:
        with dbapi.connect(uri, autocommit=True) as connection:
            run(connection, "CREATE TABLE t AS SELECT range AS id, 'text ' || range AS body FROM range(4)")
        yield uri


@pytest.fixture
def channel(uri: str) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(uri.removeprefix("grpc://")) as channel:
        yield channel


def eventually(condition: Callable[[], Any], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass in time"
        time.sleep(0.02)


def begun(channel: grpc.Channel, text: str) -> tuple[Any, Any]:
    """A statement's FlightInfo, and its stream, of which one batch has been read."""
    plan = channel.unary_unary(METHOD + "GetFlightInfo", response_deserializer=flight.FlightInfo.FromString)
    info = plan(descriptor(pack(sql.CommandStatementQuery(query=text))).SerializeToString(), timeout=60)
    fetch = channel.unary_stream(METHOD + "DoGet", response_deserializer=flight.FlightData.FromString)
    stream = fetch(info.endpoint[0].ticket.SerializeToString())
    next(stream)
    assert next(stream).data_body
    return info, stream


def test_readers_that_stop_reading_hold_neither_memory_nor_threads_nor_the_model(
    uri: str, channel: grpc.Channel, engine: HashEngine, folder: Path
) -> None:
    texts = [LARGE.format(n=number) for number in range(READERS)]
    streams = [begun(channel, text) for text in texts]
    with dbapi.connect(uri, autocommit=True) as connection:
        sent = "SELECT sql, rows, state FROM covey_queries WHERE sql LIKE 'SELECT t.id, repeat%' ORDER BY sql"
        before: list[tuple[Any, ...]] = []
        while (now := rows(connection, sent)) != before:
            before = now
            time.sleep(0.3)
        assert [(text, state) for text, _, state in now] == [(text, "running") for text in texts]
        assert all(0 < count < KEPT_ROWS for _, count, _ in now)
        assert all(running.progress().tokens_to_come == 0 for running in engine.running)
        assert rows(
            connection, "SELECT count(*) FROM t WHERE AI_FILTER('Is it another?', body) IS NOT NULL"
        ) == [(4,)]
        # One is stopped by somebody else, one leaves, the others go on where they were.
        (info, stopped), (_, left), (_, goes_on), (_, last) = streams
        act = channel.unary_stream(METHOD + "DoAction")
        body = flight.CancelFlightInfoRequest(info=info).SerializeToString()
        assert len(list(act(flight.Action(type="CancelFlightInfo", body=body).SerializeToString()))) == 1
        left.cancel()
        states = "SELECT state FROM covey_queries WHERE sql LIKE 'SELECT t.id, repeat%' ORDER BY sql"
        eventually(
            lambda: rows(connection, states) == [("cancelled",), ("cancelled",), ("running",), ("running",)]
        )
        with pytest.raises(grpc.RpcError) as caught:
            for _ in stopped:
                pass
        assert caught.value.code() is StatusCode.CANCELLED
        for stream in (goes_on, last):
            assert next(stream).data_body
            stream.cancel()
        eventually(lambda: {state for (state,) in rows(connection, states)} == {"cancelled"})
        eventually(lambda: list((folder / "scratch").iterdir()) == [])
        assert rows(connection, "SELECT count(*) FROM duckdb_tables() WHERE temporary") == [(0,)]
