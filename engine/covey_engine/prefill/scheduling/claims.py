"""Items of orders go in, the answer comes out whether a prefix may still be wanted; knows nothing of where KV is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.scheduling.compiled import Flags, FlagsOut, Ints, IntsOut, kernel
from covey_engine.prefill.scheduling.groups import Groups, Slots
from covey_engine.prefill.scheduling.kinds import Kind


class Claim:
    """How many items of one order may still run through each prefix of some kinds, by group of rows.

    asks: those whose prompts run through these kinds. An item claims a prefix while one of them may still be put to
    it: before[k] says so of items that wait for ask k, after[k] of items whose ask k is being answered. Where each
    group is one item, nothing is counted: an item that has begun holds its prefix itself, so only `fresh` ones claim.
    sure: whether the items will certainly be asked.
    """

    def __init__(
        self,
        groups: Groups,
        before: tuple[bool, ...],
        after: tuple[bool, ...],
        counts: Ints | None,
        fresh: NDArray[np.bool_],
    ) -> None:
        self.groups = groups
        self.before = before
        self.after = after
        self.counts = counts
        self._fresh = fresh
        self._lost: Ints | None = None
        self.kinds: list[Kind] = []
        self.sure = True

    @property
    def left(self) -> NDArray[np.bool_]:
        """Whether each group, by its number, has a claim left."""
        return self._fresh if self.counts is None else self.counts > 0

    def wants(self, groups: Ints) -> NDArray[np.bool_]:
        """Whether each group (-1: none) has a claim left."""
        left = self._fresh[groups] if self.counts is None else self.counts[groups] > 0
        return left & (groups >= 0)

    def mark(self, groups: Ints, nodes: Ints, wanted: FlagsOut) -> None:
        """Mark the nodes, one for each group, whose group has a claim left."""
        if self.counts is None:
            _mark_fresh(self._fresh, groups, nodes, wanted)
        else:
            _mark_counted(self.counts, groups, nodes, wanted)

    def wants_one(self, group: int) -> bool:
        """Whether one group has a claim left."""
        return bool(self._fresh[group] if self.counts is None else self.counts[group] > 0)

    def drop(self, rows: Ints, items: Ints | None = None) -> bool:
        """Items of these rows (one each without `items`) claim no more; whether some group has no claim left now."""
        if self.counts is None:
            return False
        if self.groups.count == 1:
            self.counts[0] -= len(rows) if items is None else items.sum()
            return bool(self.counts[0] == 0)
        groups = self.groups.of(rows)
        if items is None:
            return _count_down(self.counts, groups)
        np.subtract.at(self.counts, groups, items)
        return bool((self.counts[groups] == 0).any())

    def restore(self, rows: Ints) -> None:
        """Undo `drop`."""
        if self.counts is not None:
            np.add.at(self.counts, self.groups.of(rows), 1)

    def lose(self, groups: Ints, ends: Ints) -> None:
        """Prefixes that are claimed were computed up to position `ends` and are no longer there."""
        if self._lost is None:
            self._lost = np.zeros(self.groups.count, np.int64)
        np.maximum.at(self._lost, groups, ends)

    def recall(self, groups: Ints) -> Ints | None:
        """Up to which position each group (-1: none) was computed before and lost; None where none was."""
        if self._lost is None:
            return None
        return np.where(groups >= 0, self._lost[groups], 0)


@kernel
def _mark_fresh(fresh: Flags, groups: Ints, nodes: Ints, wanted: FlagsOut) -> None:
    """Claim.mark where nothing is counted."""
    for n in range(len(groups)):
        if groups[n] >= 0 and fresh[groups[n]]:
            wanted[nodes[n]] = True


@kernel
def _mark_counted(counts: Ints, groups: Ints, nodes: Ints, wanted: FlagsOut) -> None:
    """Claim.mark where items are counted."""
    for n in range(len(groups)):
        if groups[n] >= 0 and counts[groups[n]] > 0:
            wanted[nodes[n]] = True


@kernel
def _count_down(counts: IntsOut, groups: Ints) -> bool:
    """Take one off the groups' counts; whether some are 0 then."""
    for group in groups:
        counts[group] -= 1
    gone = False
    for group in groups:
        gone = gone or counts[group] == 0
    return gone


def find(claim: Claim, columns: Sequence[Slots], size: int) -> Ints:
    """The group of each of `size` prefixes with these slots, column by column; -1 where the claim has none."""
    groups = claim.groups.find(columns)
    return groups if columns else groups.repeat(size)
