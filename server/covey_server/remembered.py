"""How often questions were answered with true, in this server's memory; the answers themselves are not kept.

Counts in, shares with their uncertainty out. Bounded: what was not asked for the longest time is forgotten first, and
what is known of a table once it is written.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping

from covey_planner.cost.shares import share_of
from covey_planner.cost.statistics import Selectivity
from covey_planner.physical import CallKey

LEAST = 20
"""Answers below which nothing is concluded from them."""

_COLUMN = re.compile(r"(\w+)\.\w+")
"""An argument that is a stored column: of a computed one, the text does not say what its names mean."""


class Remembered(Mapping[CallKey, Selectivity]):
    """Shares of true answers by question, for one model and prompt profile; methods may be called from any thread.

    most: questions (each label of one for labels counts as one), and names of written tables, that are kept.
    """

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._counts: OrderedDict[CallKey, tuple[int, int]] = OrderedDict()
        # The questions about each table or view of which something is noted.
        self._about: dict[str, set[CallKey]] = {}
        # The number of the last write of each name, in their order; before the first of them, of all others.
        self._written: OrderedDict[str, int] = OrderedDict()
        self._before = 0
        self._writes = 0

    @property
    def now(self) -> int:
        """The moment, for `note`: how many writes there have been."""
        return self._writes

    def note(self, key: CallKey, asked: int, true: int, since: int) -> None:
        """A question was asked of so many texts or pairs, read after the moment `since`, and so often true.

        Not kept where a table of the question has been written since, or a text is computed.
        """
        tables = _tables(key)
        if not asked or tables is None:
            return
        with self._lock:
            if any(self._written.get(table, self._before) > since for table in tables):
                return
            before, known = self._counts.pop(key, (0, 0))
            self._counts[key] = before + asked, known + true
            for table in tables:
                self._about.setdefault(table, set()).add(key)
            if len(self._counts) > self._most:
                self._drop(next(iter(self._counts)))

    def forget(self, names: frozenset[str], tables: frozenset[str]) -> None:
        """A statement has written some of these names (lower case).

        tables: those that are there; whatever else was asked about is a view, of which it is not known what it reads.
        """
        with self._lock:
            self._writes += 1
            for name in names:
                self._written.pop(name, None)
                self._written[name] = self._writes
            while len(self._written) > self._most:
                self._before = self._written.popitem(last=False)[1]
            for table in [table for table in self._about if table in names or table not in tables]:
                for key in tuple(self._about.get(table, ())):
                    self._drop(key)

    def _drop(self, key: CallKey) -> None:
        """Forget a question; the lock is held."""
        del self._counts[key]
        for table in _tables(key) or ():
            self._about[table].discard(key)
            if not self._about[table]:
                del self._about[table]

    def __getitem__(self, key: CallKey) -> Selectivity:
        """What is known of a question. Raises KeyError for one that was asked of too few."""
        with self._lock:
            asked, true = self._counts[key]
        if asked < LEAST:
            raise KeyError(key)
        return share_of(asked, true, "remembered")

    def __iter__(self) -> Iterator[CallKey]:
        """All questions of which something is noted."""
        return iter(tuple(self._counts))

    def __len__(self) -> int:
        """How many those are."""
        return len(self._counts)


def _tables(key: CallKey) -> set[str] | None:
    """The tables and views whose columns a question is about; None where an argument is computed."""
    found = [_COLUMN.fullmatch(argument) for argument in key.arguments]
    return None if None in found else {match[1] for match in found if match is not None}
