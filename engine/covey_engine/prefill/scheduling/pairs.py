"""Which partners each anchor meets goes in; out comes one list of pairs by row, in order of their partners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.api import Part, Partner, WorkOrder
from covey_engine.prefill.scheduling.compiled import Ints, Tokens, kernel
from covey_engine.prefill.scheduling.groups import Slots
from covey_engine.prefill.scheduling.sides import Side, ascending


@dataclass(frozen=True)
class PairList:
    """The pairs of each row: positions begins[row]..ends[row] - 1 of one list, in order of their partners.

    items, partners: of each position, where they are not what `item` and `partner` compute.
    """

    begins: Ints
    ends: Ints
    width: int
    rows: Ints | None
    partners: Slots
    items: NDArray[np.int64] | None

    def partner(self, positions: Ints) -> Ints:
        """The partner of each position."""
        return _partners(self.partners, positions, self.width)

    def item(self, positions: Ints, partners: Ints) -> Ints:
        """The number that answers carry for each position."""
        if not self.width:
            return positions if self.items is None else self.items[positions]
        rows = positions // self.width
        return (rows if self.rows is None else self.rows[rows]) * self.width + partners


@kernel
def _partners(partners: Tokens, positions: Ints, width: int) -> Ints:
    """PairList.partner; width 0: not all rows have the same partners."""
    found = np.empty(len(positions), np.int64)
    for n in range(len(positions)):
        found[n] = partners[positions[n] % width if width else positions[n]]
    return found


def list_pairs(
    order: WorkOrder, path: Sequence[Part], partners: list[Side], original: Ints | None
) -> PairList:
    """The pairs of an order that has partners. path: of its first ask; original: each row's anchor."""
    ranked = ascending([partners[part.argument] for part in path if isinstance(part, Partner)])
    count = order.partner_count
    if order.pairs is None:
        sequence = np.arange(count, dtype=np.int32) if ranked is None else ranked.astype(np.int32)
        begins = np.arange(order.anchor_count) * count
        return PairList(begins, begins + count, count, original, sequence, None)
    offsets, indices = order.pairs.offsets, order.pairs.indices
    begins = offsets[:-1] if original is None else offsets[:-1][original]
    ends = offsets[1:] if original is None else offsets[1:][original]
    ranks = indices
    if ranked is not None:
        rank = np.empty(count, np.int32)
        rank[ranked] = np.arange(count, dtype=np.int32)
        ranks = rank[indices]
    falls = np.diff(ranks) < 0
    inner = offsets[1:-1]
    falls[inner[(inner > 0) & (inner < len(indices))] - 1] = False
    if not falls.any():
        return PairList(begins, ends, 0, None, indices, None)
    anchors = np.repeat(np.arange(order.anchor_count), np.diff(offsets))
    items = np.lexsort((ranks, anchors))
    return PairList(begins, ends, 0, None, indices[items], items)
