"""Large results, cancellation, progress, health and the protocol itself, where no driver shows it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import adbc_driver_flightsql.dbapi as dbapi
import grpc
import pyarrow as pa
import pytest
from covey_server.framing import Upload
from covey_server.proto import flight_pb2 as flight
from covey_server.proto import flight_sql_pb2 as sql
from covey_server.wire import descriptor, pack, unpack
from grpc_health.v1 import health_pb2, health_pb2_grpc
from support.sql import rows, run, table

METHOD = "/arrow.flight.protocol.FlightService/"
ENDLESS = "SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b"
LONG = "SELECT a.range AS a, b.range AS b FROM range(1000000) a, range(1000000) b"


@pytest.fixture
def channel(server) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.uri.removeprefix("grpc://")) as opened:
        yield opened


def unary(channel: grpc.Channel, method: str, request: Any, response: type, **options: Any) -> Any:
    call = channel.unary_unary(METHOD + method, response_deserializer=response.FromString)
    return call(request.SerializeToString(), timeout=20, **options)


def stream(channel: grpc.Channel, method: str, request: Any, response: type, **options: Any) -> Any:
    call = channel.unary_stream(METHOD + method, response_deserializer=response.FromString)
    return call(request.SerializeToString(), timeout=20, **options)


def query(text: str) -> Any:
    return descriptor(pack(sql.CommandStatementQuery(query=text)))


def read(messages: Iterator[Any]) -> pa.Table:
    upload = Upload(depth=1 << 20)
    for message in messages:
        upload.offer(message.SerializeToString())
    upload.end()
    return pa.ipc.open_stream(upload).read_all()


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
    text = "SELECT * EXCLUDE (bignum) FROM test_all_types()"
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


def test_health(channel: grpc.Channel) -> None:
    stub = health_pb2_grpc.HealthStub(channel)
    for service in ("", "arrow.flight.protocol.FlightService"):
        answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=10)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_what_is_not_there_says_so(channel: grpc.Channel) -> None:
    calls = [
        lambda: list(stream(channel, "ListFlights", flight.Criteria(), flight.FlightInfo)),
        lambda: list(stream(channel, "DoAction", flight.Action(type="BeginSavepoint"), flight.Result)),
    ]
    for call in calls:
        with pytest.raises(grpc.RpcError) as caught:
            call()
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    with pytest.raises(grpc.RpcError) as caught:
        unary(channel, "GetFlightInfo", descriptor(b"garbage"), flight.FlightInfo)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_handshake_gives_a_token_that_is_a_session(channel: grpc.Channel) -> None:
    call = channel.stream_stream(
        METHOD + "Handshake", response_deserializer=flight.HandshakeResponse.FromString
    )
    # arrow-go does not pad what it encodes.
    running = call(iter([b""]), timeout=10, metadata=(("authorization", "Basic dXNlcjpwdw"),))
    headers = dict(running.initial_metadata())
    list(running)
    assert headers["authorization"].startswith("Bearer ")
    who = (("authorization", headers["authorization"]),)

    def begin(**options: Any) -> Any:
        return unary(channel, "GetFlightInfo", query("BEGIN"), flight.FlightInfo, **options)

    begin(metadata=who)
    with pytest.raises(grpc.RpcError, match="open already"):
        begin(metadata=who)
    unary(channel, "GetFlightInfo", query("ROLLBACK"), flight.FlightInfo, metadata=who)


def test_clients_with_cookies_are_told_apart_on_one_connection(channel: grpc.Channel) -> None:
    def ask(text: str, cookie: str | None) -> str | None:
        metadata = () if cookie is None else (("cookie", f"other=1; {cookie}"),)
        call = channel.unary_unary(METHOD + "GetFlightInfo")
        _, done = call.with_call(query(text).SerializeToString(), metadata=metadata, timeout=10)
        return dict(done.initial_metadata()).get("set-cookie")

    first = ask("SELECT 1", None)
    assert first is not None
    assert ask("BEGIN", first) is None
    second = ask("SELECT 1", None)
    assert second not in (None, first)
    ask("BEGIN", second)
    for cookie in (first, second):
        ask("ROLLBACK", cookie)


def test_actions_are_listed(channel: grpc.Channel) -> None:
    names = {found.type for found in stream(channel, "ListActions", flight.Empty(), flight.ActionType)}
    assert {"CreatePreparedStatement", "BeginTransaction", "CancelFlightInfo", "CloseSession"} <= names


def test_prepared_statements_tell_updates_and_parameter_types(channel: grpc.Channel) -> None:
    def prepare(text: str) -> Any:
        body = pack(sql.ActionCreatePreparedStatementRequest(query=text))
        action = flight.Action(type="CreatePreparedStatement", body=body)
        (result,) = stream(channel, "DoAction", action, flight.Result)
        return unpack(result.body)

    update = prepare("INSERT INTO animals VALUES (?, ?, ?)")
    assert (update.is_update, update.dataset_schema) == (True, b"")
    parameters = pa.ipc.read_schema(pa.py_buffer(update.parameter_schema))
    assert parameters.types == [pa.string(), pa.int64(), pa.string()]
    for text in ("SELECT name FROM animals", "SHOW TABLES", "EXPLAIN SELECT 1"):
        assert not prepare(text).is_update
        assert prepare(text).dataset_schema


def test_foreign_keys(channel: grpc.Channel, connection: dbapi.Connection) -> None:
    run(connection, "CREATE TABLE parent (a INTEGER, b INTEGER, PRIMARY KEY (a, b))")
    run(connection, "CREATE TABLE child (x INTEGER, y INTEGER, FOREIGN KEY (x, y) REFERENCES parent (a, b))")

    def fetch(command: Any) -> list[dict[str, Any]]:
        info = unary(channel, "GetFlightInfo", descriptor(pack(command)), flight.FlightInfo)
        found = read(stream(channel, "DoGet", info.endpoint[0].ticket, flight.FlightData))
        assert found.schema.equals(pa.ipc.read_schema(pa.py_buffer(info.schema)))
        return found.to_pylist()

    keys = fetch(sql.CommandGetPrimaryKeys(table="parent"))
    assert [(key["column_name"], key["key_sequence"]) for key in keys] == [("a", 1), ("b", 2)]
    pairs = [("a", "x"), ("b", "y")]
    for command in (
        sql.CommandGetImportedKeys(table="child"),
        sql.CommandGetExportedKeys(table="parent"),
        sql.CommandGetCrossReference(pk_table="parent", fk_table="child"),
    ):
        assert [(key["pk_column_name"], key["fk_column_name"]) for key in fetch(command)] == pairs
    assert fetch(sql.CommandGetImportedKeys(table="parent")) == []
    assert fetch(sql.CommandGetXdbcTypeInfo(data_type=-5))[0]["type_name"] == "BIGINT"
    assert fetch(sql.CommandGetCatalogs()) == [{"catalog_name": "memory"}]


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


def test_a_nul_in_a_statement_is_named(channel: grpc.Channel) -> None:
    # ADBC's driver takes it for the end of the text, as DuckDB does.
    with pytest.raises(grpc.RpcError, match="character 10 of the statement is NUL: write chr") as caught:
        unary(channel, "GetFlightInfo", query("SELECT 'a\0b'"), flight.FlightInfo)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    info = unary(channel, "GetFlightInfo", query("SELECT 'a' || chr(0) || 'b' AS x"), flight.FlightInfo)
    found = read(stream(channel, "DoGet", info.endpoint[0].ticket, flight.FlightData))
    assert found["x"].to_pylist() == ["a\0b"]
