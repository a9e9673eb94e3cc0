"""Real servers in this process over the hash model, each with a database of its own; and the oracle, plain DuckDB."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import adbc_driver_flightsql.dbapi as dbapi
import duckdb
from covey_engine.operators.executor import Executor
from covey_engine.prefill.api import Engine
from covey_planner.plan import PlanOptions
from covey_server.ai import ModelSide
from covey_server.config import ServerConfig
from covey_server.estimating import Estimating, Prices
from covey_server.guard import Guard
from covey_server.server import Server
from covey_storage.catalog import Database
from covey_storage.library import TokenLibrary
from support.hash_model import PROFILE, TOKENIZER, HashEngine
from support.slt import Outcome, Record

ORACLE_MACROS = Path(__file__).parents[1] / "sql" / "oracle.sql"

Run = Callable[[Record], Outcome]
T = TypeVar("T")


class Host:
    """An event loop in a thread, on which servers run one after another."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="servers", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @contextmanager
    def serve(
        self, folder: Path, engine: Engine | None = None, prices: Prices | None = None
    ) -> Iterator[str]:
        """A server on an empty database, as its address. engine: a HashEngine by default; prices: for estimates, which
        are not made without them.
        """
        with ExitStack() as stack:
            database = Database.open(None, threads=1)
            stack.callback(database.close)
            cursor = database.cursor()
            guard = Guard(cursor)
            cursor.close()
            library = TokenLibrary(folder, TOKENIZER, database)
            stack.callback(library.close)
            engine = engine or HashEngine()
            executor = Executor(database, library, TOKENIZER, engine, lambda _: PROFILE)
            estimating = None if prices is None else Estimating(engine, library, prices)
            side = ModelSide(database, executor, PlanOptions(PROFILE), guard, estimating)
            server, port = self.do(_start(database, guard, side))
            stack.callback(lambda: self.do(server.stop()))
            yield f"grpc://127.0.0.1:{port}"

    @contextmanager
    def connect(self, folder: Path, dialect: str, optimizer: str) -> Iterator[dbapi.Connection]:
        """A connection to a server of its own."""
        with self.serve(folder) as uri, dbapi.connect(uri, autocommit=True) as connection:
            with connection.cursor() as cursor:
                cursor.execute(f"SET ai_dialect = '{dialect}'")
                cursor.execute(f"SET ai_optimizer = '{optimizer}'")
            yield connection

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


async def _start(database: Database, guard: Guard, side: ModelSide) -> tuple[Server, int]:
    server = Server(ServerConfig(port=0, grace_seconds=0), database, guard, side)
    port = server.bind()
    await server.start()
    return server, port


def client(connection: dbapi.Connection) -> Run:
    """Runs records through the ADBC client."""

    def run(record: Record) -> Outcome:
        try:
            with connection.cursor() as cursor:
                cursor.execute(record.sql, record.values)
                return Outcome(tuple(cursor.fetchall()) if record.kind == "query" else ())
        except dbapi.Error as error:
            return Outcome(error=str(error))

    return run


def oracle() -> Run:
    """Runs records on plain DuckDB, the AI calls being macros."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(ORACLE_MACROS.read_text("utf-8"))

    def run(record: Record) -> Outcome:
        try:
            found = connection.execute(record.sql, record.values or ()).fetchall()
        except duckdb.Error as error:
            return Outcome(error=str(error))
        return Outcome(tuple(found))

    return run


def run_all(records: Sequence[Record], names: frozenset[str], run: Run) -> Iterator[tuple[Record, Outcome]]:
    """The outcome of each record that concerns a run of these names."""
    for record in records:
        if record.concerns(names):
            yield record, run(record)
