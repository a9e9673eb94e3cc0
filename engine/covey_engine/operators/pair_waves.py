"""The order in which pairs are wanted goes in, the items of one wave after another come out; asks nothing.

Where every pair of two sides is asked, an order by keys of either is walked as it is wanted: pairs that are never
reached are never made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from covey_planner.physical import PairOrder
from numpy.typing import NDArray

from covey_engine.operators.subjects import Subjects
from covey_engine.operators.template import Template
from covey_engine.prefill import api

Ints = NDArray[np.int64]

PIECE = 1 << 16
"""Pairs that are put in order at a time, about."""


def worth(template: Template, subjects: Subjects) -> float:
    """For how many pairs of an anchor the endings cost as much as its beginning, in tokens, on an average."""
    assert subjects.partners is not None
    anchor = float(template.anchor_tokens(0, subjects.anchors).mean())
    ending = sum(len(part.tokens) for part in template.suffixes[0] if isinstance(part, api.Literal))
    return anchor / max(1.0, ending + float(template.partner_tokens(0, subjects.partners).mean()))


def pair_waves(order: PairOrder, subjects: Subjects, first: int, least: float = 0.0) -> Iterator[Ints]:
    """The items of each wave, ascending. Each wave has twice as many as the one before, from `first` on, and of the
    anchors in it `least` each on an average: their beginnings are computed again in every wave.
    """
    assert subjects.partners is not None
    wide, stream = len(subjects.partners), _Stream(in_order(order, subjects))
    size = max(1, first)
    while stream.reach(size):
        count = min(size, len(stream.items))
        while True:
            wanted = int(np.ceil(least * len(np.unique(stream.items[:count] // wide))))
            if wanted <= count or not stream.reach(wanted) or count == len(stream.items):
                break
            count = min(wanted, len(stream.items))
        yield np.sort(stream.take(count, order.ties))
        size = 2 * max(size, count)


class _Stream:
    """Items in their order with numbers that are equal for ties, as far as they have been read."""

    def __init__(self, parts: Iterator[tuple[Ints, Ints]]) -> None:
        self._parts = parts
        self.items: Ints = np.zeros(0, np.int64)
        self._ties: Ints = np.zeros(0, np.int64)

    def reach(self, count: int) -> bool:
        """Read on until so many items are there, if there are; whether there is any."""
        found = [(self.items, self._ties)]
        there = len(self.items)
        while there < count and (part := next(self._parts, None)) is not None:
            found.append(part)
            there += len(part[0])
        self.items, self._ties = (np.concatenate(each) for each in zip(*found, strict=True))
        return there > 0

    def take(self, count: int, whole: bool) -> Ints:
        """The first items. whole: with all that tie with the last of them."""
        while whole:
            end = int(np.searchsorted(self._ties, self._ties[count - 1], side="right"))
            there = len(self.items)
            self.reach(there + 1 if end == there else 0)
            if end < there or len(self.items) == there:
                count = end
                break
        taken = self.items[:count]
        self.items, self._ties = self.items[count:], self._ties[count:]
        return taken


def in_order(order: PairOrder, subjects: Subjects) -> Iterator[tuple[Ints, Ints]]:
    """All items by the keys of the sides, part by part; beside them numbers that grow, and are equal for ties."""
    assert subjects.partners is not None
    ranks = {"anchor": subjects.anchors.keys.ranks, "partner": subjects.partners.keys.ranks}
    levels = [
        (side, ranks[side][order.sides[:number].count(side)]) for number, side in enumerate(order.sides)
    ]
    rows = {"anchor": np.arange(len(subjects.anchors)), "partner": np.arange(len(subjects.partners))}
    base = 0
    for part in _blocks(levels, rows):
        for items, ties in _last(*levels[-1], part, len(subjects.partners)):
            yield items, base + ties
        base += int(levels[-1][1].max(initial=0)) + 1


def _blocks(levels: Sequence[tuple[str, Ints]], rows: dict[str, Ints]) -> Iterator[dict[str, Ints]]:
    """The rows that tie by all keys but the last, block by block."""
    if len(levels) == 1:
        yield rows
        return
    (side, ranks), *others = levels
    mine = rows[side][np.argsort(ranks[rows[side]], kind="stable")]
    for tied in np.split(mine, np.flatnonzero(np.diff(ranks[mine])) + 1):
        yield from _blocks(others, {**rows, side: tied})


def _last(side: str, ranks: Ints, rows: dict[str, Ints], wide: int) -> Iterator[tuple[Ints, Ints]]:
    """The items of a block by its last key."""
    mine = rows[side][np.argsort(ranks[rows[side]], kind="stable")]
    others = rows["partner" if side == "anchor" else "anchor"]
    step = max(1, PIECE // max(1, len(others)))
    for start in range(0, len(mine), step):
        these = mine[start : start + step, None]
        items = these * wide + others if side == "anchor" else others * wide + these
        yield items.ravel(), np.repeat(ranks[these.ravel()], len(others))
