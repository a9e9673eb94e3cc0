"""Statements one after another in, a free DuckDB connection for each out; knows no client, no SQL but BEGIN and COMMIT.

A lane of its own is a statement's; that of a transaction lasts until its client ends it.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

import duckdb

from covey_server.errors import NoSuchThing, TransactionAborted
from covey_server.results import Rows

Changed = Callable[[frozenset[str]], None]
"""Hears the names, in lower case, that a statement holds which writes."""


def nobody(_names: frozenset[str]) -> None:
    """Hears nothing."""


class Cursors(Protocol):
    """The database as sessions see it."""

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A new DuckDB connection with a transaction context of its own."""
        ...


class Lane:
    """A DuckDB connection on which statements run one after the other.

    `used` marks the time of the last use. explicit: its statements belong to a transaction begun by the
    client. schema: tells the session's default schema, None for DuckDB's. changed: told as a statement writes, and
    as that is committed.
    """

    explicit = False

    def __init__(
        self, database: Cursors, schema: Callable[[], str | None], changed: Changed = nobody
    ) -> None:
        self._database = database
        self._changed = changed
        self._schema = schema
        self._used_schema: str | None = None
        self._cursor: duckdb.DuckDBPyConnection | None = None
        self.lock = threading.RLock()
        self.used = time.monotonic()
        self.open_rows: Rows | None = None

    @contextmanager
    def statement(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """The connection, free for the next statement: rows of the one before are spooled."""
        with self.lock:
            self.used = time.monotonic()
            self.settle()
            try:
                yield self._connection()
            finally:
                self.used = time.monotonic()

    def settle(self) -> None:
        """Spool the rows that are still open."""
        with self.lock:
            open_rows, self.open_rows = self.open_rows, None
            if open_rows is not None:
                open_rows.spool()
                if open_rows.failure is not None:
                    self.failed()

    @property
    def settled(self) -> bool:
        """Whether all that it reads is committed."""
        return True

    def wrote(self, names: frozenset[str]) -> None:
        """A statement with these names in it (lower case) has changed the database."""
        self._changed(names)

    def interrupt(self) -> None:
        """Stop what DuckDB does on this lane; harmless where it does nothing."""
        if self._cursor is not None:
            with suppress(duckdb.Error):
                self._cursor.interrupt()

    def release(self) -> None:
        """The statement is over."""
        with self.lock:
            if self._cursor is not None:
                self._cursor.close()
                self._cursor = None

    def _connection(self) -> duckdb.DuckDBPyConnection:
        if self._cursor is None:
            self._cursor = self._database.cursor()
            self._used_schema = None
        schema = self._schema()
        if schema != self._used_schema:
            self._cursor.execute(f"USE {quote(schema or 'main')}")
            self._used_schema = schema
        return self._cursor

    def failed(self) -> None:
        """The statement failed: nothing to mend where each is a transaction of its own."""


_LOST = "the transaction is lost, as DuckDB failed on another statement: roll it back"


class Transaction(Lane):
    """A lane between BEGIN and COMMIT or ROLLBACK; begins at its first statement.

    DuckDB aborts a transaction at its first error. One that has only read is begun anew, so that a mistyped
    query does not cost a reader the connection; one that has written stays aborted until its client rolls it
    back, and cannot be committed.
    """

    explicit = True

    def __init__(
        self, database: Cursors, schema: Callable[[], str | None], changed: Changed = nobody
    ) -> None:
        super().__init__(database, schema, changed)
        self.id = secrets.token_bytes(16)
        self._begun = False
        self._dirty = False
        self._written: frozenset[str] = frozenset()
        self._ended = False
        self._lost = False

    def end(self, commit: bool) -> None:
        """Commit or roll back, and close the connection. Rows still being fetched stay fetchable.

        Raises TransactionAborted where what was written cannot be committed: it is rolled back.
        """
        with self.lock:
            self.settle()
            if self._lost:
                self._cursor = None
            cursor, begun, self._ended = self._cursor, self._begun, True
            self._begun = False
            try:
                if self._lost and commit and self._dirty:
                    raise TransactionAborted(_LOST)
                if cursor is not None and begun:
                    lost = commit and self._dirty and _is_aborted(cursor)
                    cursor.execute("COMMIT" if commit and not lost else "ROLLBACK")
                    if lost:
                        raise TransactionAborted(
                            "the transaction was rolled back, not committed: a statement in it had failed"
                        )
            finally:
                super().release()
                if self._dirty:
                    self._changed(self._written)

    @property
    def settled(self) -> bool:
        """Whether nothing was written yet."""
        return not self._dirty

    def wrote(self, names: frozenset[str]) -> None:
        """Remember that there is something to lose."""
        self._dirty = True
        self._written |= names
        super().wrote(names)

    def release(self) -> None:
        """The statement is over, the transaction is not."""

    def lose(self) -> None:
        """The database is another one now: begin anew where nothing is lost by it. Callable from any thread."""
        self._lost = True

    def _connection(self) -> duckdb.DuckDBPyConnection:
        if self._ended:
            raise NoSuchThing("the transaction has ended")
        if self._lost:
            if self._dirty:
                raise TransactionAborted(_LOST)
            self._cursor, self._begun, self._lost = None, False, False
        cursor = super()._connection()
        if not self._begun:
            cursor.execute("BEGIN TRANSACTION")
            self._begun = True
        return cursor

    def failed(self) -> None:
        """The statement failed: begin anew where nothing is lost by it."""
        with self.lock:
            if self._begun and not self._dirty and self._cursor is not None:
                self.settle()
                self._begun = False
                with suppress(duckdb.Error):
                    self._cursor.execute("ROLLBACK")


def _is_aborted(cursor: duckdb.DuckDBPyConnection) -> bool:
    """Whether DuckDB would take a COMMIT for a ROLLBACK, without a word."""
    try:
        cursor.execute("SELECT 1")
    except duckdb.TransactionException:
        return True
    return False


def quote(name: str) -> str:
    """An SQL identifier that means exactly this name."""
    return '"' + name.replace('"', '""') + '"'
