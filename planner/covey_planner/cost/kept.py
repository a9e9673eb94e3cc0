"""Figures that took time to find in, the same figures out while their tables are what they were.

Counts of large tables that a statement cannot wait for are finished behind it, one after another, for the next one.
Never runs the model, and nothing by itself where no cursors are given.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field

import duckdb

from covey_planner.cost.limits import at_most

SECONDS = 3.0
"""How long a count behind a statement may take."""

_PAUSE = 0.1
"""Seconds before the first of several counts: the statement that wants it should not wait for it."""

_WAITING = 16
"""Counts that wait at most; further ones are left to a later statement."""

_MAKING = frozenset({"create", "alter", "drop", "attach", "detach", "use"})
"""Words of statements after which names may stand for something else."""


@dataclass(frozen=True)
class Later:
    """A count to finish: `sql` yields one number about tables, by their rows when it was wanted."""

    key: Hashable
    tables: Mapping[str, float]
    sql: str
    since: int


@dataclass
class KeptFigures:
    """Figures by what they are of, with the rows that their tables had; methods may be called from any thread.

    cursors: opens cursors for counts behind statements. most: figures that are kept; those that were not asked for the
    longest time go first.
    """

    cursors: Callable[[], duckdb.DuckDBPyConnection] | None = None
    most: int = 10_000
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _kept: OrderedDict[Hashable, tuple[Mapping[str, float], object]] = field(default_factory=OrderedDict)
    _by_table: dict[str, set[Hashable]] = field(default_factory=dict)
    _writes: int = 0
    # The last write of each name, and of any name that is not there.
    _written: dict[str, int] = field(default_factory=dict)
    _before: int = 0
    _waiting: deque[Later] = field(default_factory=deque)
    _pending: set[Hashable] = field(default_factory=set)
    _thread: threading.Thread | None = None
    _running: duckdb.DuckDBPyConnection | None = None
    _closed: threading.Event = field(default_factory=threading.Event)

    @property
    def now(self) -> int:
        """The moment, for `keep`: how many writes there have been."""
        return self._writes

    def get(self, key: Hashable, rows: Callable[[str], float]) -> object:
        """A figure; None where none is kept, or where a table has other rows than it had. rows: of a table."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
        tables, value = found
        return value if all(rows(table) == count for table, count in tables.items()) else None

    def tables(self, key: Hashable) -> tuple[str, ...]:
        """The tables that a kept figure is of, by qualified name; none where none is kept."""
        with self._lock:
            return tuple(self._kept.get(key, ({}, None))[0])

    def keep(self, key: Hashable, tables: Mapping[str, float], value: object, since: int) -> None:
        """Keep a figure of tables (qualified names) that had so many rows; not where one was written since then."""
        names = set(map(_simple, tables))
        with self._lock:
            if any(self._written.get(name, self._before) > since for name in names):
                return
            self._drop(key)
            self._kept[key] = tables, value
            for name in names:
                self._by_table.setdefault(name, set()).add(key)
            if len(self._kept) > self.most:
                self._drop(next(iter(self._kept)))

    def forget(self, names: frozenset[str]) -> None:
        """A statement with these words in it (lower case) has written something."""
        with self._lock:
            self._writes += 1
            self._written.update(dict.fromkeys(names, self._writes))
            if not names.isdisjoint(_MAKING) or len(self._written) > self.most:
                self._before, names = self._writes, frozenset(self._by_table)
                self._written.clear()
            for key in {key for name in names for key in self._by_table.get(name, ())}:
                self._drop(key)

    def later(self, count: Later) -> bool:
        """Find a figure behind the statement; whether it will be."""
        if self.cursors is None:
            return False
        with self._lock:
            if self._closed.is_set() or len(self._waiting) >= _WAITING:
                return False
            if count.key not in self._pending:
                self._pending.add(count.key)
                self._waiting.append(count)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="covey-counts", daemon=True)
                self._thread.start()
        return True

    def awaited(self, key: Hashable) -> bool:
        """Whether a figure is being found."""
        with self._lock:
            return key in self._pending

    def settle(self, seconds: float | None = None) -> None:
        """Wait until nothing is counted any more, or so long."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def close(self) -> None:
        """Count no more, and end what is under way; what ignores that is left to itself."""
        self._closed.set()
        # An interruption that comes before the count begins is lost, so there are several.
        for _ in range(50):
            with self._lock:
                self._waiting.clear()
                if self._thread is None:
                    return
                if self._running is not None:
                    self._running.interrupt()
            self.settle(0.1)

    def _drop(self, key: Hashable) -> None:
        """Forget a figure; the lock is held."""
        tables, _ = self._kept.pop(key, ({}, None))
        for name in set(map(_simple, tables)):
            self._by_table[name].discard(key)
            if not self._by_table[name]:
                del self._by_table[name]

    def _work(self) -> None:
        self._closed.wait(_PAUSE)
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                count = self._waiting.popleft()
            try:
                self._finish(count)
            finally:
                with self._lock:
                    self._pending.discard(count.key)

    def _finish(self, count: Later) -> None:
        """Count, and keep what was found, or that it took too long."""
        assert self.cursors is not None
        value: object = TOO_LONG
        with suppress(duckdb.Error), closing(self.cursors()) as cursor:
            with self._lock:
                if self._closed.is_set():
                    return
                self._running = cursor
            try:
                with at_most(cursor, SECONDS):
                    value = float(cursor.execute(count.sql).fetchall()[0][0])
            finally:
                with self._lock:
                    self._running = None
        self.keep(count.key, count.tables, value, count.since)


def _simple(table: str) -> str:
    """The name of a table, in lower case, of its qualified one as SQL."""
    quoted = re.search(r'"((?:[^"]|"")*)"$', table)
    name = table.rpartition(".")[2] if quoted is None else quoted[1].replace('""', '"')
    return name.lower()


class _TooLong:
    """Says of a figure that it is not to be counted."""


TOO_LONG = _TooLong()
"""Kept of what took too long to count, while its tables are what they were."""
