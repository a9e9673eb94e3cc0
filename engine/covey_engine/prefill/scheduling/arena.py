"""KV addresses go in and come out as contiguous ranges; knows neither tokens nor the device.

Every address of the arena is in one of three states: *free*; *resident*, kept for requests that will certainly come;
*reserved*, kept for requests whose answer is not known yet and that may or may not come. The law of conservation,
free + resident + reserved = total, is checked by `check`. All operations take arrays: a range costs no Python object.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Arena:
    """Ranges within the addresses first..first + total - 1.

    Free ranges are kept apart, in address order and as long as can be, as two arrays.
    """

    def __init__(self, first: int, total: int) -> None:
        assert first >= 0
        assert total >= 0
        self.first = first
        self.total = total
        self.free = total
        self._starts = np.array([first] if total else [], np.int64)
        self._ends = np.array([first + total] if total else [], np.int64)

    @property
    def used(self) -> int:
        """Addresses that are not free."""
        return self.total - self.free

    @property
    def largest(self) -> int:
        """Length of the longest free range."""
        return int((self._ends - self._starts).max(initial=0))

    def allocate(self, lengths: Ints) -> Ints:
        """One range for each length, side by side where free space allows; -1 for those that have no room."""
        if len(lengths) == 0:
            return lengths.copy()
        ends = np.cumsum(lengths)
        sizes = self._ends - self._starts
        fitting = np.flatnonzero(sizes >= ends[-1])
        if len(fitting) == 0:
            return self._place_apart(lengths, ends)
        hole = fitting[np.argmin(sizes[fitting])]
        start = int(self._starts[hole])
        self._take(np.array([hole]), ends[-1:])
        return start + ends - lengths

    def release(self, starts: Ints, lengths: Ints) -> None:
        """Give ranges back. Raises AssertionError for an address that is free already or outside."""
        solid = lengths > 0
        if not solid.any():
            return
        starts, lengths = starts[solid], lengths[solid]
        begins = np.concatenate([self._starts, starts])
        ends = np.concatenate([self._ends, starts + lengths])
        order = np.argsort(begins, kind="stable")
        begins, ends = begins[order], ends[order]
        assert begins[0] >= self.first, "released an address below the arena"
        assert ends[-1] <= self.first + self.total, "released an address above the arena"
        assert (begins[1:] >= ends[:-1]).all(), "released an address twice"
        apart = np.concatenate([[True], begins[1:] > ends[:-1]])
        self._starts = begins[apart]
        self._ends = ends[np.concatenate([apart[1:], [True]])]
        self.free += int(lengths.sum())

    def check(self, starts: Ints, lengths: Ints, reserved: NDArray[np.bool_]) -> None:
        """Assert the law for the ranges in use (those of `reserved` are reserved, the others resident)."""
        solid = lengths > 0
        begins = np.sort(np.concatenate([starts[solid], self._starts]))
        ends = np.sort(np.concatenate([starts[solid] + lengths[solid], self._ends]))
        free = int((self._ends - self._starts).sum())
        waiting = int(lengths[reserved].sum())
        resident = int(lengths[~reserved].sum())
        assert free == self.free
        assert free + resident + waiting == self.total, (free, resident, waiting, self.total)
        assert (begins[1:] == ends[:-1]).all(), "ranges overlap or leave a gap"

    def _place_apart(self, lengths: Ints, ends: Ints) -> Ints:
        """Fill the free ranges, longest first, each with as many of the next lengths as it holds."""
        sizes = self._ends - self._starts
        addresses = np.full(len(lengths), -1, np.int64)
        taken, amounts, done = [], [], 0
        holes = iter(np.argsort(-sizes, kind="stable").tolist())
        hole = next(holes, None)
        left = fresh = 0 if hole is None else int(sizes[hole])
        while done < len(lengths):
            before = int(ends[done - 1]) if done else 0
            until = int(np.searchsorted(ends, before + left, "right"))
            if until > done:
                begin = self._starts[hole] + fresh - left
                addresses[done:until] = begin + ends[done:until] - lengths[done:until] - before
                left -= int(ends[until - 1]) - before
                done = until
                continue
            if hole is not None and left < fresh:
                taken.append(hole)
                amounts.append(fresh - left)
                hole = next(holes, None)
                left = fresh = 0 if hole is None else int(sizes[hole])
            else:
                # Longer than the longest range that is left.
                done += 1
        if hole is not None and left < fresh:
            taken.append(hole)
            amounts.append(fresh - left)
        self._take(np.array(taken, np.int64), np.array(amounts, np.int64))
        return addresses

    def _take(self, holes: Ints, amounts: Ints) -> None:
        self._starts[holes] += amounts
        self.free -= int(amounts.sum())
        left = self._starts < self._ends
        if not left.all():
            self._starts, self._ends = self._starts[left], self._ends[left]
