"""gRPC calls in, gRPC answers out: headers, threads, back-pressure, cancellation; knows no SQL.

The event loop only moves bytes. What blocks (SQL, encoding, waiting for the model) runs in worker threads; a
client that goes away cancels what runs for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie
from typing import Any, TypeVar

import grpc
from grpc import StatusCode

from covey_server.actions import ACTIONS, ENDS, act
from covey_server.callers import Call
from covey_server.errors import BadRequest, ServerError, Stopped, Unsupported, status_of
from covey_server.flightsql import FlightSql, Stream
from covey_server.framing import Upload, encode_schema, frame_schema
from covey_server.options import CHOICES
from covey_server.proto import flight_pb2
from covey_server.proto import flight_sql_pb2 as sql
from covey_server.puts import put
from covey_server.query import Query
from covey_server.recovery import Recovery
from covey_server.sessions import COOKIE
from covey_server.threads import Threads
from covey_server.wire import descriptor, flight_info, ticket, unpack

SERVICE = "arrow.flight.protocol.FlightService"
TAG = "x-covey-tag"
"""The header by which a client names its runs in `covey_queries`."""

DIALECT_HEADER = "x-covey-dialect"
"""The header by which a client says the dialect of one call, whatever its session says."""

POLL_SECONDS = 1.0
"""How long PollFlightInfo waits for the end before it reports progress."""

_T = TypeVar("_T")
_log = logging.getLogger("covey.server")


class _Gone(Exception):
    """The client no longer listens."""


class FlightService:
    """The RPCs of Arrow Flight over the Flight SQL commands."""

    def __init__(self, flight: FlightSql, threads: Threads, recovery: Recovery) -> None:
        self._flight = flight
        self._recovery = recovery
        self._threads = threads
        self._spooling: dict[str, asyncio.Future[int]] = {}

    def handler(self) -> grpc.GenericRpcHandler:
        """What a grpc.aio server is given. Messages stay bytes: data is framed by hand."""
        unary, out, both = (
            grpc.unary_unary_rpc_method_handler,
            grpc.unary_stream_rpc_method_handler,
            grpc.stream_stream_rpc_method_handler,
        )
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Handshake": both(self.handshake),
                "ListFlights": out(self._unsupported("ListFlights")),
                "GetFlightInfo": unary(self._unary(self.get_flight_info)),
                "PollFlightInfo": unary(self._unary(self.poll_flight_info)),
                "GetSchema": unary(self._unary(self.get_schema)),
                "DoGet": out(self._streaming(self.do_get)),
                "DoPut": both(self.do_put),
                "DoExchange": both(self._unsupported("DoExchange")),
                "DoAction": out(self._streaming(self.do_action)),
                "ListActions": out(self._streaming(self.list_actions)),
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
            await _send(context, frame_schema(stream.schema))
            upcoming = self._background(stream.next)
            while (frames := await upcoming) is not None:
                upcoming = self._background(stream.next)
                for frame in frames:
                    await _send(context, frame)
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
        before = self._recovery.opened
        call = await self._call(context)
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
            for result in await _within(uploads, put, self._flight, call, packed, upload):
                await _send(context, _bytes(flight_pb2.PutResult(app_metadata=result)))
        except asyncio.CancelledError:
            upload.end(Stopped("the upload was cancelled"))
            call.cancel()
            raise
        except Exception as error:
            await self._abort(context, error, before)
        finally:
            if feeding is not None:
                feeding.cancel()

    async def do_action(self, call: Call, request: bytes, context: grpc.aio.ServicerContext) -> None:
        """Carry out an action."""
        action = flight_pb2.Action.FromString(request)
        pool = self._threads.aside if action.type in ENDS else self._threads.statements
        for body in await _within(pool, act, self._flight, call, action.type, action.body):
            await _send(context, _bytes(flight_pb2.Result(body=body)))

    async def list_actions(self, _call: Call, _request: bytes, context: grpc.aio.ServicerContext) -> None:
        """The actions there are."""
        for name, (description, _) in ACTIONS.items():
            await _send(context, _bytes(flight_pb2.ActionType(type=name, description=description)))

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

    async def _call(self, context: grpc.aio.ServicerContext) -> Call:
        """Who calls. A client that has not sent its session's cookie or token is given the cookie."""
        headers = {key.lower(): value for key, value in context.invocation_metadata() or ()}
        token, cookie = _bearer(headers), _cookie(headers)
        session = self._flight.sessions.find(token, cookie, context.peer())
        if session.id not in (token, cookie):
            await context.send_initial_metadata((("set-cookie", f"{COOKIE}={session.id}"),))
        said = {name: text for name, text in headers.items() if isinstance(text, str)}
        defaults = {name: said[name] for name in CHOICES if name in said}
        return Call(session, said.get(TAG), defaults=defaults, dialect=said.get(DIALECT_HEADER))

    def _unary(
        self, method: Callable[[Call, bytes], Awaitable[bytes]]
    ) -> Callable[[bytes, grpc.aio.ServicerContext], Awaitable[bytes]]:
        async def serve(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
            before = self._recovery.opened
            call = await self._call(context)
            try:
                return await method(call, request)
            except asyncio.CancelledError:
                call.cancel()
                raise
            except Exception as error:
                await self._abort(context, error, before)
                return b""

        return serve

    def _streaming(
        self, method: Callable[[Call, bytes, grpc.aio.ServicerContext], Awaitable[None]]
    ) -> Callable[[bytes, grpc.aio.ServicerContext], Awaitable[None]]:
        async def serve(request: bytes, context: grpc.aio.ServicerContext) -> None:
            before = self._recovery.opened
            call = await self._call(context)
            try:
                await method(call, request, context)
            except asyncio.CancelledError:
                call.cancel()
                raise
            except _Gone:
                call.cancel()
            except Exception as error:
                await self._abort(context, error, before)

        return serve

    def _unsupported(self, name: str) -> Callable[[Any, grpc.aio.ServicerContext], Awaitable[None]]:
        async def serve(_request: Any, context: grpc.aio.ServicerContext) -> None:
            await _abort(context, Unsupported(f"{name} is not supported"))

        return serve

    async def _abort(self, context: grpc.aio.ServicerContext, error: Exception, before: int) -> None:
        """Tell a caller what went wrong in a request that began after `before` openings of the database."""
        if not isinstance(error, ServerError | _Gone):
            error = await _within(self._threads.aside, self._recovery.explained, error, before)
        await _abort(context, error)

    def _background(self, function: Callable[[], _T]) -> asyncio.Future[_T]:
        """Start what blocks in a worker thread, for a caller who may be gone when it ends."""
        started = asyncio.ensure_future(self._work(function))
        # Looking at the outcome keeps the event loop from reporting one that nobody waits for any more.
        started.add_done_callback(lambda done: done.cancelled() or done.exception())
        return started

    async def _work(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Run what blocks in a worker thread."""
        return await _within(self._threads.statements, function, *arguments)


async def _within(pool: ThreadPoolExecutor, function: Callable[..., _T], *arguments: Any) -> _T:
    return await asyncio.get_running_loop().run_in_executor(pool, function, *arguments)


async def _send(context: grpc.aio.ServicerContext, message: bytes) -> None:
    """Send a message, once there is room for it. Raises _Gone where nobody takes it."""
    try:
        await context.write(message)
    except Exception as error:
        raise _Gone from error


async def _feed(upload: Upload, requests: AsyncIterator[bytes]) -> None:
    """Pass an upload on, no faster than it is read."""
    try:
        async for message in requests:
            while not upload.offer(message):
                await asyncio.sleep(0.002)
        upload.end()
    except Exception as error:
        upload.end(error)


async def _abort(context: grpc.aio.ServicerContext, error: Exception) -> None:
    if isinstance(error, _Gone):
        return
    status = status_of(error)
    if status.code is StatusCode.INTERNAL and not isinstance(error, ServerError):
        _log.error("a request failed: %s", status.message, exc_info=error)
    await context.abort(status.code, status.message)


def _command(request: bytes) -> bytes:
    asked = flight_pb2.FlightDescriptor.FromString(request)
    if asked.type != flight_pb2.FlightDescriptor.CMD:
        raise BadRequest("the descriptor has to carry a Flight SQL command")
    return asked.cmd  # type: ignore[no-any-return]


def _bearer(headers: Mapping[str, Any]) -> str | None:
    kind, _, token = str(headers.get("authorization", "")).partition(" ")
    return token.strip() if kind.lower() == "bearer" else None


def _cookie(headers: Mapping[str, Any]) -> str | None:
    jar: SimpleCookie = SimpleCookie()
    with suppress(CookieError):
        jar.load(str(headers.get("cookie", "")))
    return jar[COOKIE].value if COOKIE in jar else None


def _bytes(message: Any) -> bytes:
    return message.SerializeToString()  # type: ignore[no-any-return]
