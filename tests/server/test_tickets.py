"""Tickets that are no good any more, and sessions closed under a stream: the status and the words say why."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import adbc_driver_flightsql.dbapi as dbapi
import grpc
import pytest
from covey_server.core import Core
from covey_server.errors import NoSuchThing
from covey_server.lanes import Lane
from covey_server.proto import flight_pb2 as flight
from covey_server.proto import flight_sql_pb2 as sql
from covey_server.query import Query
from covey_server.registry import Registry
from covey_server.wire import descriptor, pack
from grpc import StatusCode
from support.serving import ServerProcess
from support.sql import rows

METHOD = "/arrow.flight.protocol.FlightService/"
LONG = "SELECT a.range AS a, b.range AS b FROM range(1000000) a, range(1000000) b"


@pytest.fixture
def channel(server: ServerProcess) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.uri.removeprefix("grpc://")) as channel:
        yield channel


def planned(channel: grpc.Channel, text: str) -> Any:
    """The FlightInfo of a statement."""
    call = channel.unary_unary(METHOD + "GetFlightInfo", response_deserializer=flight.FlightInfo.FromString)
    return call(descriptor(pack(sql.CommandStatementQuery(query=text))).SerializeToString(), timeout=30)


def fetched(channel: grpc.Channel, info: Any) -> Any:
    """The stream behind a ticket."""
    call = channel.unary_stream(METHOD + "DoGet", response_deserializer=flight.FlightData.FromString)
    return call(info.endpoint[0].ticket.SerializeToString(), timeout=60)


def act(channel: grpc.Channel, kind: str, body: Any) -> list[bytes]:
    call = channel.unary_stream(METHOD + "DoAction", response_deserializer=flight.Result.FromString)
    action = flight.Action(type=kind, body=body.SerializeToString())
    return [result.body for result in call(action.SerializeToString(), timeout=30)]


def cancel(channel: grpc.Channel, info: Any) -> int:
    (body,) = act(channel, "CancelFlightInfo", flight.CancelFlightInfoRequest(info=info))
    return int(flight.CancelFlightInfoResult.FromString(body).status)


def refused(stream: Any) -> tuple[StatusCode, str]:
    with pytest.raises(grpc.RpcError) as caught:
        for _ in stream:
            pass
    return caught.value.code(), caught.value.details()


def test_a_ticket_whose_query_was_cancelled_says_so(channel: grpc.Channel) -> None:
    info = planned(channel, "SELECT 1")
    assert cancel(channel, info) == flight.CANCEL_STATUS_CANCELLED
    assert refused(fetched(channel, info)) == (StatusCode.CANCELLED, "the query was cancelled")
    # Who cancels it once more has what he wants.
    assert cancel(channel, info) == flight.CANCEL_STATUS_CANCELLED


def test_a_ticket_that_was_used_says_so(channel: grpc.Channel) -> None:
    info = planned(channel, "SELECT 1")
    assert len(list(fetched(channel, info))) == 2
    deadline = time.monotonic() + 10
    said = refused(fetched(channel, info))
    while "being fetched" in said[1] and time.monotonic() < deadline:
        said = refused(fetched(channel, info))
    assert said == (
        StatusCode.NOT_FOUND,
        "the result was fetched already: a ticket is good for one fetch",
    )
    with pytest.raises(grpc.RpcError, match="was fetched already"):
        cancel(channel, info)


def test_a_ticket_that_is_in_use_says_so_and_its_stream_goes_on(channel: grpc.Channel) -> None:
    info = planned(channel, LONG)
    stream = fetched(channel, info)
    next(stream)
    assert refused(fetched(channel, info)) == (StatusCode.NOT_FOUND, "the result is being fetched already")
    assert next(stream).data_body
    stream.cancel()


def test_a_stream_that_is_cancelled_elsewhere_ends_with_that(channel: grpc.Channel) -> None:
    info = planned(channel, LONG + " -- cancelled elsewhere")
    stream = fetched(channel, info)
    next(stream)
    assert cancel(channel, info) == flight.CANCEL_STATUS_CANCELLED
    assert refused(stream) == (StatusCode.CANCELLED, "the query was cancelled")


def test_a_ticket_of_a_failed_query_says_what_failed(channel: grpc.Channel) -> None:
    info = planned(channel, "SELECT says::INTEGER FROM animals")
    code, said = refused(fetched(channel, info))
    assert code is StatusCode.INVALID_ARGUMENT
    deadline = time.monotonic() + 10
    while "being fetched" in (again := refused(fetched(channel, info)))[1]:
        assert time.monotonic() < deadline
    assert again == (StatusCode.NOT_FOUND, f"the query has failed, and its result is gone: {said}")


def test_a_ticket_that_has_expired_says_so(core: Core) -> None:
    registry = Registry(60, -1)
    query = Query(core, core.guard.check("SELECT 1"), Lane(core.database, lambda: None))
    query.plan()
    registry.add(query)
    registry.reap()
    for look in (registry.fetch, registry.query):
        with pytest.raises(
            NoSuchThing, match="the result has expired, as nobody fetched it for -1 s: run the"
        ):
            look(query.id)
    assert core.history.table()["state"].to_pylist() == ["expired"]


@pytest.mark.parametrize("transaction", [False, True])
def test_closing_a_session_ends_its_streams_and_drops_its_tickets(
    server: ServerProcess, channel: grpc.Channel, connection: dbapi.Connection, transaction: bool
) -> None:
    if transaction:
        planned(channel, "BEGIN")
    asked = f"SELECT 'waiting, {transaction}'"
    waiting = planned(channel, asked)
    stream = fetched(channel, planned(channel, LONG + f" -- {transaction}"))
    next(stream)
    (body,) = act(channel, "CloseSession", flight.CloseSessionRequest())
    assert flight.CloseSessionResult.FromString(body).status == flight.CloseSessionResult.CLOSED
    said = (StatusCode.CANCELLED, "the query was cancelled, as its session was closed")
    if not transaction:
        assert refused(stream) == said
    else:
        # Its rows end, or its transaction does, whichever is noticed first.
        assert refused(stream)[0] in (StatusCode.CANCELLED, StatusCode.NOT_FOUND)
    assert refused(fetched(channel, waiting)) == said
    ours = "SELECT state FROM covey_queries WHERE sql IN (?, ?) AND state IN ('running', 'planned')"
    assert rows(connection, ours, (asked, LONG + f" -- {transaction}")) == []
    assert len(list(fetched(channel, planned(channel, "SELECT 1")))) == 2
