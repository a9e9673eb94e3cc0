"""An order goes in; out comes, prepared, what it is scheduled as: several orders where its asks are independent.

Asks that are put to every item are orders of their own, which meet in the prefix tree. So are asks for labels: the
tokens of an ask's labels make up a trie, each of whose inner nodes is a prompt after which the tokens of its children
are read, and the ask becomes a join of its items with the inner nodes; a node's tokens are one argument a level.
Everything else, sharing, packing and claims, is a join's. The order's items are numbered so that those of the join
follow from them: item * nodes + node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.api import DONE, Argument, Labels, Pairs, Partner, WorkOrder
from covey_engine.prefill.errors import EngineError
from covey_engine.prefill.scheduling.groups import Slots
from covey_engine.prefill.scheduling.orders import Columns, Limits, StoredColumn, check_shape
from covey_engine.prefill.scheduling.prepare import Prepared, prepare, release
from covey_engine.prefill.scheduling.scores import Trie

Parts = tuple[Prepared, ...]
"""What an order is scheduled as: itself, or an order for each ask where none depends on another."""

TOKENS = "one token"
"""The folder that stands for the column of all tokens: text 0 is empty, text n + 1 is token n."""

_MOST = 1 << 20


@dataclass(frozen=True)
class _InOrder:
    """Texts whose slots ascend in lexicographic order, and which have nothing in common."""

    slots: Slots
    common: Slots


class TokenColumn:
    """Every token as a text of its own.

    order: the empty text, then the tokens. stretches: one, token n stands at place n.
    """

    def __init__(self) -> None:
        self.lengths = np.ones(_MOST, np.int32)
        self.lengths[0] = 0
        self._tokens = np.arange(_MOST, dtype=np.int32)
        self.order = _InOrder(self._tokens, np.broadcast_to(np.int32(0), _MOST))
        self.stretches = ((0, np.arange(-1, _MOST - 1), self._tokens),)

    def __len__(self) -> int:
        return _MOST

    def tokens(self, slot: int) -> NDArray[np.int32]:
        """The token of one slot, or none."""
        return self._tokens[max(slot - 1, 0) : slot]

    def refresh(self) -> None:
        """Nothing is ever appended."""


def with_tokens(open_column: Callable[[str], StoredColumn]) -> Callable[[str], StoredColumn]:
    """How columns are opened, the one of all tokens among them."""
    return lambda folder: _all_tokens() if folder == TOKENS else open_column(folder)


@cache
def _all_tokens() -> TokenColumn:
    return TokenColumn()


def prepare_parts(order: WorkOrder, columns: Columns, limits: Limits) -> Parts:
    """Open an order's columns and sort its rows. Raises EngineError, in one line, where it can never run."""
    check_shape(order)
    labels = isinstance(order.asks[0].readout, Labels)
    if not labels and not _independent(order):
        return (prepare(order, columns, limits),)
    parts: list[Prepared] = []
    try:
        for ask, chosen in enumerate(order.asks):
            alone = replace(order, asks=(replace(chosen, on_true=DONE, on_false=DONE),))
            part, trie = as_join(alone) if labels else (alone, None)
            parts.append(prepare(part, columns, limits, ask, trie))
    except BaseException:
        release_parts(tuple(parts), columns)
        raise
    return tuple(parts)


def _independent(order: WorkOrder) -> bool:
    """Whether a filter puts several asks to every item, so that none has to wait for the answer to another."""
    following = [*range(1, len(order.asks)), DONE]
    return (
        len(order.asks) > 1
        and not order.partners
        and order.enough is None
        and all(ask.on_true == ask.on_false == then for ask, then in zip(order.asks, following, strict=True))
    )


def release_parts(parts: Parts, columns: Columns) -> None:
    """Give the order's columns back."""
    for prepared in parts:
        release(prepared, columns)


def as_join(order: WorkOrder) -> tuple[WorkOrder, Trie]:
    """An order with one ask, for labels, as a join of its items with the inner nodes of the labels' trie."""
    (chosen,) = order.asks
    assert isinstance(chosen.readout, Labels)
    trie = Trie.of(chosen.readout)
    nodes, levels = trie.paths.shape
    if not levels:
        return order, trie
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
