"""A server that is told to stop before its model is loaded says nothing about the worker it has ended."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any, cast

from covey_engine.prefill.errors import EngineError
from covey_server import cli
from covey_server.config import ServerConfig


class Loading:
    """An engine that is never ready."""

    def __init__(self) -> None:
        self.closed = threading.Event()

    def info(self) -> None:
        self.closed.wait(60)
        raise EngineError("the engine is closed")

    def close(self) -> None:
        self.closed.set()


class Bound:
    """A server that has nothing to do."""

    def bind(self) -> int:
        return 1

    async def stop(self) -> bool:
        return True


def test_stopping_while_the_model_loads_is_quiet() -> None:
    said: list[str] = []

    async def told_to_stop() -> bool:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: said.append(str(context["message"])))
        stopping = asyncio.Event()
        stopping.set()
        ended = await cli._serving(cast(Any, Bound()), ServerConfig(), cast(Any, Loading()), stopping, 0.0)
        await loop.shutdown_default_executor()
        await asyncio.sleep(0.01)
        gc.collect()
        return ended

    assert asyncio.run(told_to_stop())
    assert said == []
