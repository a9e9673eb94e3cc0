"""SIGTERM and SIGINT in, an orderly end out; knows nothing of what ends.

The first of them leaves the block it comes in as an exit would, or tells the event loop that runs there. Further ones
change nothing: what is put away in bounded time is put away to its end.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

_STOPS = (signal.SIGTERM, signal.SIGINT)


class Stops:
    """While the block runs, the two signals end it; `came`: whether one has come."""

    def __init__(self) -> None:
        self.came = False
        self._tell: Callable[[], object] | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Stops:
        self._before = {number: signal.signal(number, self._hear) for number in _STOPS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.came:
            for number, handler in self._before.items():
                signal.signal(number, handler)

    @contextmanager
    def told(self, tell: Callable[[], object]) -> Iterator[None]:
        """While this block runs, `tell` is called instead, in the main thread."""
        self._tell = tell
        try:
            yield
        finally:
            self._tell = None

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        self.came = True
        for number in _STOPS:
            signal.signal(number, signal.SIG_IGN)
        if self._tell is None:
            raise SystemExit(0)
        self._tell()
