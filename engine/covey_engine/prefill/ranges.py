"""Pairs of query rows and keys go in, int64 [n, 4]; those that continue each other come out as one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def join_rows(pairs: Ints) -> Ints:
    """Pairs (query row, rows, key address, keys) with the same keys, and rows that follow each other, become one."""
    return _join(pairs, same=(2, 3), start=0, length=1)


def join_keys(pairs: Ints) -> Ints:
    """Pairs with the same rows, and keys that follow each other, become one."""
    return _join(pairs, same=(0, 1), start=2, length=3)


def collapse(pairs: Ints, follows: NDArray[np.bool_], column: int) -> Ints:
    """Runs of pairs (follows[i]: the next belongs to i's) become their first, with the sum in one column."""
    if not len(pairs):
        return pairs
    first = np.concatenate([[True], ~follows])
    joined: Ints = pairs[first]
    joined[:, column] = np.add.reduceat(pairs[:, column], np.flatnonzero(first))
    return joined


def _join(pairs: Ints, same: tuple[int, int], start: int, length: int) -> Ints:
    ordered = pairs[np.lexsort((pairs[:, start], pairs[:, same[1]], pairs[:, same[0]]))]
    before, after = ordered[:-1], ordered[1:]
    follows = (before[:, same] == after[:, same]).all(axis=1)
    follows &= before[:, start] + before[:, length] == after[:, start]
    return collapse(ordered, follows, length)
