"""What every RPC shares: headers in, who calls out; errors as statuses; callers that go away. Knows no command."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie
from typing import Any, TypeVar

import grpc
from grpc import StatusCode

from covey_server.callers import Call
from covey_server.errors import ServerError, Unsupported, status_of
from covey_server.options import CHOICES
from covey_server.recovery import Recovery
from covey_server.sessions import COOKIE, Sessions
from covey_server.threads import Threads

TAG = "x-covey-tag"
"""The header by which a client names its runs in `covey_queries`."""

DIALECT_HEADER = "x-covey-dialect"
"""The header by which a client says the dialect of one call, whatever its session says."""

_T = TypeVar("_T")
_log = logging.getLogger("covey.server")


class Gone(Exception):
    """The client no longer listens."""


class Calls:
    """Says who calls, and lets methods serve calls."""

    def __init__(self, sessions: Sessions, threads: Threads, recovery: Recovery) -> None:
        self._sessions = sessions
        self._threads = threads
        self._recovery = recovery

    @property
    def openings(self) -> int:
        """How often the database has been opened so far; for `abort`, asked as a request begins."""
        return self._recovery.opened

    async def of(self, context: grpc.aio.ServicerContext) -> Call:
        """Who calls. A client that has not sent its session's cookie or token is given the cookie."""
        headers = {key.lower(): value for key, value in context.invocation_metadata() or ()}
        token, cookie = _bearer(headers), _cookie(headers)
        session = self._sessions.find(token, cookie, context.peer())
        if session.id not in (token, cookie):
            await context.send_initial_metadata((("set-cookie", f"{COOKIE}={session.id}"),))
        said = {name: text for name, text in headers.items() if isinstance(text, str)}
        defaults = {name: said[name] for name in CHOICES if name in said}
        return Call(session, said.get(TAG), defaults=defaults, dialect=said.get(DIALECT_HEADER))

    def unary(
        self, method: Callable[[Call, bytes], Awaitable[bytes]]
    ) -> Callable[[bytes, grpc.aio.ServicerContext], Awaitable[bytes]]:
        """A handler of one message, answered by one."""

        async def serve(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
            before = self.openings
            call = await self.of(context)
            try:
                return await method(call, request)
            except asyncio.CancelledError:
                call.cancel()
                raise
            except Exception as error:
                await self.abort(context, error, before)
                return b""

        return serve

    def streaming(
        self, method: Callable[[Call, bytes, grpc.aio.ServicerContext], Awaitable[None]]
    ) -> Callable[[bytes, grpc.aio.ServicerContext], Awaitable[None]]:
        """A handler of one message, answered by any number of them."""

        async def serve(request: bytes, context: grpc.aio.ServicerContext) -> None:
            before = self.openings
            call = await self.of(context)
            try:
                await method(call, request, context)
            except asyncio.CancelledError:
                call.cancel()
                raise
            except Gone:
                call.cancel()
            except Exception as error:
                await self.abort(context, error, before)

        return serve

    async def abort(self, context: grpc.aio.ServicerContext, error: Exception, before: int) -> None:
        """Tell a caller what went wrong in a request that began after `before` openings of the database."""
        if not isinstance(error, ServerError | Gone):
            error = await within(self._threads.aside, self._recovery.explained, error, before)
        await _abort(context, error)


def unsupported(name: str) -> Callable[[Any, grpc.aio.ServicerContext], Awaitable[None]]:
    """A handler of an RPC that there is not."""

    async def serve(_request: Any, context: grpc.aio.ServicerContext) -> None:
        await _abort(context, Unsupported(f"{name} is not supported"))

    return serve


async def within(pool: ThreadPoolExecutor, function: Callable[..., _T], *arguments: Any) -> _T:
    """Run what blocks in a thread of a pool."""
    return await asyncio.get_running_loop().run_in_executor(pool, function, *arguments)


async def send(context: grpc.aio.ServicerContext, message: bytes) -> None:
    """Send a message, once there is room for it. Raises Gone where nobody takes it."""
    try:
        await context.write(message)
    except Exception as error:
        raise Gone from error


async def _abort(context: grpc.aio.ServicerContext, error: Exception) -> None:
    if isinstance(error, Gone):
        return
    status = status_of(error)
    if status.code is StatusCode.INTERNAL and not isinstance(error, ServerError):
        _log.error("a request failed: %s", status.message, exc_info=error)
    await context.abort(status.code, status.message)


def _bearer(headers: Mapping[str, Any]) -> str | None:
    kind, _, token = str(headers.get("authorization", "")).partition(" ")
    return token.strip() if kind.lower() == "bearer" else None


def _cookie(headers: Mapping[str, Any]) -> str | None:
    jar: SimpleCookie = SimpleCookie()
    with suppress(CookieError):
        jar.load(str(headers.get("cookie", "")))
    return jar[COOKIE].value if COOKIE in jar else None
