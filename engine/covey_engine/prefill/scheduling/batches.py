"""Items on their way through an order's asks, as arrays: what is ready, and of which rows pairs are still to come."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.scheduling.compiled import Ints, IntsOut, kernel

if TYPE_CHECKING:
    from covey_engine.prefill.scheduling.jobs import Job


_NONE = np.empty(0, np.int64)
_COLUMNS = ("rows", "partners", "items", "held", "lost", "nodes")


@dataclass(eq=False)
class Batch:
    """Items of one order to which one ask is put; all arrays int64 [items].

    partners: None for a filter. held: the nodes that the items hold, None for fresh ones. nodes: the deepest nodes of
    their prompts, 0 for none; looked up when a chunk is drawn. lost: up to which position a prompt was computed before
    it lost its place in the arena; None where none did. follows: whether they hold what another pair left for them.
    """

    job: Job
    ask: int
    rows: Ints
    partners: Ints | None
    items: Ints
    held: Ints | None = None
    lost: Ints | None = None
    nodes: Ints = field(default_factory=lambda: _NONE)
    follows: bool = False

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, which: slice | Ints | NDArray[np.bool_]) -> Batch:
        """Some of the items."""
        if not isinstance(which, slice) and which.dtype == np.bool_:
            which = which.nonzero()[0]
            if len(which) == len(self.rows):
                which = slice(None)
        return Batch(
            self.job,
            self.ask,
            self.rows[which],
            None if self.partners is None else self.partners[which],
            self.items[which],
            None if self.held is None else self.held[which],
            None if self.lost is None else self.lost[which],
            self.nodes[which] if len(self.nodes) else _NONE,
            self.follows,
        )


def together(batches: Iterable[Batch]) -> list[Batch]:
    """The same items with those of one ask in one batch, as far as their arrays agree."""
    alike: dict[tuple[Job, int, bool, bool, bool], list[Batch]] = {}
    for batch in batches:
        key = (batch.job, batch.ask, batch.held is None, batch.lost is None, batch.follows)
        alike.setdefault(key, []).append(batch)
    return [found[0] if len(found) == 1 else _concatenate(found) for found in alike.values()]


def _concatenate(batches: list[Batch]) -> Batch:
    def column(name: str) -> Any:
        parts = [getattr(batch, name) for batch in batches]
        return None if parts[0] is None else np.concatenate(parts)

    first = batches[0]
    found = Batch(first.job, first.ask, *(column(name) for name in _COLUMNS))
    found.follows = first.follows
    return found


@dataclass(eq=False)
class Open:
    """Rows of a join of which pairs are still to be taken: positions next..end - 1 of each row, and how many in all."""

    rows: Ints = field(default_factory=lambda: _NONE)
    next: Ints = field(default_factory=lambda: _NONE)
    end: Ints = field(default_factory=lambda: _NONE)
    pairs: int = 0

    def add(self, rows: Ints, begins: Ints, ends: Ints, first: bool = False) -> None:
        """Open more rows, behind those that are open or, if `first`, before them."""
        self.pairs += int((ends - begins).sum())
        at = slice(None, None, -1 if first else 1)
        if len(self.rows):
            rows = np.concatenate([self.rows, rows][at])
            begins = np.concatenate([self.next, begins][at])
            ends = np.concatenate([self.end, ends][at])
        self.rows, self.next, self.end = rows, begins, ends

    def close(self, gone: NDArray[np.bool_]) -> None:
        """Take rows off with all their pairs."""
        self.pairs -= int((self.end[gone] - self.next[gone]).sum())
        self.rows, self.next, self.end = self.rows[~gone], self.next[~gone], self.end[~gone]

    def head(self, most: int) -> tuple[Ints, Ints]:
        """The next pairs, `most` at most: the row and the position of each."""
        rows, positions = np.empty((2, min(most, self.pairs)), np.int64)
        _head(self.rows, self.next, self.end, rows, positions)
        return rows, positions

    def take(self, count: int) -> None:
        """Take the next pairs off."""
        gone, left = _gone(self.next, self.end, count)
        self.pairs -= count
        self.rows, self.next, self.end = self.rows[gone:], self.next[gone:], self.end[gone:]
        if left:
            self.next = self.next.copy()
            self.next[0] += left


@kernel
def _gone(begins: Ints, ends: Ints, count: int) -> tuple[int, int]:
    """How many rows the next `count` pairs are all of, and how many of them are the row's after those."""
    for n in range(len(begins)):
        if ends[n] - begins[n] > count:
            return n, count
        count -= ends[n] - begins[n]
    return len(begins), 0


@kernel
def _head(opened: Ints, begins: Ints, ends: Ints, rows: IntsOut, positions: IntsOut) -> None:
    """Write the first pairs of opened rows, as many as there is room for."""
    found = 0
    for n in range(len(opened)):
        for position in range(begins[n], min(ends[n], begins[n] + len(rows) - found)):
            rows[found], positions[found] = opened[n], position
            found += 1
        if found == len(rows):
            break
