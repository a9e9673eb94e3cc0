"""`covey serve` and `covey model`: arguments in, an exit code out; what is wrong is one line on stderr."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import duckdb
import uvloop
from covey_engine.prefill.errors import EngineError
from covey_planner.cost.kept import KeptFigures
from covey_planner.errors import PlanError
from covey_storage.catalog import Database
from covey_storage.errors import StorageError
from covey_storage.model_files import ModelFiles, fetch_embedded, resolve_model
from covey_storage.places import check_temporary, check_writable

from covey_server import long_lived
from covey_server.config import NO_MODEL, ServerConfig, device_dollars, load_config
from covey_server.core import AiSide
from covey_server.errors import StartupError, one_line
from covey_server.guard import Guard
from covey_server.server import Server
from covey_server.stopping import Stops

if TYPE_CHECKING:
    from covey_engine.prefill.process.client import EngineClient

USER_ERROR = 2
"""Exit code where something given is wrong."""

_FRAMES = 5_000
_EXPECTED = (StartupError, StorageError, EngineError, PlanError)


def serve(argv: Sequence[str]) -> int:
    """Run the server until it is told to stop."""
    # Generated SQL nests deeply. 5,000 frames of the planner need 3 MB of a thread's stack at the very most.
    sys.setrecursionlimit(_FRAMES)
    logging.basicConfig(level=logging.WARNING, format="covey: %(levelname)s: %(message)s", stream=sys.stderr)
    begun = time.monotonic()
    try:
        config = load_config(argv)
        check_temporary()
        if config.ready_file:
            check_writable(Path(config.ready_file).parent, "the setting ready_file")
        with Stops() as stops, ExitStack() as stack:
            files = None if config.model == NO_MODEL else resolve_model(config.model, _say)
            _say(_loaded(config, files))
            # The worker loads the model while the database opens.
            engine = None if files is None else _engine(config, files)
            if engine is not None:
                stack.callback(engine.close)
            database = Database.open(
                Path(config.database).expanduser() if config.database else None,
                [Path(source) for source in config.data],
                memory_limit=config.sql_memory or None,
                threads=config.sql_threads or None,
            )
            stack.callback(database.close)
            guard = _guard(database)
            ai = None
            if engine is not None and files is not None:
                ai = _ai_side(config, files, engine, database, guard, stack)
            ended = uvloop.run(
                _run(lambda: Server(config, database, guard, ai), config, engine, stops, begun)
            )
    except _EXPECTED as error:
        print(f"covey: {error}", file=sys.stderr)
        return USER_ERROR
    except duckdb.Error as error:
        # With a memory limit that is too small, DuckDB fails wherever it is asked first.
        print(f"covey: cannot start the database: {one_line(str(error))}", file=sys.stderr)
        return USER_ERROR
    if not ended:
        # A statement that ignores its interruption must not keep the process.
        sys.stdout.flush()
        os._exit(0)
    return 0


def model(argv: Sequence[str]) -> int:
    """Fetch the embedded model, or say where it is."""
    parser = argparse.ArgumentParser(
        prog="covey model", description="The small model that Covey brings along."
    )
    parser.add_argument(
        "what", choices=("fetch", "where"), help="fetch: get it if it is not here; where: its path"
    )
    parser.parse_args(argv)
    try:
        print(fetch_embedded())
    except StorageError as error:
        print(f"covey: {error}", file=sys.stderr)
        return USER_ERROR
    return 0


async def _run(
    make: Callable[[], Server],
    config: ServerConfig,
    engine: EngineClient | None,
    stops: Stops,
    begun: float,
) -> bool:
    """Bind, wait for the model, serve until a signal comes, stop; whether everything ended by itself."""
    server = make()
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    with stops.told(lambda: loop.call_soon_threadsafe(stopping.set)):
        return await _serving(server, config, engine, stopping, begun)


async def _serving(
    server: Server,
    config: ServerConfig,
    engine: EngineClient | None,
    stopping: asyncio.Event,
    begun: float,
) -> bool:
    """The above, until `stopping` is set. begun: when the server began to start, on the monotonic clock."""
    try:
        port = server.bind()
        about = "no model"
        if engine is not None:
            waiting = asyncio.ensure_future(asyncio.to_thread(engine.info))
            stopped = asyncio.ensure_future(stopping.wait())
            await asyncio.wait({waiting, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if stopping.is_set():
                # Closing the engine ends the wait, with an error that is nobody's.
                engine.close()
                await asyncio.wait({waiting})
                waiting.exception()
                return True
            info = waiting.result()
            about = f"model {info.model}, device {info.device}"
        long_lived.set_apart()
        await server.start()
        uri = f"grpc://{_shown(config.host)}:{port}"
        if config.ready_file:
            _write(Path(config.ready_file), uri)
        _say(f"listening on {uri}, {about}, ready after {time.monotonic() - begun:.1f} s")
        await stopping.wait()
    finally:
        ended = await server.stop()
    return ended


def _say(text: str) -> None:
    """Print a line at once, whatever reads it."""
    print(f"covey: {text}", flush=True)


def _loaded(config: ServerConfig, files: ModelFiles | None) -> str:
    """What the server is about to load, and from where."""
    parts = ["no model" if files is None else f"the model {files.name} from {files.path}"]
    parts.append(f"the database {config.database}" if config.database else "a database in memory")
    parts += [f"data from {source}" for source in config.data]
    return f"loading {', '.join(parts)}"


def _guard(database: Database) -> Guard:
    cursor = database.cursor()
    try:
        return Guard(cursor)
    finally:
        cursor.close()


def _ai_side(
    config: ServerConfig,
    files: ModelFiles,
    engine: EngineClient,
    database: Database,
    guard: Guard,
    stack: ExitStack,
) -> AiSide:
    """The planner and the operators around the model."""
    # A server without a model starts without them.
    from covey_engine.operators.executor import Executor
    from covey_planner.plan import PlanOptions
    from covey_planner.profiles import find_profile, profile_for
    from covey_storage.library import TokenLibrary
    from covey_storage.tokenizer import load_tokenizer

    from covey_server.ai import ModelSide
    from covey_server.estimating import Estimating, Prices

    tokenizer = load_tokenizer(files)
    library = TokenLibrary(database.tokens_root, tokenizer, database)
    stack.callback(library.close)
    profile = find_profile(config.profile) if config.profile else profile_for(files.family)
    executor = Executor(database, library, tokenizer, engine, profiles=lambda _name: profile)
    prices = Prices(config.dollars_per_hour, device_dollars(config.device_dollars))
    kept = KeptFigures(database.cursor)
    stack.callback(kept.close)
    estimating = Estimating(engine, library, prices, kept=kept)
    return ModelSide(database, executor, PlanOptions(profile), guard, estimating)


def _engine(config: ServerConfig, files: ModelFiles) -> EngineClient:
    """Start the worker, which begins to load the model."""
    from covey_engine.prefill.config import EngineConfig
    from covey_engine.prefill.process.client import EngineClient

    return EngineClient(
        EngineConfig(
            model=str(files.path),
            device=config.device,
            dtype=config.dtype,
            backend=config.backend,
            arena_bytes=config.arena_bytes,
            chunk_tokens=config.chunk_tokens,
            threads=config.threads,
            hang_seconds=config.hang_seconds,
            calibrate=cast(Literal["auto", "always", "never"], config.calibrate),
            rates_file=_rates_file(config),
        )
    )


def _rates_file(config: ServerConfig) -> str:
    """Where measured rates are kept: beside the database file; empty for a database in memory."""
    path = Path(config.database).expanduser()
    return str(path.with_name(f"{path.name}.rates.json")) if config.database else ""


def _write(path: Path, text: str) -> None:
    """Write a file that is never seen half written."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(text + "\n", "utf-8")
        part.replace(path)
    except OSError as error:
        raise StartupError(
            f"cannot write the setting ready_file, {path}: {error.strerror or error}"
        ) from None


def _shown(host: str) -> str:
    """The host as a client can use it."""
    host = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]", "::": "[::1]"}.get(host, host)
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
