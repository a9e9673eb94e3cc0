"""An open database and a model (or none) in, a listening server out, stopped in bounded time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

import grpc
from covey_storage.catalog import Database
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from covey_server.config import ServerConfig
from covey_server.core import AiSide, Core
from covey_server.errors import ShuttingDown, StartupError
from covey_server.flightsql import FlightSql
from covey_server.guard import Guard
from covey_server.lifecycle import History
from covey_server.recovery import Recovery
from covey_server.registry import Registry
from covey_server.service import SERVICE, FlightService
from covey_server.sessions import Sessions
from covey_server.sqlinfo import facts, keywords
from covey_server.threads import Threads

_REAP_SECONDS = 5.0
_LAST_WORDS_SECONDS = 2.0
"""How long the callers of what is cancelled when the server stops have for taking the reason."""

_STOP_SECONDS = 2.0
"""How long rolling back may take when the server stops."""

_OPTIONS: tuple[tuple[str, Any], ...] = (
    # Two servers must not share a port.
    ("grpc.so_reuseport", 0),
    # Bulk ingestion sends batches as large as it likes.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Proxies cut connections that are silent while the model works.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.max_metadata_size", 64 << 10),
)

_log = logging.getLogger("covey.server")


class Server:
    """One Flight SQL endpoint. Create, bind, start and stop it on the same event loop."""

    def __init__(self, config: ServerConfig, database: Database, guard: Guard, ai: AiSide | None) -> None:
        self._config = config
        self._guard = guard
        self._threads = Threads()
        ttls = config.session_ttl_seconds, config.transaction_ttl_seconds
        self.sessions = Sessions(database, *ttls) if ai is None else Sessions(database, *ttls, ai.changed)
        self.registry = Registry(config.statement_ttl_seconds, config.ticket_ttl_seconds)
        core = Core(database, guard, History(config.history), ai, config.slice_bytes, config.statement_bytes)
        cursor = database.cursor()
        known = facts(keywords(cursor), config.statement_ttl_seconds, config.transaction_ttl_seconds)
        cursor.close()
        flight = FlightSql(core, self.sessions, self.registry, known)
        recovery = Recovery(
            database, self.sessions, self.registry, _kept(database), _forgetting(database, ai)
        )
        self._health = health.aio.HealthServicer()
        self._grpc = grpc.aio.server(options=_OPTIONS)
        self._grpc.add_generic_rpc_handlers((FlightService(flight, self._threads, recovery).handler(),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._grpc)
        self._reaper: asyncio.Task[None] | None = None

    def bind(self) -> int:
        """Take the port; the port taken. Raises StartupError where it is busy."""
        address = f"{self._config.host}:{self._config.port}"
        try:
            port: int = self._grpc.add_insecure_port(address)
        except RuntimeError:
            port = 0
        if not port:
            raise StartupError(
                f"cannot listen on {address}: the port is in use or the address is not of this machine"
            )
        return port

    async def start(self) -> None:
        """Serve."""
        await self._grpc.start()
        for name in ("", SERVICE):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        self._reaper = asyncio.create_task(self._reap())

    async def stop(self) -> bool:
        """End what runs, after the grace, and roll back; whether all threads have ended."""
        await self._health.enter_graceful_shutdown()
        ending = asyncio.ensure_future(self._grpc.stop(self._config.grace_seconds + _LAST_WORDS_SECONDS))
        await asyncio.wait({ending}, timeout=self._config.grace_seconds)
        for query in self.registry.live():
            query.cancel(ShuttingDown("the server is going down"))
        await ending
        if self._reaper is not None:
            self._reaper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reaper
        loop = asyncio.get_running_loop()
        closing = loop.run_in_executor(self._threads.aside, self.sessions.close_all)
        await asyncio.wait({closing}, timeout=_STOP_SECONDS)
        self._threads.shutdown()
        self._guard.close()
        deadline = loop.time() + _STOP_SECONDS
        while loop.time() < deadline and self._threads.alive():
            await asyncio.sleep(0.02)
        return not self._threads.alive()

    async def _reap(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_REAP_SECONDS)
            try:
                await loop.run_in_executor(self._threads.aside, self.registry.reap)
                await loop.run_in_executor(self._threads.aside, self.sessions.reap)
            except Exception:
                _log.exception("reaping failed")


def _kept(database: Database) -> str:
    """What is there after the database was opened again."""
    if database.path is not None:
        return "all that was committed"
    return "the tables of its data files, and no others"


def _forgetting(database: Database, ai: AiSide | None) -> Callable[[], None]:
    """Has the model's side forget what it knows of tables."""

    def forget() -> None:
        if ai is not None:
            ai.changed(frozenset(name.lower() for name in database.columns()))

    return forget
