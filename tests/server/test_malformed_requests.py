"""Requests that are no requests, over gRPC: each gets a status that says what is wrong, and the server lives."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import adbc_driver_flightsql.dbapi as dbapi
import grpc
import pyarrow as pa
import pytest
from covey_server.proto import flight_pb2 as flight
from covey_server.proto import flight_sql_pb2 as sql
from covey_server.wire import descriptor, pack, unpack
from grpc import StatusCode
from support.serving import ServerProcess
from support.sql import rows, run

TABLE = "malformed"
METHOD = "/arrow.flight.protocol.FlightService/"
OPTIONS = sql.CommandStatementIngest.TableDefinitionOptions(if_not_exist=1, if_exists=3)

Frame = tuple[bytes, bytes]
"""A message's header and body."""


@pytest.fixture(scope="module")
def channel(server: ServerProcess) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.uri.removeprefix("grpc://")) as channel:
        yield channel
    with dbapi.connect(server.uri, autocommit=True) as connection:
        run(connection, f"DROP TABLE IF EXISTS {TABLE}")


def refused(call: Iterable[bytes]) -> tuple[StatusCode, str]:
    with pytest.raises(grpc.RpcError) as caught:
        list(call)
    return caught.value.code(), caught.value.details()


def frames(batch: pa.RecordBatch) -> list[Frame]:
    """A stream of one batch as Flight sends it, dictionaries included."""
    with pa.BufferOutputStream() as out:
        with pa.ipc.new_stream(out, batch.schema) as writer:
            writer.write_batch(batch)
        data = out.getvalue().to_pybytes()
    found, at = [], 0
    while (size := struct.unpack_from("<i", data, at + 4)[0]) > 0:
        header = data[at + 8 : at + 8 + size]
        body = pa.ipc.read_message(data[at:]).body
        at += 8 + size + (0 if body is None else body.size)
        found.append((header, b"" if body is None else body.to_pybytes()))
    return found


def put(channel: grpc.Channel, command: Any, parts: Sequence[Frame]) -> Any:
    messages = [flight.FlightData(data_header=header, data_body=body) for header, body in parts]
    messages[0].flight_descriptor.CopyFrom(descriptor(pack(command)))
    call = channel.stream_stream(METHOD + "DoPut")
    return call(iter([message.SerializeToString() for message in messages]), timeout=20)


def ingest(channel: grpc.Channel, parts: Sequence[Frame]) -> Any:
    return put(channel, sql.CommandStatementIngest(table=TABLE, table_definition_options=OPTIONS), parts)


def with_offsets(*offsets: int) -> list[Frame]:
    schema, (header, body) = frames(pa.record_batch({"s": ["a", "bb", "c"]}))
    return [schema, (header, struct.pack("<4i", *offsets) + body[16:])]


@pytest.mark.parametrize(
    "offsets", [(0, 1, 3, 40), (0, 1, 3, 2_000_000_000), (0, 3, 1, 4), (-5, 1, 3, 4), (0, 1, 3, -4)]
)
def test_an_upload_that_points_outside_of_itself_is_refused(
    channel: grpc.Channel, connection: dbapi.Connection, offsets: tuple[int, ...]
) -> None:
    code, said = refused(ingest(channel, with_offsets(*offsets)))
    assert code is StatusCode.INVALID_ARGUMENT
    assert said.startswith("batch 1 of the upload is malformed: In column 0: ")
    assert rows(connection, "SELECT 1") == [(1,)]


NUMBERS = frames(pa.record_batch({"n": [1, 2, 3]}))


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([(b"junkjunk", b"")], "the schema of the upload is malformed: "),
        (
            [(NUMBERS[0][0].replace(b"n\0", b"\xff\0"), b"")],
            "the schema of the upload is malformed: 'utf-8' codec",
        ),
        (
            frames(pa.record_batch({"s": [{"a\0b": 1}]})),
            "the schema of the upload is malformed: the name 'a\\x00b' holds NUL",
        ),
        ([NUMBERS[0], (b"junk", b"x")], "batch 1 of the upload is malformed: "),
        ([NUMBERS[0], NUMBERS[0]], "batch 1 of the upload is malformed: "),
        ([NUMBERS[0], (NUMBERS[1][0], b"xx")], "batch 1 of the upload is malformed: "),
        ([NUMBERS[0], NUMBERS[1], (NUMBERS[1][0], b"")], "batch 2 of the upload is malformed: "),
        (
            [NUMBERS[0], *frames(pa.record_batch({"s": ["x", "y"]}))[1:]],
            "batch 1 of the upload is malformed: ",
        ),
    ],
)
def test_an_upload_that_is_no_arrow_stream_is_refused(
    channel: grpc.Channel, parts: list[Frame], said: str
) -> None:
    code, found = refused(ingest(channel, parts))
    assert code is StatusCode.INVALID_ARGUMENT
    assert found.startswith(said)
    assert "Traceback" not in found


