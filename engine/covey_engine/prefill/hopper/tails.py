"""Short segments behind a few contexts go in, tiles of rows that one kernel attends for come out; computes nothing.

A question on a document is a dozen rows that see hundreds of keys. As calls of their own for the document, for a head
before it and for the rows themselves, each leaves a result to merge, and merging makes every row of the chunk dearer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.hopper.pairs import Ints, covered_rows, depths, levels_of
from covey_engine.prefill.kernels.tail import RANGES, SIZES
from covey_engine.prefill.ranges import collapse

FEW_ROWS = 128
"""Rows from which on a context is read faster by a call of its own, which multiplies larger tiles."""

FEW_KEYS = 64
"""Keys of a context that are read with others' whatever rows follow it."""

MOST_KEYS = 4096
"""Longest context that is read for few rows: a tile's program that reads more would end long after all others."""


@dataclass(frozen=True, eq=False)
class Tails:
    """Rows of short segments with what they see.

    groups: int64 [g, 2], runs of rows that see the same contexts; ranges: int64 [g, RANGES, 2], those contexts'
    (address, keys), unused ones (0, 0).
    """

    groups: Ints
    ranges: Ints

    @property
    def size(self) -> int:
        """Rows of a tile."""
        return next(size for size in SIZES if size >= min(int(self.groups[:, 1].max()), SIZES[-1]))

    def tiles(self) -> tuple[Ints, Ints]:
        """Tiles (first row, rows), int64 [t, 2], and their ranges, int64 [t, RANGES, 2], those with most keys first."""
        counts = -(-self.groups[:, 1] // self.size)
        group = np.repeat(np.arange(len(counts)), counts)
        within = (np.arange(len(group)) - np.repeat(np.cumsum(counts) - counts, counts)) * self.size
        rows = np.minimum(self.groups[group, 1] - within, self.size)
        ranges = self.ranges[group]
        order = np.argsort(-ranges[:, :, 1].sum(axis=1), kind="stable")
        return np.column_stack([self.groups[group, 0] + within, rows])[order], ranges[order]


def is_light(contexts: Ints) -> NDArray[np.bool_]:
    """Which contexts a tail may see."""
    keys = contexts[:, 3]
    light: NDArray[np.bool_] = (keys <= FEW_KEYS) | (keys <= MOST_KEYS) & (contexts[:, 1] <= FEW_ROWS)
    return light


def find_tails(short: Ints, contexts: Ints, others: Ints, rows: int) -> NDArray[np.bool_]:
    """Which of the short own pairs are tails of `contexts`: they see one to RANGES light ones and none of `others`."""
    depth = depths(contexts, rows)
    fit = (depth > 0) & (depth <= RANGES) & ~covered_rows(others, rows)
    fit &= ~covered_rows(contexts[~is_light(contexts)], rows)
    before = np.concatenate([[0], np.cumsum(fit)])
    chosen: NDArray[np.bool_] = before[short[:, 0] + short[:, 1]] - before[short[:, 0]] == short[:, 1]
    return chosen


def tails_of(own: Ints, contexts: Ints) -> Tails:
    """Own pairs, ascending by row, as tails of the contexts, of which each sees at most RANGES."""
    ranges = np.zeros((len(own), RANGES, 2), np.int64)
    used = np.zeros(len(own), np.int64)
    for level in levels_of(contexts):
        holder = np.maximum(np.searchsorted(level[:, 0], own[:, 0], "right") - 1, 0)
        inside = (level[holder, 0] <= own[:, 0]) & (own[:, 0] < level[holder, 0] + level[holder, 1])
        ranges[inside, used[inside]] = level[holder[inside], 2:]
        used += inside
    follows = (own[:-1, 0] + own[:-1, 1] == own[1:, 0]) & (ranges[:-1] == ranges[1:]).all(axis=(1, 2))
    groups = collapse(own[:, :2].copy(), follows, column=1)
    return Tails(groups, ranges[np.concatenate([[True], ~follows])])
