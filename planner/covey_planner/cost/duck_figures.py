"""DuckDB's own figures: a cursor in, what it keeps of columns, expects of queries and counts out; never runs the model.

What is large is counted as far as a budget of time goes, and behind the statement else. A statement that takes too long
is interrupted, except where that would abort a transaction: there only what is small is counted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import duckdb
from covey_storage.data_files import quoted

from covey_planner.cost.kept import TOO_LONG, KeptFigures, Later
from covey_planner.cost.limits import at_most
from covey_planner.cost.outlines import Node, Outline, branches, explained, outline_of, read
from covey_planner.cost.statistics import Count

T = TypeVar("T")

SECONDS = 0.006
"""How long all counting of what is large may take for one statement."""

ROWS = 20_000
"""Rows of a query that is counted whatever that takes, as long as `ALL_ROWS` are not used up."""

ALL_ROWS = 60_000
"""Rows that are read so for one statement."""

_ROW_S, _BYTE_S = 6e-9, 0.3e-9
"""What a sketch takes of one core, by rows and by bytes of text: one that cannot end in time is not begun."""

_READ_S, _JOIN_S = 4e-9, 3e-9
"""What a count takes of one core a row, and more a row for each join."""

_CORES = os.cpu_count() or 1
"""Those that DuckDB uses."""


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
        return self.columns([(table, column)])[table, column]

    def columns(self, places: Iterable[tuple[str, str]]) -> Mapping[tuple[str, str], Mapping[str, Any]]:
        """The same of several columns by table and column, in one query for those that were not asked for before."""
        found: dict[tuple[str, str], Mapping[str, Any]] = {}
        missing: dict[str, list[str]] = {}
        for table, column in dict.fromkeys(places):
            known = self.known(("column", table, column))
            found[table, column] = known if isinstance(known, dict) else {}
            if known is None and self.table(table).whole:
                missing.setdefault(table, []).append(column)
        if missing:
            for (table, column), stats in self._stats(missing).items():
                found[table, column] = stats
                self.settle(("column", table, column), self.table(table).tables, stats)
        return found

    def _stats(self, columns: Mapping[str, Sequence[str]]) -> dict[tuple[str, str], Mapping[str, Any]]:
        """What is kept of columns by their tables; nothing where a table has no row."""
        asked = [
            f"(SELECT {at}, [{', '.join(f'stats({quoted(name)})' for name in names)}]"
            f" FROM {quoted(table)} LIMIT 1)"
            for at, (table, names) in enumerate(columns.items())
        ]
        rows = dict(self.ask(" UNION ALL ".join(asked), sure=True) or ())
        return {
            (table, name): stats if isinstance(stats, dict) else {}
            for at, (table, names) in enumerate(columns.items())
            for name, stats in zip(names, rows.get(at, [None] * len(names)), strict=True)
        }

    def table(self, name: str) -> Outline:
        """What DuckDB expects of all rows of a table or view."""
        return self.outline(f"SELECT 1 FROM {quoted(name)}")

    def tables(self, names: Iterable[str]) -> Mapping[str, Outline]:
        """The same of several by name."""
        queries = {name: f"SELECT 1 FROM {quoted(name)}" for name in names}
        found = self.outlines(queries.values())
        return {name: found[sql] for name, sql in queries.items()}

    def outline(self, sql: str) -> Outline:
        """What DuckDB expects of a query, by its EXPLAIN."""
        if sql not in self._outlines:
            self.outlines([sql])
        return self._outlines[sql]

    def outlines(self, queries: Iterable[str]) -> Mapping[str, Outline]:
        """The same of several queries by their text, which all yield one number; those that are new in one EXPLAIN."""
        queries = list(dict.fromkeys(queries))
        unseen = [sql for sql in queries if sql not in self._outlines]
        if not self.in_transaction:
            self._count_all(name for sql in unseen for name in self.kept.tables(("outline", sql)))
        missing = []
        for sql in unseen:
            known = self._recall(("outline", sql))
            if isinstance(known, Outline):
                self._outlines[sql] = known
            else:
                missing.append(sql)
        for sql, plan in self._plans(missing).items():
            self._outlines[sql] = outline_of(plan, self._count)
            self._keep(("outline", sql), self._outlines[sql].tables, self._outlines[sql])
        return {sql: self._outlines[sql] for sql in queries}

    def _plans(self, queries: Sequence[str]) -> dict[str, Sequence[Node]]:
        """The plans of queries, and all the tables in them counted."""
        together = branches(self._explained(" UNION ALL ".join(queries))) if len(queries) > 1 else []
        # Where a view is a union itself, DuckDB may write its parts and the others as one.
        if len(together) == len(queries):
            plans: dict[str, Sequence[Node]] = {
                sql: [plan] for sql, plan in zip(queries, together, strict=True)
            }
        else:
            plans = {sql: self._explained(sql) for sql in queries}
        self._count_all(name for plan in plans.values() for name in read(plan))
        return plans

    def known(self, key: Hashable) -> object:
        """A figure that was found before; None where none was."""
        if key not in self._found:
            found = self._recall(key)
            if found is None:
                return None
            self._found[key] = found
        return self._found[key]

    def remember(self, key: Hashable, tables: Mapping[str, float], find: Callable[[], T]) -> T:
        """A figure of tables that have so many rows: what was found before, else what is found now."""
        known: T | None = self.known(key)  # type: ignore[assignment]
        return self.settle(key, tables, find()) if known is None else known

    def settle(self, key: Hashable, tables: Mapping[str, float], value: T) -> T:
        """Keep what was found."""
        self._found[key] = value
        self._keep(key, tables, value)
        return value

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
        least = (_ROW_S * source.rows + _BYTE_S * size) / _CORES
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
        least = (_READ_S + _JOIN_S * expected.joins) * expected.scanned / _CORES
        number = self.number(("rows", sql), counting, expected, finish=expected.simple, least_s=least)
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

    def _explained(self, sql: str) -> list[Node]:
        explain = f"EXPLAIN (FORMAT json) {sql}"
        if self.in_transaction:
            self._try_aside(explain)
        found = self.ask(explain, sure=True)
        return explained(found[0][1]) if found else []

    def _try_aside(self, sql: str) -> None:
        """Raise on another cursor what would abort the transaction, unless that lies in what it alone sees."""
        with closing(self.cursor.cursor()) as aside, suppress(duckdb.CatalogException):
            aside.execute(sql).fetchall()

    def _count(self, table: str) -> float:
        """Rows of a table by its qualified name, as SQL."""
        if table not in self._counts:
            self._count_all([table])
        return self._counts[table]

    def _count_all(self, tables: Iterable[str]) -> None:
        """Count tables together."""
        missing = [table for table in dict.fromkeys(tables) if table not in self._counts]
        asked = [f"SELECT {at}, count(*) FROM {table}" for at, table in enumerate(missing)]
        for at, rows in (self.ask(" UNION ALL ".join(asked), sure=True) or ()) if asked else ():
            self._counts[missing[at]] = float(rows)

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
        try:
            with at_most(self.cursor, self.left):
                return fetch()
        except duckdb.InterruptException:
            return None
        finally:
            self.left -= time.perf_counter() - begun
