"""What went wrong in a request in, what its caller is told out; opens a database anew that DuckDB has given up.

An error of DuckDB's own ends the database for every connection in the process, until it is opened again. Whoever runs
into that has it opened here: what else runs ends, with a word why, and transactions that have written are lost.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol

import duckdb
from covey_storage.errors import StorageError
from grpc import StatusCode

from covey_server.errors import DatabaseBroken, DatabaseLost, one_line, status_of
from covey_server.registry import Registry
from covey_server.sessions import Sessions

_PATIENCE_SECONDS = 10.0
"""How long statements may take to let go of a database file that is to be opened anew."""

_log = logging.getLogger("covey.server")


class Reopens(Protocol):
    """The database as this module sees it."""

    def reopen(self) -> bool:
        """Open it anew where DuckDB has given it up; whether that was so. Raises StorageError."""
        ...


class Recovery:
    """Opens the database again; methods may be called from any thread.

    opened: how often it has been. kept: what is there afterwards, for people. changed: told once it is there.
    """

    def __init__(
        self,
        database: Reopens,
        sessions: Sessions,
        registry: Registry,
        kept: str,
        changed: Callable[[], None],
    ) -> None:
        self.opened = 0
        self._database = database
        self._sessions = sessions
        self._registry = registry
        self._kept = kept
        self._changed = changed
        self._lock = threading.Lock()

    def explained(self, error: Exception, before: int) -> Exception:
        """What a caller is told of an error in a request that began after `before` openings. Blocks."""
        status = status_of(error)
        suspicious = status.code is StatusCode.INTERNAL or _own(error)
        if not suspicious and status.code is not StatusCode.CANCELLED:
            return error
        with self._lock:
            try:
                if suspicious:
                    self._mend()
                there = f"the database was opened again, with {self._kept}"
            except StorageError as cause:
                if not _own(error):
                    return error
                there = f"the database cannot be opened again: {one_line(str(cause))}"
            else:
                if self.opened == before:
                    return error
        if any(
            isinstance(cause, duckdb.InternalException) or _said(cause, "INTERNAL") for cause in _chain(error)
        ):
            return DatabaseBroken(f"DuckDB failed on this statement ({status.message}); {there}")
        return DatabaseLost(f"DuckDB failed on another statement; {there}: run this one again")

    def _mend(self) -> None:
        """Open the database again if it has to be. Raises StorageError."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                if self._database.reopen():
                    break
                return
            except StorageError as error:
                if time.monotonic() > deadline:
                    _log.error("the database cannot be opened again: %s", error)
                    raise
            self._stop_all()
            time.sleep(0.05)
        self.opened += 1
        self._sessions.lose()
        self._stop_all()
        self._changed()
        _log.error("DuckDB has given up the database; it was opened again, with %s", self._kept)

    def _stop_all(self) -> None:
        """End what reads the old database, which keeps a file from being opened."""
        why = DatabaseLost(
            "DuckDB failed on another statement, and the database is opened again: run this one again"
        )
        for query in self._registry.live():
            query.cancel(why)
            query.close("failed", str(why))


def _own(error: BaseException) -> bool:
    """Whether DuckDB has failed at itself, not at the statement, or is not open since."""
    return any(
        isinstance(cause, duckdb.FatalException | duckdb.InternalException | duckdb.ConnectionException)
        or _said(cause, "FATAL")
        or _said(cause, "INTERNAL")
        for cause in _chain(error)
    )


def _said(error: BaseException, word: str) -> bool:
    """Whether an error of another class, such as an Arrow reader's, brings one of DuckDB's that begins so."""
    return str(error).startswith(f"{word} Error")


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and what caused it."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
