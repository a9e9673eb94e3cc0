"""DuckDB's own figures: a cursor in, what it keeps of columns and expects of queries out; never runs the model.

A statement that takes too long is interrupted, except where that would abort a transaction.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import duckdb
from covey_storage.data_files import quoted

T = TypeVar("T")

SECONDS = 0.04
"""How long all counting for one statement may take."""


@dataclass(frozen=True)
class Outline:
    """What DuckDB expects of a query. scanned: the most rows that it reads or that are expected anywhere in it; rows:
    of its result; whole: it yields just the rows of one table.
    """

    scanned: float
    rows: float
    whole: bool


@dataclass
class DuckFigures:
    """What one cursor sees; made for one statement. in_transaction: the cursor must not be interrupted; left: seconds
    for what may take time.
    """

    cursor: duckdb.DuckDBPyConnection
    in_transaction: bool = False
    left: float = SECONDS
    _counts: dict[str, float] = field(default_factory=dict)
    _stats: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    _outlines: dict[str, Outline] = field(default_factory=dict)

    def column(self, table: str, column: str) -> dict[str, Any]:
        """What DuckDB keeps of a column; nothing of a view's."""
        place = table, column
        if place not in self._stats:
            sql = f"SELECT stats({quoted(column)}) FROM {quoted(table)} LIMIT 1"
            found = self.ask(sql, sure=True)
            self._stats[place] = found[0][0] if found and isinstance(found[0][0], dict) else {}
        return self._stats[place]

    def outline(self, sql: str) -> Outline:
        """What DuckDB expects of a query, by its EXPLAIN."""
        if sql not in self._outlines:
            self._outlines[sql] = self._outlined(sql)
        return self._outlines[sql]

    def _outlined(self, sql: str) -> Outline:
        explain = f"EXPLAIN (FORMAT json) {sql}"
        if self.in_transaction:
            self._try_aside(explain)
        found = self.ask(explain, sure=True)
        nodes = list(_nodes(json.loads(found[0][1]))) if found else []
        scanned = sum(self._scanned(node) for node in nodes)
        most = max((_cardinality(node) for node in nodes), default=0.0)
        *above, last = nodes or [{}]
        whole = all(node["name"] == "PROJECTION" for node in above) and not _told(last, "Filters")
        if whole and _told(last, "Table"):
            return Outline(scanned, scanned, whole=True)
        return Outline(max(scanned, most), _cardinality(nodes[0]) if nodes else 0.0, whole=False)

    def _try_aside(self, sql: str) -> None:
        """Raise on another cursor what would abort the transaction, unless that lies in what it alone sees."""
        with closing(self.cursor.cursor()) as aside, suppress(duckdb.CatalogException):
            aside.sql(sql).fetchall()

    def _scanned(self, node: Mapping[str, Any]) -> float:
        table = _told(node, "Table").rpartition(".")[2].strip('"')
        if not table:
            return 0.0
        if table not in self._counts:
            found = self.ask(f"SELECT count(*) FROM {quoted(table)}", sure=True)
            self._counts[table] = float(found[0][0]) if found else 0.0
        return self._counts[table]

    def ask(self, sql: str, sure: bool = False) -> list[Any] | None:
        """A small result; None where it takes too long. sure: it takes no time."""
        return self.run(sql, duckdb.DuckDBPyRelation.fetchall, sure)

    def run(self, sql: str, fetch: Callable[[duckdb.DuckDBPyRelation], T], sure: bool) -> T | None:
        """The result of a statement, as `fetch` reads it; None where it takes too long."""
        if not sure and (self.left <= 0 or self.in_transaction):
            return None
        if sure:
            return fetch(self.cursor.sql(sql))
        begun = time.perf_counter()
        timer = threading.Timer(self.left, self.cursor.interrupt)
        timer.start()
        try:
            return fetch(self.cursor.sql(sql))
        except duckdb.InterruptException:
            return None
        finally:
            timer.cancel()
            # An interruption that comes late must not meet the next statement.
            timer.join()
            self.left -= time.perf_counter() - begun


def _nodes(plan: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for node in plan:
        yield node
        yield from _nodes(node.get("children", ()))


def _cardinality(node: Mapping[str, Any]) -> float:
    text = _told(node, "Estimated Cardinality")
    return float(text) if text.isdigit() else 0.0


def _told(node: Mapping[str, Any], name: str) -> str:
    return str(node.get("extra_info", {}).get(name, ""))
