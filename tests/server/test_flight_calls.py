"""Health, sessions, actions and metadata by plain gRPC calls, where no driver shows them."""

from __future__ import annotations

from typing import Any

import adbc_driver_flightsql.dbapi as dbapi
import grpc
import pyarrow as pa
import pytest
from covey_server.proto import flight_pb2 as flight
from covey_server.proto import flight_sql_pb2 as sql
from covey_server.wire import descriptor, pack, unpack
from grpc_health.v1 import health_pb2, health_pb2_grpc
from support.flight_calls import METHOD, query, read, stream, unary
from support.sql import run


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


def test_a_nul_in_a_statement_is_named(channel: grpc.Channel) -> None:
    # ADBC's driver takes it for the end of the text, as DuckDB does.
    with pytest.raises(grpc.RpcError, match="character 10 of the statement is NUL: write chr") as caught:
        unary(channel, "GetFlightInfo", query("SELECT 'a\0b'"), flight.FlightInfo)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    info = unary(channel, "GetFlightInfo", query("SELECT 'a' || chr(0) || 'b' AS x"), flight.FlightInfo)
    found = read(stream(channel, "DoGet", info.endpoint[0].ticket, flight.FlightData))
    assert found["x"].to_pylist() == ["a\0b"]
