"""A database file (or none) and data files in, a locked DuckDB with tables out; never touches tokens."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakSet

import duckdb

from covey_storage.data_files import data_tables, load, reason
from covey_storage.errors import Locked, NotFound, StorageError
from covey_storage.places import check_writable
from covey_storage.temporary import TemporaryFolder


class Database:
    """The tables and views that queries run on.

    SQL that runs here reaches no file, no network and no setting: DuckDB is locked once the data files are
    loaded. Every method may be called from any thread; a cursor belongs to one thread at a time.
    """

    def __init__(self, source: _Source) -> None:
        self.path = source.path
        self._source = source
        self._lock = threading.Lock()
        self._cursors: WeakSet[duckdb.DuckDBPyConnection] = WeakSet()
        self._open()

    @staticmethod
    def open(
        path: Path | None = None,
        data: Sequence[Path] = (),
        *,
        memory_limit: str | None = None,
        threads: int | None = None,
    ) -> Database:
        """Open (or create) the database file, or one in memory, load data files into it and lock it.

        data: folders, whose files become tables named by their stem, or single files. memory_limit: DuckDB's,
        such as "4GB". Raises Locked where another process has the file open, else NotFound or StorageError;
        one line each.
        """
        tables = data_tables([Path(source).expanduser() for source in data])
        return Database(_Source(path, tables, memory_limit, threads))

    def reopen(self) -> bool:
        """Open the database anew where DuckDB has given it up after an error of its own; whether that was so.

        All cursors end, and what is not committed is lost. A database in memory holds what the data files hold.
        Raises StorageError where it cannot be opened: for a file, as long as a statement holds on to the old one.
        """
        with self._lock:
            if self._alive():
                return False
            for cursor in list(self._cursors):
                with suppress(duckdb.Error):
                    cursor.interrupt()
                    cursor.close()
            self._close()
            self._open()
            return True

    def _open(self) -> None:
        # A file's spill folder lies beside it.
        self._spill = TemporaryFolder("spill") if self.path is None else None
        self._connection = _connect(self.path)
        try:
            self._source.fill(self._connection, None if self._spill is None else self._spill.path)
        except BaseException:
            self._close()
            raise

    def _alive(self) -> bool:
        try:
            self._connection.execute("SELECT 1")
        except duckdb.Error:
            return False
        return True

    @property
    def tokens_root(self) -> Path | None:
        """Where the token columns of this database belong: beside its file; None for one in memory."""
        return None if self.path is None else self.path.with_name(f"{self.path.name}.tokens")

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A new connection to the database, with transactions of its own."""
        with self._lock:
            cursor = self._connection.cursor()
            self._cursors.add(cursor)
            return cursor

    def columns(self, cursor: duckdb.DuckDBPyConnection | None = None) -> dict[str, dict[str, str]]:
        """The DuckDB type of each column of each table and view, in their order.

        cursor: sees what its transaction sees; it must have no open result.
        """
        own = self.cursor() if cursor is None else cursor
        rows = own.execute(
            "SELECT table_name, column_name, data_type FROM duckdb_columns() "
            "WHERE schema_name = 'main' AND database_name = current_database() AND NOT internal "
            "ORDER BY table_name, column_index"
        ).fetchall()
        if cursor is None:
            own.close()
        tables: dict[str, dict[str, str]] = {}
        for table, column, kind in rows:
            tables.setdefault(table, {})[column] = kind
        return tables

    def views(self, cursor: duckdb.DuckDBPyConnection | None = None) -> dict[str, str]:
        """The statement that creates each view, by its name. cursor: as of `columns`."""
        own = self.cursor() if cursor is None else cursor
        rows = own.execute(
            "SELECT view_name, sql FROM duckdb_views() "
            "WHERE schema_name = 'main' AND database_name = current_database() AND NOT internal"
        ).fetchall()
        if cursor is None:
            own.close()
        return dict(rows)

    def describe(self, sql: str, cursor: duckdb.DuckDBPyConnection | None = None) -> list[tuple[str, str]]:
        """Name and DuckDB type of each output column of a SELECT, which is not run. Raises duckdb.Error."""
        own = self.cursor() if cursor is None else cursor
        try:
            return [(row[0], row[1]) for row in own.execute(f"DESCRIBE {sql}").fetchall()]
        finally:
            if cursor is None:
                own.close()

    def close(self) -> None:
        """Close the database; cursors that are still open are of no more use.

        One on which a statement still runs keeps DuckDB open until it ends, with its process at the latest.
        """
        with self._lock:
            self._close()

    def _close(self) -> None:
        with suppress(duckdb.Error):
            # DuckDB refuses to close a connection that is busy.
            self._connection.close()
        if self._spill is not None:
            self._spill.close()


@dataclass(frozen=True)
class _Source:
    """What a database is opened from. tables: the data file of each; the others: as of `Database.open`."""

    path: Path | None
    tables: Mapping[str, Path]
    memory_limit: str | None
    threads: int | None

    def fill(self, connection: duckdb.DuckDBPyConnection, spill: Path | None) -> None:
        """Configure DuckDB, load the data files and lock it. Raises StorageError."""
        _configure(connection, self.path, self.memory_limit, self.threads, spill)
        for name, file in self.tables.items():
            load(connection, name, file)
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")


def _connect(path: Path | None) -> duckdb.DuckDBPyConnection:
    if path is None:
        return duckdb.connect(":memory:")
    if not os.path.isdir(path.parent):
        raise NotFound(f"cannot open the database {path}: there is no folder {path.parent}")
    check_writable(path.parent, f"the log of the database {path}")
    if os.path.exists(path) and not os.access(path, os.W_OK):
        raise StorageError(
            f"cannot write to the database {path}: it is read-only, or belongs to another user"
        )
    try:
        return duckdb.connect(str(path))
    except duckdb.Error as error:
        text = str(error)
        if "Conflicting lock" in text or "Could not set lock" in text:
            holder = re.search(r"PID (\d+)", text)
            by = f"another process (pid {holder[1]})" if holder else "another process"
            raise Locked(f"the database {path} is in use by {by}") from None
        if "not a valid DuckDB database" in text:
            raise StorageError(f"{path} is not a DuckDB database") from None
        raise StorageError(f"cannot open the database {path}: {reason(error)}") from None


def _configure(
    connection: duckdb.DuckDBPyConnection,
    path: Path | None,
    memory_limit: str | None,
    threads: int | None,
    spill: Path | None,
) -> None:
    settings: dict[str, str | int | bool | None] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
        "python_enable_replacements": False,
        "TimeZone": "UTC",
        "memory_limit": memory_limit,
        "threads": threads,
        "temp_directory": None if spill is None else str(spill),
        # By itself DuckDB takes for the limit what was free when it first spilled, and keeps to it when there is room.
        "max_temp_directory_size": "1000000GiB",
    }
    for name, value in settings.items():
        if value is None:
            continue
        literal = "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)
        try:
            connection.execute(f"SET GLOBAL {name} = {literal}")
        except duckdb.Error as error:
            if "configuration has been locked" in str(error):
                # DuckDB shares one instance among all who open the same file in one process.
                raise Locked(f"the database {path} is already open in this process") from None
            raise StorageError(f"cannot set {name} to {value}: {reason(error)}") from None
