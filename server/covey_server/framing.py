"""Arrow batches in, Flight data messages as bytes out, and the way back; never touches sockets or SQL.

Batches are framed by hand: a message of the Flight protocol is two tagged byte strings around Arrow's own
encoding, and building it through a protobuf object would copy every body once more.
"""

from __future__ import annotations

import io
import queue
from collections.abc import Iterator

import pyarrow as pa

from covey_server.proto import flight_pb2

_HEADER_TAG = b"\x12"
"""Field 2, data_header, length-delimited."""

_BODY_TAG = b"\xc2\x3e"
"""Field 1000, data_body, length-delimited."""

_PREFIX = 8
"""Bytes before an encapsulated message's metadata: the continuation marker and the metadata's length."""

_CONTINUATION = b"\xff\xff\xff\xff"
_ROWS_LIMIT = 1 << 17


def frame_schema(schema: pa.Schema) -> bytes:
    """The first message of a stream."""
    return _frame(memoryview(schema.serialize()))


def frame_batch(batch: pa.RecordBatch, slice_bytes: int) -> Iterator[bytes]:
    """A batch as messages of about `slice_bytes` bytes at most; one row is never divided."""
    rows = batch.num_rows
    pieces = min(rows, max(1, -(-batch.nbytes // slice_bytes)))
    step = -(-rows // pieces) if pieces else 1
    for start in range(0, rows, step):
        yield _frame(memoryview(batch.slice(start, step).serialize()))


def encode_schema(schema: pa.Schema) -> bytes:
    """A schema as FlightInfo, SchemaResult and prepared statements carry it."""
    return schema.serialize().to_pybytes()  # type: ignore[no-any-return]


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with dictionaries replaced by their values: what streams here carry."""
    fields = [field.with_type(_plain(field.type)) for field in schema]
    return schema if all(map(pa.Field.equals, fields, schema)) else pa.schema(fields, schema.metadata)


def plain_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch in the announced schema; `schema` is `plain_schema` of the batch's own."""
    if batch.schema.equals(schema):
        return batch
    columns = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def rows_per_batch(schema: pa.Schema, slice_bytes: int) -> int:
    """How many rows of this schema make about one slice, guessing 48 bytes for a text."""
    width = sum(_width(field.type) for field in schema) or 1
    return max(2048, min(_ROWS_LIMIT, slice_bytes // width))


class Upload(io.RawIOBase):
    """An Arrow IPC stream read in one thread while another offers the Flight data messages it is made of.

    At most `depth` messages wait here: whoever offers has to come back while the reader is behind. failure: the error
    that it ended with.
    """

    def __init__(self, depth: int = 4) -> None:
        super().__init__()
        self._depth = depth
        self._parts: queue.SimpleQueue[bytes | BaseException | None] = queue.SimpleQueue()
        self._rest = memoryview(b"")
        self._ended = False
        self.failure: BaseException | None = None

    def offer(self, message: bytes) -> bool:
        """Take a Flight data message; False where too many wait already."""
        if self._parts.qsize() >= self._depth:
            return False
        self._parts.put(message)
        return True

    def end(self, error: BaseException | None = None) -> None:
        """No further messages come, regularly or because of an error."""
        self._parts.put(error)

    def readable(self) -> bool:
        """An upload is read."""
        return True

    def begins(self) -> bool:
        """Whether anything is left to read; waits for it."""
        while not len(self._rest) and not self._ended:
            part = self._parts.get()
            if isinstance(part, BaseException):
                self.failure = part
                raise part
            self._ended = part is None
            self._rest = memoryview(_encapsulate(part) if part is not None else b"")
        return len(self._rest) > 0

    def read(self, size: int = -1) -> bytes:
        """Up to `size` of the bytes that have come, of one message; waits for the next message where there is none.

        A size that a malformed upload asks for may be beyond all memory: nothing is made ready for it.
        """
        if size < 0:
            return self.readall()
        self.begins()
        some, self._rest = self._rest[:size], self._rest[size:]
        return bytes(some)


def _encapsulate(message: bytes) -> bytes:
    """A Flight data message as part of an IPC stream; empty where it carries no Arrow data."""
    data = flight_pb2.FlightData.FromString(message)
    header: bytes = data.data_header
    if not header:
        return b""
    padded = header + bytes(-len(header) % 8)
    return b"".join((_CONTINUATION, len(padded).to_bytes(4, "little"), padded, data.data_body))


def _frame(message: memoryview) -> bytes:
    size = int.from_bytes(message[4:_PREFIX], "little")
    header, body = message[_PREFIX : _PREFIX + size], message[_PREFIX + size :]
    parts: list[bytes | memoryview] = [_HEADER_TAG, _varint(len(header)), header]
    if len(body):
        parts += [_BODY_TAG, _varint(len(body)), body]
    return b"".join(parts)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)), kind.list_size)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(
            kind.key_field.with_type(_plain(kind.key_type)), kind.item_field.with_type(_plain(kind.item_type))
        )
    return kind


def _width(kind: pa.DataType) -> int:
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:
        return 48
