"""Token columns and some of their slots in, how many tokens these texts begin with alike out; runs nothing.

Such beginnings are computed once where the texts stand at the same place of a prompt, behind the same tokens. What is
told are two sums over the texts, of the tokens that each has in common with the one before it in lexicographic order,
as far as that is worth sharing, and of the squares of these numbers.
"""

from __future__ import annotations

import numpy as np
from covey_storage.tokens import TokenColumn
from numpy.typing import NDArray

_WORTH = 20
"""Tokens that two texts must have in common for the engine to compute them once, about; of many texts fewer will do."""


def of_some(column: TokenColumn, slots: NDArray[np.int32]) -> tuple[float, float]:
    """Of the texts of some slots (int32 [n], no two alike)."""
    order = column.order
    ranks = np.empty(len(order.slots), np.int64)
    ranks[order.slots] = np.arange(len(ranks))
    places = np.sort(ranks[slots])
    if len(places) < 2:
        return 0.0, 0.0
    # Between two of them the least counts; what stands at a place is common with the place before it.
    return _sums(np.minimum.reduceat(order.common[: places[-1] + 1], places[:-1] + 1))


def of_all(column: TokenColumn) -> tuple[float, float]:
    """Of all texts of a column."""
    return _sums(column.order.common)


def _sums(common: NDArray[np.int32]) -> tuple[float, float]:
    worth = common[common >= _WORTH].astype(np.float64)
    return float(worth.sum()), float(worth @ worth)
