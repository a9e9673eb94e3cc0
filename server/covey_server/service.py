"""The RPCs of Arrow Flight: messages in, messages out, with back-pressure and cancellation; knows no SQL.

The event loop only moves bytes. What blocks (SQL, encoding, waiting for the model) runs in worker threads; a
client that goes away cancels what runs for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import grpc

from covey_server.actions import ACTIONS, ENDS, act
from covey_server.callers import Call
from covey_server.errors import BadRequest, Stopped
from covey_server.flightsql import FlightSql, Stream
from covey_server.framing import Upload, encode_schema, frame_schema
from covey_server.proto import flight_pb2
from covey_server.proto import flight_sql_pb2 as sql
from covey_server.puts import put
from covey_server.query import Query
from covey_server.recovery import Recovery
from covey_server.rpc import Calls, send, unsupported, within
from covey_server.threads import Threads
from covey_server.wire import descriptor, flight_info, ticket, unpack

SERVICE = "arrow.flight.protocol.FlightService"
POLL_SECONDS = 1.0
"""How long PollFlightInfo waits for the end before it reports progress."""

_T = TypeVar("_T")
_log = logging.getLogger("covey.server")


class FlightService:
    """The RPCs of Arrow Flight over the Flight SQL commands."""

    def __init__(self, flight: FlightSql, threads: Threads, recovery: Recovery) -> None:
        self._flight = flight
        self._threads = threads
        self._calls = Calls(flight.sessions, threads, recovery)
        self._spooling: dict[str, asyncio.Future[int]] = {}

    def handler(self) -> grpc.GenericRpcHandler:
        """What a grpc.aio server is given. Messages stay bytes: data is framed by hand."""
        unary, out, both = (
            grpc.unary_unary_rpc_method_handler,
            grpc.unary_stream_rpc_method_handler,
            grpc.stream_stream_rpc_method_handler,
        )
        calls = self._calls
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Handshake": both(self.handshake),
                "ListFlights": out(unsupported("ListFlights")),
                "GetFlightInfo": unary(calls.unary(self.get_flight_info)),
                "PollFlightInfo": unary(calls.unary(self.poll_flight_info)),
                "GetSchema": unary(calls.unary(self.get_schema)),
                "DoGet": out(calls.streaming(self.do_get)),
                "DoPut": both(self.do_put),
                "DoExchange": both(unsupported("DoExchange")),
                "DoAction": out(calls.streaming(self.do_action)),
                "ListActions": out(calls.streaming(self.list_actions)),
            },
        )

    async def handshake(self, requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext) -> None:
        """Hand out a token that stands for a new session."""
        async for _ in requests:
            break
        token = self._flight.sessions.issue().id
        await context.send_initial_metadata((("authorization", f"Bearer {token}"),))
        await context.write(flight_pb2.HandshakeResponse(payload=token.encode()).SerializeToString())

    async def get_flight_info(self, call: Call, request: bytes) -> bytes:
        """Plan a statement or announce a metadata answer."""
        return _bytes(await self._work(self._flight.info, call, _command(request)))

    async def get_schema(self, call: Call, request: bytes) -> bytes:
        """The schema of what a command would yield."""
        schema = await self._work(self._flight.schema, call, _command(request))
        return _bytes(flight_pb2.SchemaResult(schema=encode_schema(schema)))

    async def poll_flight_info(self, call: Call, request: bytes) -> bytes:
        """Start a statement and say how far it is, or look at one that was started."""
        packed = _command(request)
        command = unpack(packed)
        match command:
            case (
                sql.CommandStatementQuery()
                | sql.CommandStatementSubstraitPlan()
                | sql.CommandPreparedStatementQuery()
            ):
                query = await self._work(self._flight.begin, call, command)
            case sql.TicketStatementQuery():
                call.query = query = self._flight.resume(packed)
            case _:
                info = await self._work(self._flight.info, call, packed)
                return _bytes(flight_pb2.PollInfo(info=info, progress=1.0))
        done = self._spooling.get(query.id)
        if done is None:
            done = self._spooling[query.id] = self._background(query.spool)
            done.add_done_callback(lambda _: self._spooling.pop(query.id, None))
        await asyncio.wait({done}, timeout=POLL_SECONDS)
        return _bytes(self._poll_info(query, packed, done))

    async def do_get(self, call: Call, request: bytes, context: grpc.aio.ServicerContext) -> None:
        """Send the rows behind a ticket, the next slice being made while one is sent."""
        stream = await self._fetched(call, flight_pb2.Ticket.FromString(request).ticket)
        upcoming: asyncio.Future[list[bytes] | None] | None = None
        try:
            await self._work(stream.start)
            await send(context, frame_schema(stream.schema))
            upcoming = self._background(stream.next)
            while (frames := await upcoming) is not None:
                upcoming = self._background(stream.next)
                for frame in frames:
                    await send(context, frame)
        except BaseException:
            stream.cancel()
            raise
        finally:
            if upcoming is not None:
                upcoming.cancel()
            self._threads.aside.submit(self._let_go, stream)

    async def _fetched(self, call: Call, packed: bytes) -> Stream:
        """The rows behind a ticket, which is used up then: where the caller has left meanwhile, they are let go."""
        fetching = asyncio.ensure_future(self._work(self._flight.fetch, call, packed))
        try:
            return await asyncio.shield(fetching)
        except asyncio.CancelledError:
            fetching.add_done_callback(self._drop)
            raise

    def _drop(self, fetching: asyncio.Future[Stream]) -> None:
        if not fetching.cancelled() and fetching.exception() is None:
            stream = fetching.result()
            stream.cancel()
            self._threads.aside.submit(self._let_go, stream)

    async def do_put(self, requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext) -> None:
        """Take an upload; the worker reads it while it comes."""
        before = self._calls.openings
        call = await self._calls.of(context)
        upload = Upload()
        feeding: asyncio.Task[None] | None = None
        try:
            first = await anext(aiter(requests), None)
            if first is None:
                raise BadRequest("the upload is empty: not even the names of its columns came")
            packed = flight_pb2.FlightData.FromString(first).flight_descriptor.cmd
            upload.offer(first)
            feeding = asyncio.create_task(_feed(upload, requests))
            uploads = self._threads.uploads
            for result in await within(uploads, put, self._flight, call, packed, upload):
                await send(context, _bytes(flight_pb2.PutResult(app_metadata=result)))
        except asyncio.CancelledError:
            upload.end(Stopped("the upload was cancelled"))
            call.cancel()
            raise
        except Exception as error:
            await self._calls.abort(context, error, before)
        finally:
            if feeding is not None:
                feeding.cancel()

    async def do_action(self, call: Call, request: bytes, context: grpc.aio.ServicerContext) -> None:
        """Carry out an action."""
        action = flight_pb2.Action.FromString(request)
        pool = self._threads.aside if action.type in ENDS else self._threads.statements
        for body in await within(pool, act, self._flight, call, action.type, action.body):
            await send(context, _bytes(flight_pb2.Result(body=body)))

    async def list_actions(self, _call: Call, _request: bytes, context: grpc.aio.ServicerContext) -> None:
        """The actions there are."""
        for name, (description, _) in ACTIONS.items():
            await send(context, _bytes(flight_pb2.ActionType(type=name, description=description)))

    def _poll_info(self, query: Query, packed: bytes, done: asyncio.Future[int]) -> Any:
        if done.done():
            done.result()
            return flight_pb2.PollInfo(info=self._flight.query_info(query, packed), progress=1.0)
        info = flight_info(packed, encode_schema(query.schema), None)
        retry = descriptor(ticket(query.id))
        return flight_pb2.PollInfo(info=info, flight_descriptor=retry, progress=query.progress)

    def _let_go(self, stream: Stream) -> None:
        try:
            stream.close()
        except Exception:
            _log.exception("closing a stream failed")
        if isinstance(stream, Query):
            self._flight.registry.forget(stream)

    def _background(self, function: Callable[[], _T]) -> asyncio.Future[_T]:
        """Start what blocks in a worker thread, for a caller who may be gone when it ends."""
        started = asyncio.ensure_future(self._work(function))
        # Looking at the outcome keeps the event loop from reporting one that nobody waits for any more.
        started.add_done_callback(lambda done: done.cancelled() or done.exception())
        return started

    async def _work(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Run what blocks in a worker thread."""
        return await within(self._threads.statements, function, *arguments)


async def _feed(upload: Upload, requests: AsyncIterator[bytes]) -> None:
    """Pass an upload on, no faster than it is read."""
    try:
        async for message in requests:
            while not upload.offer(message):
                await asyncio.sleep(0.002)
        upload.end()
    except Exception as error:
        upload.end(error)


def _command(request: bytes) -> bytes:
    asked = flight_pb2.FlightDescriptor.FromString(request)
    if asked.type != flight_pb2.FlightDescriptor.CMD:
        raise BadRequest("the descriptor has to carry a Flight SQL command")
    return asked.cmd  # type: ignore[no-any-return]


def _bytes(message: Any) -> bytes:
    return message.SerializeToString()  # type: ignore[no-any-return]
