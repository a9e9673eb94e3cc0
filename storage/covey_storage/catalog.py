"""A database file (or none) and data files in, a locked DuckDB with tables out; never touches tokens."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import duckdb

from covey_storage.data_files import data_tables, load, reason
from covey_storage.errors import Locked, NotFound, StorageError
from covey_storage.temporary import TemporaryFolder


class Database:
    """The tables and views that queries run on.

    SQL that runs here reaches no file, no network and no setting: DuckDB is locked once the data files are
    loaded. Every method may be called from any thread; a cursor belongs to one thread at a time.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, path: Path | None, spill: TemporaryFolder | None
    ) -> None:
        self.path = path
        self._connection = connection
        self._spill = spill
        self._lock = threading.Lock()

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
        # A file's spill folder lies beside it.
        spill = TemporaryFolder("spill") if path is None else None
        connection = _connect(path)
        database = Database(connection, path, spill)
        try:
            _configure(connection, path, memory_limit, threads, None if spill is None else spill.path)
            for name, file in tables.items():
                load(connection, name, file)
            connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
        except BaseException:
            database.close()
            raise
        return database

    @property
    def tokens_root(self) -> Path | None:
        """Where the token columns of this database belong: beside its file; None for one in memory."""
        return None if self.path is None else self.path.with_name(f"{self.path.name}.tokens")

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A new connection to the database, with transactions of its own."""
        with self._lock:
            return self._connection.cursor()

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
        with self._lock, suppress(duckdb.Error):
            # DuckDB refuses to close a connection that is busy.
            self._connection.close()
        if self._spill is not None:
            self._spill.close()


def _connect(path: Path | None) -> duckdb.DuckDBPyConnection:
    if path is None:
        return duckdb.connect(":memory:")
    if not path.parent.is_dir():
        raise NotFound(f"cannot open the database {path}: there is no folder {path.parent}")
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
