"""KV addresses go in and come out as contiguous ranges; knows neither tokens nor the device.

Every address of the arena is in one of three states: *free*; *resident*, kept for requests that will certainly come;
*reserved*, kept for requests whose answer is not known yet and that may or may not come. The law of conservation,
free + resident + reserved = total, is checked by `check`. All operations take arrays: a range costs no Python object.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.scheduling.compiled import Flags, Ints, IntsOut, kernel


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
        addresses = np.empty(len(lengths), np.int64)
        addresses.fill(-1)
        self._starts, self._ends, taken = _allocate(self._starts, self._ends, lengths, addresses)
        self.free -= taken
        return addresses

    def release(self, starts: Ints, lengths: Ints) -> None:
        """Give ranges back. Raises AssertionError for an address that is free already or outside."""
        order = starts.argsort(kind="stable")
        self._starts, self._ends, given = _release(
            self._starts, self._ends, starts[order], lengths[order], self.first, self.first + self.total
        )
        self.free += given

    def check(self, starts: Ints, lengths: Ints, reserved: NDArray[np.bool_]) -> None:
        """Assert the law for the ranges in use (those of `reserved` are reserved, the others resident)."""
        fault, free, resident, waiting = _examine(
            self._starts, self._ends, starts, lengths, reserved, self.first, self.first + self.total
        )
        assert free == self.free, f"{free} addresses are free, {self.free} were counted"
        law = f"{free} free + {resident} resident + {waiting} reserved addresses of {self.total}"
        assert free + resident + waiting == self.total, law
        assert not fault, "ranges overlap, leave a gap or are outside"


@kernel
def _allocate(starts: Ints, ends: Ints, lengths: Ints, addresses: IntsOut) -> tuple[Ints, Ints, int]:
    """Write the addresses; the free ranges that are left, and how much is taken.

    The smallest free range that holds all lengths together serves, if there is one. Else the free ranges are filled,
    the longest first, each with as many of the next lengths as it holds.
    """
    begins, whole, needed = starts.copy(), True, 0
    for length in lengths:
        needed += length
    hole = -1
    for n in range(len(starts)):
        if ends[n] - starts[n] >= needed and (hole < 0 or ends[n] - starts[n] < ends[hole] - starts[hole]):
            hole = n
    if hole < 0:
        whole = False
    taken = 0
    for n in range(len(lengths)):
        while not whole and (hole < 0 or ends[hole] - begins[hole] < lengths[n]):
            if hole >= 0 and begins[hole] == starts[hole]:
                break  # longer than the longest range that is left
            hole = -1
            for other in range(len(starts)):
                if begins[other] == starts[other] and (
                    hole < 0 or ends[other] - starts[other] > ends[hole] - starts[hole]
                ):
                    hole = other
            if hole < 0:
                break
        if hole >= 0 and ends[hole] - begins[hole] >= lengths[n]:
            addresses[n] = begins[hole]
            begins[hole] += lengths[n]
            taken += lengths[n]
    left, left_ends, count = np.empty_like(begins), np.empty_like(begins), 0
    for n in range(len(begins)):
        if begins[n] < ends[n]:
            left[count], left_ends[count] = begins[n], ends[n]
            count += 1
    return left[:count], left_ends[:count], taken


@kernel
def _release(
    starts: Ints, ends: Ints, begins: Ints, lengths: Ints, first: int, stop: int
) -> tuple[Ints, Ints, int]:
    """Merge ranges, which ascend, into the free ones; those, and how much is given back."""
    size = len(starts) + len(begins)
    merged, merged_ends, count = np.empty(size, np.int64), np.empty(size, np.int64), 0
    hole = given = 0
    for n in range(size):
        if hole < len(starts) and (n - hole == len(begins) or starts[hole] <= begins[n - hole]):
            begin, end = starts[hole], ends[hole]
            hole += 1
        else:
            begin = begins[n - hole]
            end = begin + lengths[n - hole]
            if begin == end:
                continue
            given += end - begin
            assert begin >= first, "released an address below the arena"
            assert end <= stop, "released an address above the arena"
        if count and begin < merged_ends[count - 1]:
            raise AssertionError("released an address twice")
        if count and begin == merged_ends[count - 1]:
            merged_ends[count - 1] = end
        else:
            merged[count], merged_ends[count] = begin, end
            count += 1
    return merged[:count], merged_ends[:count], given


@kernel
def _examine(
    starts: Ints, ends: Ints, begins: Ints, lengths: Ints, reserved: Flags, first: int, stop: int
) -> tuple[bool, int, int, int]:
    """Whether the free ranges and those in use are not one after another; free, resident and reserved addresses."""
    free = resident = waiting = hole = 0
    order, at, fault = np.argsort(begins, kind="mergesort"), first, False
    for n in order:
        if reserved[n]:
            waiting += lengths[n]
        else:
            resident += lengths[n]
        if lengths[n] == 0:
            continue
        while hole < len(starts) and starts[hole] < begins[n]:
            fault = fault or starts[hole] != at
            at = ends[hole]
            hole += 1
        fault = fault or begins[n] != at or lengths[n] < 0
        at = begins[n] + lengths[n]
    for n in range(hole, len(starts)):
        fault = fault or starts[n] != at
        at = ends[n]
    for n in range(len(starts)):
        fault = fault or starts[n] >= ends[n]
        free += ends[n] - starts[n]
    return fault or at != stop, free, resident, waiting
