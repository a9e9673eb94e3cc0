"""DuckDB's own figures: a cursor in, what it keeps of columns, expects of queries and counts out; never runs the model.

What is large is counted as far as a budget of time goes, and behind the statement else. A statement that takes too long
is interrupted, except where that would abort a transaction: there only what is small is counted.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import duckdb
from covey_storage.data_files import quoted

from covey_planner.cost.kept import TOO_LONG, KeptFigures, Later
from covey_planner.cost.statistics import Count

T = TypeVar("T")

SECONDS = 0.01
"""How long all counting of what is large may take for one statement."""

ROWS = 20_000
"""Rows of a query that is counted whatever that takes, as long as `ALL_ROWS` are not used up."""

ALL_ROWS = 60_000
"""Rows that are read so for one statement."""

_ROW_S, _BYTE_S = 4e-9, 0.3e-9
"""What a sketch takes at least, by rows and by bytes of text: one that cannot end in time is not begun."""

_SIMPLE = frozenset({"PROJECTION", "FILTER", "HASH_GROUP_BY", "PERFECT_HASH_GROUP_BY"})
"""Nodes above a table of which the rows are counted behind a statement."""

_ENDLESS = frozenset({"REC_CTE", "UNNEST"})
"""Nodes of which nobody knows how many rows they make."""


@dataclass(frozen=True)
class Outline:
    """What DuckDB expects of a query. scanned: the most rows that it reads or that are expected anywhere in it; rows:
    of its result; whole: it yields just the rows of one table. tables: rows of those that it reads, by qualified name.
    simple: it reads one table and does no more than to compare and to group; endless: nobody knows how many rows it
    makes.
    """

    scanned: float
    rows: float
    whole: bool
    tables: Mapping[str, float] = field(default_factory=dict)
    simple: bool = False
    endless: bool = False


@dataclass
class DuckFigures:
    """What one cursor sees; made for one statement. in_transaction: the cursor must not be interrupted; left: seconds
    for what may take time; kept: what was found before.
    """

    cursor: duckdb.DuckDBPyConnection
    in_transaction: bool = False
    left: float = SECONDS
    kept: KeptFigures = field(default_factory=KeptFigures)
    rows_left: float = ALL_ROWS
    _since: int = field(init=False)
    _counts: dict[str, float] = field(default_factory=dict)
    _outlines: dict[str, Outline] = field(default_factory=dict)
    _found: dict[Hashable, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._since = self.kept.now

    def column(self, table: str, column: str) -> Mapping[str, Any]:
        """What DuckDB keeps of a column; nothing of a view's."""

        def find() -> Mapping[str, Any]:
            sql = f"SELECT stats({quoted(column)}) FROM {quoted(table)} LIMIT 1"
            found = self.ask(sql, sure=True)
            return found[0][0] if found and isinstance(found[0][0], dict) else {}

        source = self.table(table)
        return self.remember(("column", table, column), source.tables, find) if source.whole else {}

    def table(self, name: str) -> Outline:
        """What DuckDB expects of all rows of a table or view."""
        return self.outline(f"SELECT 1 FROM {quoted(name)}")

    def outline(self, sql: str) -> Outline:
        """What DuckDB expects of a query, by its EXPLAIN."""
        if sql not in self._outlines:
            known = self._recall(("outline", sql))
            found = known if isinstance(known, Outline) else self._outlined(sql)
            self._outlines[sql] = found
            if found is not known:
                self._keep(("outline", sql), found.tables, found)
        return self._outlines[sql]

    def remember(self, key: Hashable, tables: Mapping[str, float], find: Callable[[], T]) -> T:
        """A figure of tables that have so many rows: what was found before, else what is found now."""
        if key not in self._found:
            known = self._recall(key)
            self._found[key] = find() if known is None else known
            if known is None:
                self._keep(key, tables, self._found[key])
        found: T = self._found[key]  # type: ignore[assignment]
        return found

    def number(
        self, key: Hashable, sql: str, source: Outline, *, finish: bool, least_s: float = 0.0
    ) -> float | None:
        """A number that takes time to count; None where it takes too long.

        finish: else it is found behind the statement; least_s: seconds that it takes at least.
        """
        known = self._found.get(key) or self._recall(key)
        if isinstance(known, float):
            return known
        if known is TOO_LONG or self.in_transaction or self.kept.awaited(key):
            return None
        tried = self.left if least_s <= self.left else 0.0
        found = self.ask(sql) if tried else None
        if found is not None:
            self._found[key] = float(found[0][0])
            self._keep(key, source.tables, float(found[0][0]))
            return float(found[0][0])
        self._found[key] = TOO_LONG
        if (
            not (finish and self.kept.later(Later(key, source.tables, sql, self._since)))
            and tried > SECONDS / 2
        ):
            self._keep(key, source.tables, TOO_LONG)
        return None

    def sketch(self, table: str, column: str) -> float | None:
        """Different values of a column, by a sketch of all rows; None where there is no time for it, or of a view."""
        source = self.table(table)
        if not source.whole:
            return None
        size = float(self.column(table, column).get("total_string_length") or 0)
        sql = f"SELECT approx_count_distinct({quoted(column)}) FROM {quoted(table)}"
        least = _ROW_S * source.rows + _BYTE_S * size
        return self.number(("sketch", table, column), sql, source, finish=True, least_s=least)

    def count(self, sql: str) -> Count:
        """Rows of a query: counted if that is quick, else as expected."""
        expected = self.outline(sql)
        if expected.whole:
            return Count(expected.rows, exact=True)
        counting = f"SELECT count(*) FROM ({sql}) AS __covey_q"
        if self.small(expected):
            found = self.ask(counting, sure=True)
            if found is not None:
                return Count(float(found[0][0]), exact=True)
        number = self.number(("rows", sql), counting, expected, finish=expected.simple)
        return Count(expected.rows, exact=False) if number is None else Count(number, exact=True)

    def small(self, expected: Outline) -> bool:
        """Whether a query may be counted whatever that takes; it will be, then."""
        if expected.endless or not expected.scanned <= min(ROWS, self.rows_left):
            return False
        self.rows_left -= expected.scanned
        return True

    def _recall(self, key: Hashable) -> object:
        # A transaction may have changed rows that it sees alone.
        return None if self.in_transaction else self.kept.get(key, self._count)

    def _keep(self, key: Hashable, tables: Mapping[str, float], value: object) -> None:
        if not self.in_transaction:
            self.kept.keep(key, tables, value, self._since)

    def _outlined(self, sql: str) -> Outline:
        explain = f"EXPLAIN (FORMAT json) {sql}"
        if self.in_transaction:
            self._try_aside(explain)
        found = self.ask(explain, sure=True)
        nodes = list(_nodes(json.loads(found[0][1]))) if found else []
        read = [name for name in (_told(node, "Table") for node in nodes) if name]
        tables = {name: self._count(name) for name in read}
        scanned = sum(tables[name] for name in read)
        most = max((_cardinality(node) for node in nodes), default=0.0)
        *above, last = nodes or [{}]
        names = {node["name"] for node in above}
        if names <= {"PROJECTION"} and _told(last, "Table") and not _told(last, "Filters"):
            return Outline(scanned, scanned, True, tables, simple=True)
        rows = _cardinality(nodes[0]) if nodes else 0.0
        simple = len(read) == 1 and bool(_told(last, "Table")) and names <= _SIMPLE
        endless = any(node["name"] in _ENDLESS for node in nodes)
        return Outline(max(scanned, most), rows, False, tables, simple, endless)

    def _try_aside(self, sql: str) -> None:
        """Raise on another cursor what would abort the transaction, unless that lies in what it alone sees."""
        with closing(self.cursor.cursor()) as aside, suppress(duckdb.CatalogException):
            aside.execute(sql).fetchall()

    def _count(self, table: str) -> float:
        """Rows of a table by its qualified name, as SQL."""
        if table not in self._counts:
            found = self.ask(f"SELECT count(*) FROM {table}", sure=True)
            self._counts[table] = float(found[0][0]) if found else 0.0
        return self._counts[table]

    def ask(self, sql: str, sure: bool = False) -> list[Any] | None:
        """A small result; None where it takes too long. sure: it takes no time."""
        return self.run(lambda: self.cursor.execute(sql).fetchall(), sure)

    def run(self, fetch: Callable[[], T], sure: bool) -> T | None:
        """What `fetch` reads by the cursor; None where it takes too long."""
        if not sure and (self.left <= 0 or self.in_transaction):
            return None
        if sure:
            return fetch()
        begun = time.perf_counter()
        timer = threading.Timer(self.left, self.cursor.interrupt)
        timer.start()
        try:
            return fetch()
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
