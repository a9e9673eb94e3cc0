"""An order that asks for labels goes in, prepared joins with the beginnings of its labels come out; computes nothing.

The tokens of an ask's labels make up a trie. Each of its inner nodes is a prompt after which the tokens of its children
are read, so an ask is a join of its items with the inner nodes; a node's tokens are one argument a level. Everything
else, sharing, packing and claims, is a join's. The order's items are numbered so that those of the join follow from
them: item * nodes + node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.api import Argument, Labels, Pairs, Partner, WorkOrder
from covey_engine.prefill.errors import EngineError
from covey_engine.prefill.scheduling.groups import Slots
from covey_engine.prefill.scheduling.orders import Columns, Limits, StoredColumn, check_shape
from covey_engine.prefill.scheduling.prepare import Prepared, prepare, release
from covey_engine.prefill.scheduling.scores import Trie

Parts = tuple[Prepared, ...]
"""What an order is scheduled as: itself, or a join for each ask of labels."""

TOKENS = "one token"
"""The folder that stands for the column of all tokens: text 0 is empty, text n + 1 is token n."""

_MOST = 1 << 20


@dataclass(frozen=True)
class _InOrder:
    """Texts whose slots ascend in lexicographic order, and which have nothing in common."""

    slots: Slots
    common: Slots


class TokenColumn:
    """Every token as a text of its own."""

    def __init__(self) -> None:
        self.lengths = np.ones(_MOST, np.int32)
        self.lengths[0] = 0
        self._begins = np.arange(-1, _MOST - 1)
        self._tokens = np.arange(_MOST, dtype=np.int32)

    def __len__(self) -> int:
        return _MOST

    def tokens(self, slot: int) -> NDArray[np.int32]:
        """The token of one slot, or none."""
        return self._tokens[max(slot - 1, 0) : slot]

    @property
    def stretches(self) -> list[tuple[int, NDArray[np.int64], NDArray[np.int32]]]:
        """One: token n stands at place n."""
        return [(0, self._begins, self._tokens)]

    @property
    def order(self) -> _InOrder:
        """The empty text, then the tokens."""
        return _InOrder(np.arange(_MOST, dtype=np.int32), np.zeros(_MOST, np.int32))

    def refresh(self) -> None:
        """Nothing is ever appended."""


def with_tokens(open_column: Callable[[str], StoredColumn]) -> Callable[[str], StoredColumn]:
    """How columns are opened, the one of all tokens among them."""
    return lambda folder: TokenColumn() if folder == TOKENS else open_column(folder)


def prepare_parts(order: WorkOrder, columns: Columns, limits: Limits) -> Parts:
    """Open an order's columns and sort its rows. Raises EngineError, in one line, where it can never run."""
    check_shape(order)
    if not isinstance(order.asks[0].readout, Labels):
        return (prepare(order, columns, limits),)
    parts: list[Prepared] = []
    try:
        for ask in range(len(order.asks)):
            join, trie = as_join(order, ask)
            parts.append(replace(prepare(join, columns, limits), ask=ask, trie=trie))
    except BaseException:
        release_parts(tuple(parts), columns)
        raise
    return tuple(parts)


def release_parts(parts: Parts, columns: Columns) -> None:
    """Give the order's columns back."""
    for prepared in parts:
        release(prepared, columns)


def as_join(order: WorkOrder, ask: int) -> tuple[WorkOrder, Trie]:
    """One ask for labels as an order of its own: a join of its items with the inner nodes of the labels' trie."""
    chosen = order.asks[ask]
    assert isinstance(chosen.readout, Labels)
    trie = Trie.of(chosen.readout)
    nodes, levels = trie.paths.shape
    if not levels:
        return replace(order, asks=(chosen,)), trie
    partners = order.partner_count if order.partners else 1
    if partners * nodes >= 1 << 31:
        raise EngineError(f"{partners} partners with {nodes} beginnings of labels are too many for one order")
    ours = tuple(Argument(side.column, side.slots.repeat(nodes)) for side in order.partners)
    theirs = tuple(Argument(TOKENS, np.tile(level + 1, partners)) for level in trie.paths.T)
    pairs = order.pairs
    if pairs is not None:
        indices = (pairs.indices[:, None] * nodes + np.arange(nodes)).astype(np.int32)
        pairs = Pairs(pairs.offsets * nodes, indices.reshape(-1))
    suffix = (*chosen.suffix, *(Partner(len(ours) + level) for level in range(levels)))
    join = replace(order, asks=(replace(chosen, suffix=suffix),), partners=ours + theirs, pairs=pairs)
    return join, trie
