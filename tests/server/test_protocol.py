"""The checked-in protobuf modules match their sources; framing by hand equals what protobuf would send."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from covey_planner.errors import BindError, Position
from covey_server.errors import BadRequest, one_line, status_of
from covey_server.framing import frame_batch, frame_schema, rows_per_batch
from covey_server.proto import flight_pb2, flight_sql_pb2
from google.protobuf import descriptor_pb2
from grpc import StatusCode

PROTO = Path(flight_pb2.__file__).parent


@pytest.mark.parametrize("module", [flight_pb2, flight_sql_pb2])
def test_the_generated_module_is_of_its_source(module: object, tmp_path: Path) -> None:
    name = module.DESCRIPTOR.name  # type: ignore[attr-defined]
    out = tmp_path / "set"
    command = [sys.executable, "-W", "ignore", "-m", "grpc_tools.protoc", f"-I{PROTO.parents[1]}"]
    subprocess.run([*command, f"--descriptor_set_out={out}", name], check=True)
    found = descriptor_pb2.FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(found)  # type: ignore[attr-defined]
    (expected,) = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
    _forget_json_names(expected.message_type)
    assert found == expected


def _forget_json_names(messages: Iterable[Any]) -> None:
    """The compiler adds to a descriptor set what generated modules leave out."""
    for message in messages:
        for field in message.field:
            field.ClearField("json_name")
        _forget_json_names(message.nested_type)


def test_the_generated_modules_run_on_the_oldest_protobuf_allowed() -> None:
    for module in (flight_pb2, flight_sql_pb2):
        version = re.search(r"Protobuf Python Version: ([\d.]+)", Path(module.__file__).read_text("utf-8"))
        assert version is not None
        assert version[1] == "6.30.0"


def test_frames_are_flight_data() -> None:
    batch = pa.record_batch({"n": range(1000), "s": ["text"] * 1000})
    schema = flight_pb2.FlightData.FromString(frame_schema(batch.schema))
    assert schema.data_body == b""
    frames = list(frame_batch(batch, 4096))
    assert len(frames) > 3
    messages = [flight_pb2.FlightData.FromString(frame) for frame in frames]
    stream = b"".join(
        b"\xff\xff\xff\xff" + len(m.data_header).to_bytes(4, "little") + m.data_header + m.data_body
        for m in [schema, *messages]
    )
    assert pa.ipc.open_stream(stream).read_all().equals(pa.Table.from_batches([batch]))
    assert frames[0] == messages[0].SerializeToString()


def test_a_wide_row_gets_fewer_rows_a_batch() -> None:
    narrow = pa.schema([("n", pa.int64())])
    wide = pa.schema([(f"s{i}", pa.string()) for i in range(1000)])
    assert rows_per_batch(narrow, 2 << 20) == 1 << 17
    assert rows_per_batch(wide, 2 << 20) == 2048


def test_messages_are_one_line_without_folders() -> None:
    text = 'Catalog Error: Table nope does not exist!\nDid you mean "t"?\n\nLINE 2: FROM nope\n             ^'
    assert one_line(text) == 'Catalog Error: Table nope does not exist! Did you mean "t"? (line 2)'
    assert one_line("cannot open /home/someone/secret/db.duckdb now") == "cannot open db.duckdb now"
    assert one_line("1/2/3 and a/b/c stay") == "1/2/3 and a/b/c stay"


def test_statuses() -> None:
    assert status_of(BadRequest("no")).code is StatusCode.INVALID_ARGUMENT
    planned = status_of(BindError("no column x", Position(2, 7)))
    assert planned.code is StatusCode.INVALID_ARGUMENT
    assert planned.message == "no column x (line 2:7)"
    assert status_of(OSError("INTERRUPT Error: Interrupted!")).code is StatusCode.CANCELLED
    assert status_of(OSError("Out of Memory Error: too large")).code is StatusCode.RESOURCE_EXHAUSTED
    surprise = status_of(KeyError("/home/someone/secret"))
    assert surprise.code is StatusCode.INTERNAL
    assert "secret" not in surprise.message
