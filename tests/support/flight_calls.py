"""RPCs of Arrow Flight as plain gRPC calls: where no driver shows what is tested."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pyarrow as pa
from covey_server.framing import Upload
from covey_server.proto import flight_sql_pb2 as sql
from covey_server.wire import descriptor, pack

METHOD = "/arrow.flight.protocol.FlightService/"


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
