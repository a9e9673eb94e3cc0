"""Cancel events go in, calls of what stops the running part come out; never decides what to stop.

A query blocks in two places: inside DuckDB and while it waits for answers. One thread per executor looks at
the cancel events of all blocked queries, so that a cancel takes effect there too, not only between batches.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

INTERVAL = 0.02
"""Seconds between two looks at the cancel events."""


class CancelWatch:
    """Calls actions while their events are set; the thread exists only while somebody is guarded."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._guards: dict[int, tuple[threading.Event, Callable[[], None]]] = {}
        self._names = itertools.count()
        self._thread: threading.Thread | None = None

    @contextmanager
    def guard(self, event: threading.Event, stop: Callable[[], None]) -> Iterator[None]:
        """While the block runs and `event` is set, call `stop` (from another thread) at each look: DuckDB forgets an
        interruption that comes before it has begun.
        """
        name = next(self._names)
        with self._lock:
            self._guards[name] = (event, stop)
            if self._thread is None:
                self._thread = threading.Thread(target=self._look, name="covey-cancel-watch", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._guards.pop(name, None)

    def _look(self) -> None:
        idle = 0
        pause = threading.Event()
        while True:
            pause.wait(INTERVAL)
            with self._lock:
                idle = 0 if self._guards else idle + 1
                if idle > 100:
                    self._thread = None
                    return
                # The stops run under the lock: a block that has been left is never stopped afterwards.
                for stop in [stop for event, stop in self._guards.values() if event.is_set()]:
                    # What cannot be stopped any more ends by itself; the others must still be looked after.
                    with suppress(Exception):
                        stop()
