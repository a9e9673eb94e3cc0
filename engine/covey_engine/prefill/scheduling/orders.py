"""Work orders go in; out comes whether they can run: columns opened, slots checked, every prompt known to fit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from covey_storage.errors import StorageError
from covey_storage.tokens import TokenColumn
from numpy.typing import NDArray

from covey_engine.prefill.api import DONE, MATCH, Anchor, Labels, Part, Partner, WorkOrder, YesNo
from covey_engine.prefill.errors import EngineError
from covey_engine.prefill.scheduling.compiled import Ints, Tokens, kernel
from covey_engine.prefill.scheduling.pieces import Pieces, Texts
from covey_engine.prefill.scheduling.prefixes import Rule


class Column(Protocol):
    """Token ids by slot: what a prompt's segment is taken from."""

    @property
    def lengths(self) -> NDArray[np.int32]:
        """Tokens of each slot."""
        ...

    def tokens(self, slot: int) -> NDArray[np.int32]:
        """The token ids of one slot."""
        ...

    @property
    def stretches(self) -> Sequence[tuple[int, NDArray[np.int64], NDArray[np.int32]]]:
        """Where the texts are, by ranges of slots: the first slot, where each one's text begins, token ids."""
        ...


class StoredColumn(Column, Texts, Protocol):
    """What the scheduler needs of a token column."""

    def __len__(self) -> int: ...

    def refresh(self) -> None:
        """See what was appended."""
        ...


def open_token_column(folder: str) -> StoredColumn:
    """Map the token column of a folder. Raises EngineError where it cannot be read."""
    try:
        return TokenColumn(folder)
    except StorageError as error:
        raise EngineError(str(error)) from None


@dataclass(frozen=True)
class Limits:
    """Sizes of the engine, in tokens: the KV arena with the chunk's scratch, one chunk, one prompt."""

    arena: int
    chunk: int
    context: int


@dataclass(eq=False)
class _Held:
    """An open column, the orders that use it, and its pieces as of its first `known` texts."""

    column: StoredColumn
    users: int = 0
    pieces: Pieces | None = None
    known: int = -1
    lock: threading.Lock = field(default_factory=threading.Lock)


class Columns:
    """Open token columns by folder, each mapped once while orders use it; may be used from any thread."""

    def __init__(self, open_column: Callable[[str], StoredColumn], rule: Rule) -> None:
        self._open = open_column
        self._rule = rule
        self._held: dict[str, _Held] = {}
        self._lock = threading.Lock()

    def acquire(self, folder: str, slots: NDArray[np.int32]) -> StoredColumn:
        """The column, seeing at least `slots`. Raises EngineError where it has fewer."""
        with self._lock:
            held = self._held.get(folder) or _Held(self._open(folder))
            column = held.column
            low, high = _bounds(slots)
            if high >= len(column):
                column.refresh()
            if low < 0 or high >= len(column):
                wrong = low if low < 0 else high
                raise EngineError(
                    f"token column {folder} has {len(column)} texts, slot {wrong} was asked for"
                )
            held.users += 1
            self._held[folder] = held
            return column

    def pieces(self, folder: str, slots: NDArray[np.int32]) -> Pieces | None:
        """The pieces of an acquired column's texts, the same for all orders as long as they know the slots.

        Raises EngineError where the column's order cannot be read.
        """
        with self._lock:
            held = self._held[folder]
        with held.lock:
            if held.known < 0 or _bounds(slots)[1] >= held.known:
                try:
                    held.pieces, held.known = Pieces.of(folder, held.column, self._rule)
                except StorageError as error:
                    raise EngineError(str(error)) from None
            return held.pieces

    def release(self, folder: str) -> None:
        """Drop one use; the mapping goes with the last."""
        with self._lock:
            held = self._held[folder]
            held.users -= 1
            if held.users == 0:
                del self._held[folder]


@kernel
def _bounds(slots: Tokens) -> tuple[int, int]:
    """The least and the greatest slot; 0 and -1 where there is none."""
    low, high = (slots[0], slots[0]) if len(slots) else (0, -1)
    for slot in slots:
        low, high = min(low, slot), max(high, slot)
    return low, high


def check_shape(order: WorkOrder) -> None:
    """Raise EngineError for an order that contradicts itself."""
    if not order.asks:
        raise EngineError("a work order needs at least one ask")
    for name, side in (("anchor", order.anchors), ("partner", order.partners)):
        if len({len(argument.slots) for argument in side}) > 1:
            raise EngineError(f"the {name} arguments have different numbers of rows")
    if order.anchors and order.anchor_count != len(order.anchors[0].slots):
        rows = len(order.anchors[0].slots)
        raise EngineError(f"anchor_count is {order.anchor_count}, the anchors have {rows} rows")
    if order.pairs is not None:
        _check_pairs(order)
    if any(isinstance(part, Partner) for part in order.prefix):
        raise EngineError("the prefix of a work order cannot hold a partner")
    if order.exists or order.enough is not None:
        _check_end(order)
    for index, ask in enumerate(order.asks):
        _check_readout(order, index)
        for following in (ask.on_true, ask.on_false):
            if following not in (DONE, MATCH) and not index < following < len(order.asks):
                raise EngineError(f"ask {index} goes on with ask {following}, which is not a later one")
        for part in order.prefix + ask.suffix:
            _check_part(part, order, index)


