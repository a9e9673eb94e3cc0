"""Packed Flight SQL commands in, their messages out, and back; knows nothing of what they do."""

from __future__ import annotations

from typing import Any

from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.message import DecodeError

from covey_server.errors import BadRequest, Unsupported
from covey_server.proto import flight_pb2, flight_sql_pb2

_PACKAGE = "arrow.flight.protocol.sql."


def unpack(packed: bytes) -> Any:
    """The message inside a packed command.

    Raises BadRequest for garbage, Unsupported for a message not known here.
    """
    try:
        outer = Packed.FromString(packed)
        name = outer.type_url.rpartition("/")[2]
        if not name.startswith(_PACKAGE):
            raise BadRequest("the request is not a Flight SQL command")
        kind = getattr(flight_sql_pb2, name.removeprefix(_PACKAGE), None)
        if kind is None:
            raise Unsupported(f"{name.removeprefix(_PACKAGE)} is not supported")
        return kind.FromString(outer.value)
    except DecodeError:
        raise BadRequest("the request is not a Flight SQL command") from None


def pack(message: Any) -> bytes:
    """A message as a packed command or result."""
    outer = Packed()
    outer.Pack(message)
    return outer.SerializeToString()  # type: ignore[no-any-return]


def ticket(query_id: str) -> bytes:
    """The packed ticket of a query's rows."""
    return pack(flight_sql_pb2.TicketStatementQuery(statement_handle=query_id.encode()))


def flight_info(command: bytes, schema: bytes, ticket_bytes: bytes | None, records: int = -1) -> Any:
    """A FlightInfo with one endpoint, or none yet.

    Locations are left empty: the rows are where the info came from.
    """
    endpoints = (
        []
        if ticket_bytes is None
        else [flight_pb2.FlightEndpoint(ticket=flight_pb2.Ticket(ticket=ticket_bytes))]
    )
    return flight_pb2.FlightInfo(
        schema=schema,
        flight_descriptor=descriptor(command),
        endpoint=endpoints,
        total_records=records,
        total_bytes=-1,
        ordered=True,
    )


def descriptor(command: bytes) -> Any:
    """A descriptor that carries a packed command."""
    return flight_pb2.FlightDescriptor(type=flight_pb2.FlightDescriptor.CMD, cmd=command)
