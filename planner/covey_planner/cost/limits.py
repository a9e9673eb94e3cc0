"""A cursor and seconds in; what it runs is interrupted when they are over. Never starts a statement itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

_AGAIN = 0.005
"""Seconds between interruptions: one that comes before a statement has begun to run is lost."""


@contextmanager
def at_most(cursor: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    """Interrupt what the cursor runs inside once the seconds are over, until it ends, and nothing after that."""
    ended = threading.Event()

    def interrupt() -> None:
        wait = seconds
        while not ended.wait(wait):
            cursor.interrupt()
            wait = _AGAIN

    thread = threading.Thread(target=interrupt, name="covey-limit", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        # An interruption that comes late must not meet the next statement.
        thread.join()