def _check_end(order: WorkOrder) -> None:
    if order.exists and not order.partners:
        raise EngineError("a work order that ends with an anchor's first match needs partners")
    if order.each < 1:
        raise EngineError("a work order's anchors need at least one match")
    if not any(MATCH in (ask.on_true, ask.on_false) for ask in order.asks):
        raise EngineError("a work order that ends with its matches has no answer that is one")


def _check_readout(order: WorkOrder, index: int) -> None:
    ask = order.asks[index]
    match ask.readout:
        case YesNo(yes, no):
            if not yes or not no:
                raise EngineError(f"ask {index} needs at least one yes and one no token")
        case Labels(labels):
            if not labels:
                raise EngineError(f"ask {index} needs at least one label")
            if () in labels:
                raise EngineError(f"label {labels.index(())} of ask {index} has no tokens")
            if not (ask.on_true == ask.on_false == DONE):
                raise EngineError(f"ask {index} is for labels, which are neither true nor false")
    if type(ask.readout) is not type(order.asks[0].readout):
        raise EngineError("a work order is either for labels or for yes and no")


def _check_pairs(order: WorkOrder) -> None:
    pairs = order.pairs
    assert pairs is not None
    if not order.partners:
        raise EngineError("a work order with pairs needs partners")
    if len(pairs.offsets) != order.anchor_count + 1:
        raise EngineError(f"pairs have {len(pairs.offsets)} offsets for {order.anchor_count} anchors")
    if pairs.offsets[0] != 0 or pairs.offsets[-1] != len(pairs.indices) or (np.diff(pairs.offsets) < 0).any():
        raise EngineError("the offsets of the pairs do not ascend from 0 to their number")
    if len(pairs.indices) and not 0 <= pairs.indices.min() <= pairs.indices.max() < order.partner_count:
        raise EngineError(f"pairs name a partner outside 0..{order.partner_count - 1}")


def _check_part(part: Part, order: WorkOrder, ask: int) -> None:
    match part:
        case Anchor(argument) if not 0 <= argument < len(order.anchors):
            raise EngineError(
                f"ask {ask} uses anchor argument {argument}, the order has {len(order.anchors)}"
            )
        case Partner(argument) if not 0 <= argument < len(order.partners):
            raise EngineError(
                f"ask {ask} uses partner argument {argument}, the order has {len(order.partners)}"
            )


def check_lengths(order: WorkOrder, ask: int, left: Ints, right: Ints, limits: Limits) -> int:
    """Raise EngineError unless every prompt of an ask has a token, fits the context, and a chunk fits beside it.

    left, right: tokens that each anchor and each partner contributes; the order has items. The tokens of all prompts.
    """
    if order.pairs is None:
        low, high, worst, total = _survey(left, right if order.partners else np.zeros(1, np.int64))
    else:
        low, high, worst, total = _survey_pairs(
            left,
            right,
            np.require(order.pairs.offsets, np.int64, ["C", "A"]),
            np.require(order.pairs.indices, np.int32, ["C", "A"]),
        )
    if low == 0:
        raise EngineError(f"ask {ask} has a prompt without tokens")
    if high > limits.context:
        raise EngineError(
            f"the prompt of anchor {worst} has {high} tokens, the model's context is {limits.context}"
        )
    if high > limits.arena - limits.chunk:
        room = limits.arena - limits.chunk
        raise EngineError(
            f"the prompt of anchor {worst} has {high} tokens, the KV arena holds {room} beside a chunk"
        )
    return total


@kernel
def _survey(left: Ints, right: Ints) -> tuple[int, int, int, int]:
    """Shortest and longest prompt, the longest one's anchor, all tokens, where every anchor meets every partner."""
    low, high, worst, total = left[0], left[0], 0, 0
    for n in range(len(left)):
        low = min(low, left[n])
        if left[n] > high:
            high, worst = left[n], n
        total += left[n] * len(right)
    least, most = right[0], right[0]
    for tokens in right:
        least, most = min(least, tokens), max(most, tokens)
        total += tokens * len(left)
    return low + least, high + most, worst, total


@kernel
def _survey_pairs(left: Ints, right: Ints, offsets: Ints, indices: Tokens) -> tuple[int, int, int, int]:
    """The same where the pairs are listed."""
    low, high, worst, total = -1, -1, 0, 0
    for anchor in range(len(left)):
        for pair in range(offsets[anchor], offsets[anchor + 1]):
            tokens = left[anchor] + right[indices[pair]]
            if low < 0 or tokens < low:
                low = tokens
            if tokens > high:
                high, worst = tokens, anchor
            total += tokens
    return low, high, worst, total
