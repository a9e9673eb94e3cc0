"""Which views hold AI calls: names of statements in, the views' queries out; reads DuckDB's catalog, runs no query.

DuckDB keeps such a view with its columns, its query as a comment. What may read one goes to the planner.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

import duckdb
from covey_planner.language.views import View
from covey_planner.language.writing import VIEW_MARK
from covey_storage.catalog import Database

_FOUND = f"""
    SELECT v.view_name, v.comment, list(c.column_name ORDER BY c.column_index)
    FROM duckdb_views() v JOIN duckdb_columns() c USING (database_oid, schema_oid)
    WHERE NOT v.internal AND starts_with(v.comment, '{VIEW_MARK}') AND c.table_oid = v.view_oid
    GROUP BY ALL
"""


class StoredViews:
    """The views of a database that have AI calls; methods may be called from any thread.

    Names are never forgotten: one that is no such view any more only costs a look at the catalog.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._names: set[str] | None = None

    def concern(self, names: frozenset[str]) -> bool:
        """Whether one of these names is, or was, one of the views."""
        return not self._known().isdisjoint(names)

    def note(self, names: Iterable[str]) -> None:
        """These may be views from now on."""
        known = self._known()
        with self._lock:
            known.update(name.lower() for name in names)

    def read(self, cursor: duckdb.DuckDBPyConnection) -> dict[str, View]:
        """The views that a cursor's transaction sees, by lower-case name."""
        rows = cursor.execute(_FOUND).fetchall()
        return {name.lower(): View.of(name, tuple(columns), comment) for name, comment, columns in rows}

    def _known(self) -> set[str]:
        with self._lock:
            if self._names is None:
                cursor = self._database.cursor()
                self._names = set(self.read(cursor))
                cursor.close()
            return self._names
