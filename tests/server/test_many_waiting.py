"""As many statements and uploads as a server has threads for: others get through, and whoever waits can be stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import adbc_driver_flightsql.dbapi as dbapi
import grpc
import pyarrow as pa
import pytest
from covey_server import server as serving
from covey_server.callers import Call
from covey_server.flightsql import FlightSql, Stream
from covey_server.framing import frame_schema
from covey_server.proto import flight_pb2 as flight
from covey_server.proto import flight_sql_pb2 as sql
from covey_server.threads import Threads
from covey_server.wire import descriptor, pack
from support.hash_server import Host
from support.sql import rows

METHOD = "/arrow.flight.protocol.FlightService/"
ENDLESS = "SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b"


@pytest.fixture
def threads() -> Threads:
    return Threads(statements=2, uploads=1, aside=1)


@pytest.fixture
def uri(host: Host, folder: Path, threads: Threads, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(serving, "Threads", lambda: threads)
    with host.serve(folder) as uri:
        yield uri


@pytest.fixture
def channel(uri: str) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(uri.removeprefix("grpc://")) as channel:
        yield channel


def test_uploads_that_stand_still_keep_no_statement(
    uri: str, channel: grpc.Channel, threads: Threads
) -> None:
    options = sql.CommandStatementIngest.TableDefinitionOptions(if_not_exist=1, if_exists=1)
    command = sql.CommandStatementIngest(table="t", table_definition_options=options)
    first = flight.FlightData.FromString(frame_schema(pa.schema([("n", pa.int64())])))
    first.flight_descriptor.CopyFrom(descriptor(pack(command)))
    more = threading.Event()

    def sent() -> Iterator[bytes]:
        yield first.SerializeToString()
        more.wait(60)

    uploads = [channel.stream_stream(METHOD + "DoPut")(sent()) for _ in range(4)]
    deadline = time.monotonic() + 30
    while threads.uploads._work_queue.qsize() < 3:
        assert time.monotonic() < deadline, "the uploads did not come"
        time.sleep(0.02)
    with dbapi.connect(uri, autocommit=True) as connection:
        assert rows(connection, "SELECT 1") == [(1,)]
        for upload in uploads:
            upload.cancel()
        more.set()
        assert rows(connection, "SELECT 2") == [(2,)]


def test_a_statement_can_be_stopped_while_all_threads_are_taken(uri: str, channel: grpc.Channel) -> None:
    plan, fetch = channel.unary_unary(METHOD + "GetFlightInfo"), channel.unary_stream(METHOD + "DoGet")
    asked = descriptor(pack(sql.CommandStatementQuery(query=ENDLESS))).SerializeToString()
    infos = [flight.FlightInfo.FromString(plan(asked, timeout=30)) for _ in range(2)]
    with ExitStack() as stack:
        for info in infos:
            stack.callback(fetch(info.endpoint[0].ticket.SerializeToString()).cancel)
        act = channel.unary_stream(METHOD + "DoAction")
        for info in infos:
            body = flight.CancelFlightInfoRequest(info=info).SerializeToString()
            action = flight.Action(type="CancelFlightInfo", body=body).SerializeToString()
            assert len(list(act(action, timeout=30))) == 1
        with dbapi.connect(uri, autocommit=True) as connection:
            assert rows(connection, "SELECT 1") == [(1,)]


def test_a_reader_that_leaves_as_its_ticket_is_taken_leaves_nothing(
    uri: str, channel: grpc.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, left = threading.Event(), threading.Event()
    fetch = FlightSql.fetch

    def slow(self: FlightSql, call: Call, packed: bytes) -> Stream:
        stream = fetch(self, call, packed)
        taken.set()
        left.wait(30)
        return stream

    plan, read = channel.unary_unary(METHOD + "GetFlightInfo"), channel.unary_stream(METHOD + "DoGet")
    asked = descriptor(pack(sql.CommandStatementQuery(query="SELECT 7 AS left_alone"))).SerializeToString()
    info = flight.FlightInfo.FromString(plan(asked, timeout=30))
    monkeypatch.setattr(FlightSql, "fetch", slow)
    reading = read(info.endpoint[0].ticket.SerializeToString())
    assert taken.wait(30)
    reading.cancel()
    # The server hears of it in its own time.
    time.sleep(0.3)
    monkeypatch.setattr(FlightSql, "fetch", fetch)
    left.set()
    with dbapi.connect(uri, autocommit=True) as connection:
        states = "SELECT state FROM covey_queries WHERE sql = 'SELECT 7 AS left_alone'"
        deadline = time.monotonic() + 30
        while (found := rows(connection, states)) != [("cancelled",)]:
            assert time.monotonic() < deadline, found
            time.sleep(0.02)
