"""Slot columns of an order's rows go in, groups of rows with equal slots come out; vectorized in both directions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Slots = NDArray[np.int32]

_FIRST = np.zeros(1, np.int64)


class Groups:
    """Rows grouped by the slots of some columns; with no columns, one group of all.

    Three forms, by what the rows allow: every row a group of its own, in ascending order (nothing is stored);
    groups of neighbouring rows (their starts); anything else (a group number per row). Outside, groups are numbers.
    parent: the groups by all columns but the last; slots: that one, None where there are no columns.
    """

    def __init__(self, rows: int, parent: Groups | None = None, slots: Slots | None = None) -> None:
        self.rows = rows
        self.parent = parent
        self.slots: Slots | None = None
        self._codes: NDArray[np.int64] | NDArray[np.int32] | None = None
        self._numbers: NDArray[np.int32] | None = None
        self.starts: Ints | None = None
        self.single = False
        if parent is None or slots is None:
            self.count = 1
            self.starts = np.zeros(1, np.int64)
            return
        self.slots = slots
        if parent.single:
            self.count, self.single = rows, True
            return
        above = None if parent.count == 1 else parent.of(np.arange(rows))
        codes = slots if above is None else (above << 32) + slots
        steps = codes[1:] - codes[:-1]
        least = int(steps.min()) if rows > 1 else 1
        if least > 0:
            self.count, self.single, self._codes = rows, True, codes
        elif least == 0:
            self.starts = np.concatenate([_FIRST, steps.nonzero()[0] + 1])
            self.count, self._codes = len(self.starts), codes[self.starts]
        else:
            self._codes, numbers = np.unique(codes, return_inverse=True)
            self.count, self._numbers = len(self._codes), numbers.astype(np.int32)

    @property
    def neighbours(self) -> bool:
        """Whether each group's rows are neighbours."""
        return self._numbers is None

    def of(self, rows: Ints) -> Ints:
        """The group of each row."""
        if self.single:
            return rows
        if self.count == 1:
            return np.zeros(len(rows), np.int64)
        if self._numbers is not None:
            return self._numbers[rows].astype(np.int64)
        assert self.starts is not None
        return np.searchsorted(self.starts, rows, "right") - 1

    def find(self, columns: Sequence[Slots]) -> Ints:
        """The group with these slots, column by column; -1 where there is none."""
        if self.parent is None:
            size = len(columns[0]) if columns else 1
            return np.zeros(size, np.int64) if self.rows else np.full(size, -1)
        above = self.parent.find(columns[:-1]) if len(columns) > 1 else None
        slots = columns[-1]
        assert self.slots is not None
        if self.rows == 0:
            return np.full(len(slots), -1)
        if self._codes is None:
            assert above is not None
            return np.where((above >= 0) & (self.slots[above] == slots), above, -1)
        codes = slots if above is None or self.parent.count == 1 else (above << 32) + slots
        places = self._codes.searchsorted(codes)
        places[self._codes.take(places, mode="clip") != codes] = -1
        if above is not None:
            places[above < 0] = -1
        return places

    def totals(self, weights: Ints | None) -> Ints:
        """The sum of the rows' weights (1 each without) per group."""
        if self.single:
            return np.ones(self.rows, np.int64) if weights is None else weights.copy()
        if self.count == 1:
            return np.array([self.rows if weights is None else weights.sum()], np.int64)
        if self._numbers is not None:
            counts = np.bincount(self._numbers, weights, self.count)
            return np.rint(counts).astype(np.int64)
        assert self.starts is not None
        if weights is None:
            return np.diff(np.append(self.starts, self.rows))
        return np.add.reduceat(weights, self.starts)
