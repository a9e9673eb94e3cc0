"""Large results, cancellation and progress, by plain gRPC calls where no driver shows them."""

from __future__ import annotations

import threading
import time
from typing import Any

import adbc_driver_flightsql.dbapi as dbapi
import grpc
import pyarrow as pa
import pytest
from covey_server.proto import flight_pb2 as flight
from covey_server.proto import flight_sql_pb2 as sql
from covey_server.wire import pack
from support.flight_calls import METHOD, query, read, stream, unary
from support.sql import rows, table

ENDLESS = "SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b"
LONG = "SELECT a.range AS a, b.range AS b FROM range(1000000) a, range(1000000) b"


def states(connection: dbapi.Connection, text: str) -> set[str]:
    return {state for (state,) in rows(connection, "SELECT state FROM covey_queries WHERE sql = ?", (text,))}


def eventually(condition: Any, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass in time"
        time.sleep(0.02)


def test_large_results_come_in_slices(channel: grpc.Channel) -> None:
    text = "SELECT range AS n, repeat('x', 1000) AS s FROM range(30000)"
    info = unary(channel, "GetFlightInfo", query(text), flight.FlightInfo)
    messages = list(stream(channel, "DoGet", info.endpoint[0].ticket, flight.FlightData))
    sizes = [len(message.data_body) for message in messages]
    assert max(sizes) < 1.5 * (1 << 20)
    assert len(sizes) > 20
    found = read(iter(messages))
    assert found.num_rows == 30000
    assert found["n"].to_pylist() == list(range(30000))


def test_the_announced_schema_is_the_streams(channel: grpc.Channel) -> None:
    text = "SELECT * EXCLUDE (uhugeint) FROM test_all_types()"
    info = unary(channel, "GetFlightInfo", query(text), flight.FlightInfo)
    announced = pa.ipc.read_schema(pa.py_buffer(info.schema))
    asked = unary(channel, "GetSchema", query(text), flight.SchemaResult)
    found = read(stream(channel, "DoGet", info.endpoint[0].ticket, flight.FlightData))
    assert found.schema.equals(announced, check_metadata=True)
    assert pa.ipc.read_schema(pa.py_buffer(asked.schema)).equals(announced, check_metadata=True)


def test_a_ticket_is_good_once(channel: grpc.Channel) -> None:
    info = unary(channel, "GetFlightInfo", query("SELECT 1"), flight.FlightInfo)
    ticket = info.endpoint[0].ticket
    assert read(stream(channel, "DoGet", ticket, flight.FlightData)).num_rows == 1

    def code() -> grpc.StatusCode:
        with pytest.raises(grpc.RpcError) as caught:
            list(stream(channel, "DoGet", ticket, flight.FlightData))
        return caught.value.code()

    assert code() is grpc.StatusCode.NOT_FOUND


def test_nothing_runs_before_the_first_fetch(channel: grpc.Channel, connection: dbapi.Connection) -> None:
    begun = time.monotonic()
    info = unary(channel, "GetFlightInfo", query(ENDLESS), flight.FlightInfo)
    assert time.monotonic() - begun < 2
    assert states(connection, ENDLESS) == {"planned"}
    action = flight.Action(
        type="CancelFlightInfo", body=flight.CancelFlightInfoRequest(info=info).SerializeToString()
    )
    (result,) = stream(channel, "DoAction", action, flight.Result)
    assert flight.CancelFlightInfoResult.FromString(result.body).status == flight.CANCEL_STATUS_CANCELLED
    assert states(connection, ENDLESS) == {"cancelled"}


def test_cancelling_the_fetch_stops_duckdb(channel: grpc.Channel, connection: dbapi.Connection) -> None:
    text = ENDLESS + " -- fetched"
    info = unary(channel, "GetFlightInfo", query(text), flight.FlightInfo)
    call = stream(channel, "DoGet", info.endpoint[0].ticket, flight.FlightData)
    eventually(lambda: states(connection, text) == {"running"})
    call.cancel()
    eventually(lambda: states(connection, text) == {"cancelled"})


def test_a_reader_that_leaves_stops_its_stream(connect) -> None:
    connection, watcher = connect(), connect(autocommit=True)
    with connection.cursor() as cursor:
        cursor.execute(LONG)
        cursor.fetch_record_batch().read_next_batch()
    eventually(lambda: states(watcher, LONG) == {"cancelled"})
    assert rows(connection, "SELECT 1") == [(1,)]


def test_adbc_cancel_raises_and_the_connection_goes_on(connect) -> None:
    connection, watcher = connect(autocommit=True), connect(autocommit=True)
    text = ENDLESS + " -- cancelled by the driver"
    with connection.cursor() as cursor:

        def cancel() -> None:
            eventually(lambda: states(watcher, text) == {"running"})
            cursor.adbc_cancel()

        thread = threading.Thread(target=cancel)
        thread.start()
        cursor.execute(text)
        with pytest.raises(dbapi.OperationalError):
            cursor.fetchall()
        thread.join()
    eventually(lambda: states(watcher, text) == {"cancelled"})
    assert rows(connection, "SELECT 1") == [(1,)]


def test_a_long_update_is_cancelled_too(channel: grpc.Channel, connection: dbapi.Connection) -> None:
    text = f"CREATE TABLE never AS {ENDLESS}"
    call = channel.unary_unary(METHOD + "GetFlightInfo")
    running = call.future(query(text).SerializeToString())
    eventually(lambda: states(connection, text) == {"running"})
    running.cancel()
    eventually(lambda: states(connection, text) == {"cancelled"})
    with pytest.raises(dbapi.ProgrammingError):
        rows(connection, "SELECT * FROM never")


def test_polling_ends_with_the_rows(channel: grpc.Channel) -> None:
    poll = unary(channel, "PollFlightInfo", query("SELECT range AS n FROM range(10)"), flight.PollInfo)
    assert not poll.HasField("flight_descriptor")
    assert poll.info.total_records == 10
    found = read(stream(channel, "DoGet", poll.info.endpoint[0].ticket, flight.FlightData))
    assert found["n"].to_pylist() == list(range(10))


def test_polling_a_long_query_goes_on_until_cancelled(
    channel: grpc.Channel, connection: dbapi.Connection
) -> None:
    text = ENDLESS + " -- polled"
    poll = unary(channel, "PollFlightInfo", query(text), flight.PollInfo)
    assert not poll.info.endpoint
    again = unary(channel, "PollFlightInfo", poll.flight_descriptor, flight.PollInfo)
    assert again.flight_descriptor == poll.flight_descriptor
    body = pack(sql.ActionCancelQueryRequest(info=again.info.SerializeToString()))
    list(stream(channel, "DoAction", flight.Action(type="CancelQuery", body=body), flight.Result))
    assert states(connection, text) == {"cancelled"}


def test_polling_reports_what_went_wrong(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        unary(channel, "PollFlightInfo", query("SELECT says::INTEGER FROM animals"), flight.PollInfo)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_incremental_execution_of_the_driver(connection: dbapi.Connection) -> None:
    with connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**{"adbc.statement.exec.incremental": "true"})
        partitions, schema = cursor.adbc_execute_partitions("SELECT range AS n FROM range(5)")
        assert schema.names == ["n"]
        cursor.adbc_read_partition(partitions[0])
        assert cursor.fetchall() == [(n,) for n in range(5)]


def test_many_streams_at_once(connect) -> None:
    connections = [connect(autocommit=True) for _ in range(8)]
    results: list[int] = []

    def read_all(connection: dbapi.Connection) -> None:
        results.append(table(connection, "SELECT range FROM range(300000)").num_rows)

    threads = [threading.Thread(target=read_all, args=(connection,)) for connection in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [300_000] * 8