def test_an_upload_of_wrong_bytes_is_refused(channel: grpc.Channel) -> None:
    call = channel.stream_stream(METHOD + "DoPut")
    code, said = refused(call(iter([b"\xff" * 30]), timeout=20))
    assert (code, said.partition(" with ")[0]) == (StatusCode.INVALID_ARGUMENT, "Error parsing message")


def test_text_that_is_none_is_refused(channel: grpc.Channel) -> None:
    schema, (header, body) = frames(pa.record_batch({"s": ["aaaa"]}))
    code, said = refused(ingest(channel, [schema, (header, body.replace(b"aaaa", b"a\xff\xfea"))]))
    assert code is StatusCode.INVALID_ARGUMENT
    assert said == (
        "batch 1 of the upload is malformed: In column 0: Invalid: Invalid UTF8 sequence at string index 0"
    )


def test_parameters_that_point_outside_of_themselves_are_refused(channel: grpc.Channel) -> None:
    prepare = channel.unary_stream(METHOD + "DoAction")
    request = pack(sql.ActionCreatePreparedStatementRequest(query="SELECT ? AS said"))
    action = flight.Action(type="CreatePreparedStatement", body=request).SerializeToString()
    (made,) = (flight.Result.FromString(each).body for each in prepare(action, timeout=20))
    handle = unpack(made).prepared_statement_handle
    command = sql.CommandPreparedStatementQuery(prepared_statement_handle=handle)
    code, said = refused(put(channel, command, with_offsets(0, 1, 3, 2_000_000_000)))
    assert code is StatusCode.INVALID_ARGUMENT
    assert said.startswith("batch 1 of the upload is malformed: ")


def test_a_disturbed_upload_is_stored_or_refused(channel: grpc.Channel, connection: dbapi.Connection) -> None:
    batch = pa.record_batch(
        {
            "text": ["a", "b" * 25, None],
            "list": [[1], [], [2, 3]],
            "struct": [{"x": "q"}, {"x": "r"}, None],
            "enum": pa.array(["u", "v", "u"]).dictionary_encode(),
            "map": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int32())),
            "view": pa.array(["a", "b" * 40, "c"], pa.string_view()),
        }
    )
    whole = frames(batch)
    assert len(list(ingest(channel, whole))) == 1
    draw = random.Random(11)
    codes = set()
    for _ in range(150):
        parts = [[bytearray(header), bytearray(body)] for header, body in whole]
        for _ in range(draw.choice((1, 1, 3))):
            part = draw.choice([each for pair in parts for each in pair if each])
            part[draw.randrange(len(part))] = draw.choice((0, 1, 128, 255))
        try:
            list(ingest(channel, [(bytes(header), bytes(body)) for header, body in parts]))
        except grpc.RpcError as error:
            codes.add(error.code())
    assert codes == {StatusCode.INVALID_ARGUMENT}
    assert rows(connection, "SELECT 1") == [(1,)]


@pytest.mark.parametrize("method", ["GetFlightInfo", "PollFlightInfo", "GetSchema"])
def test_a_disturbed_command_gets_a_status(channel: grpc.Channel, method: str) -> None:
    commands = [
        sql.CommandStatementQuery(query="SELECT 1"),
        sql.CommandGetTables(include_schema=True, table_types=["BASE TABLE"]),
        sql.CommandGetSqlInfo(info=[1, 2, 3]),
    ]
    whole = [descriptor(pack(each)).SerializeToString() for each in commands]
    call, draw = channel.unary_unary(METHOD + method), random.Random(method)
    codes = set()
    for _ in range(40):
        sent = bytearray(draw.choice(whole))
        for _ in range(draw.randint(1, 4)):
            sent[draw.randrange(len(sent))] = draw.randrange(256)
        try:
            call(bytes(sent), timeout=20)
        except grpc.RpcError as error:
            codes.add(error.code())
    assert codes <= {StatusCode.INVALID_ARGUMENT, StatusCode.UNIMPLEMENTED}


@pytest.mark.parametrize(
    ("text", "beginning"),
    [
        (f"SELECT CAST('{'x' * 100_000}' AS INTEGER)", "Conversion Error: Could not convert string 'xxx"),
        (f"SELECT CAST('{'漢' * 100_000}' AS INTEGER)", "Conversion Error: Could not convert string '漢"),
        (f"SELECT {'z' * 50_000}", "Binder Error: Referenced column"),
    ],
)
def test_an_error_that_quotes_a_long_value_arrives(
    connection: dbapi.Connection, text: str, beginning: str
) -> None:
    with pytest.raises(dbapi.ProgrammingError) as caught:
        rows(connection, text)
    assert beginning in str(caught.value)
    assert "characters left out …]" in str(caught.value)


def test_an_action_with_a_long_name_is_answered(channel: grpc.Channel) -> None:
    action = flight.Action(type="x" * 100_000).SerializeToString()
    code, said = refused(channel.unary_stream(METHOD + "DoAction")(action, timeout=20))
    assert code is StatusCode.UNIMPLEMENTED
    assert said.startswith("the action xxx")
