"""Arguments of work orders go in; out come their slots by row, as whole texts or in pieces, and how long segments are.

Rows are sorted by what their prompts begin with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from covey_engine.prefill.api import Argument
from covey_engine.prefill.scheduling.compiled import Ints, IntsOut, Tokens, kernel
from covey_engine.prefill.scheduling.groups import Slots
from covey_engine.prefill.scheduling.orders import Column
from covey_engine.prefill.scheduling.pieces import Pieces

HOLLOW = -1
"""The slot that stands for all texts without tokens."""


def aligned(argument: Argument) -> Argument:
    """The argument with its slots as kernels want them."""
    slots = np.ascontiguousarray(argument.slots, np.int32)
    if not slots.flags.aligned:
        slots = slots.copy()
    return argument if slots is argument.slots else Argument(argument.column, slots)


@dataclass(frozen=True)
class Side:
    """One argument: its column and a slot per row; texts without tokens share the slot HOLLOW.

    Of a text that is cut, each piece is an argument. number: which piece it is; head: the text up to and with it,
    None where texts are whole; ranks: of a head, what sorts rows as all pieces of their texts do.
    """

    folder: str
    column: Column
    slots: Slots
    hollow: bool
    number: int = 0
    head: Side | None = None
    ranks: Slots | None = None

    @staticmethod
    def of(argument: Argument, column: Column) -> Side:
        """The argument as it was submitted, its slots aligned."""
        slots = argument.slots
        hollow = column.lengths[slots] == 0
        some = bool(hollow.any())
        return Side(
            argument.column, column, np.where(hollow, np.int32(HOLLOW), slots) if some else slots, some
        )

    @staticmethod
    def pieces(argument: Argument, pieces: Pieces) -> list[Side]:
        """The pieces of an argument, whose slots are aligned, the first foremost."""
        texts = argument.slots
        ranks = pieces.cut.ranks[texts]
        sides = []
        parts = zip(pieces.folders, pieces.windows, pieces.heads, pieces.cut.names, strict=True)
        for number, (folder, window, head, names) in enumerate(parts):
            slots = names[texts]
            whole = Side(folder, head, texts, False, ranks=ranks)
            sides.append(Side(folder, window, slots, bool((slots < 0).any()), number, whole))
        return sides

    def sorted(self, order: Ints | None) -> Side:
        """The same in another order of rows."""
        if order is None:
            return self
        head = None if self.head is None else self.head.sorted(order)
        return Side(self.folder, self.column, self.slots[order], self.hollow, self.number, head)


@dataclass(frozen=True, eq=False)
class Measure:
    """How long some segments are together: the literals, and the sides whose texts are in them."""

    literals: int
    anchors: tuple[Side, ...]
    partners: tuple[Side, ...]

    def apart(self) -> tuple[Measure, Measure]:
        """What does not depend on a partner, and what does."""
        return Measure(self.literals, self.anchors, ()), Measure(0, (), self.partners)

    def lengths(self, rows: Ints, partners: Ints | None) -> Ints:
        """Tokens per row (and partner)."""
        total = np.empty(len(rows), np.int64)
        total.fill(self.literals)
        for side in self.anchors:
            _add_lengths(total, side.slots, rows, side.column.lengths)
        for side in self.partners:
            assert partners is not None
            _add_lengths(total, side.slots, partners, side.column.lengths)
        return total

    def total(self, rows: Ints, partners: Ints | None) -> int:
        """Tokens of all rows together."""
        total = self.literals * len(rows)
        for side in self.anchors:
            total += _sum_lengths(side.slots, rows, side.column.lengths)
        for side in self.partners:
            assert partners is not None
            total += _sum_lengths(side.slots, partners, side.column.lengths)
        return total


@kernel
def _add_lengths(total: IntsOut, slots: Tokens, rows: Ints, texts: Tokens) -> None:
    """Add the lengths of the rows' texts; a slot below 0 stands for a text without tokens."""
    for n in range(len(rows)):
        slot = slots[rows[n]]
        if slot >= 0:
            total[n] += texts[slot]


@kernel
def _sum_lengths(slots: Tokens, rows: Ints, texts: Tokens) -> int:
    """The lengths of the rows' texts together."""
    total = 0
    for row in rows:
        slot = slots[row]
        if slot >= 0:
            total += texts[slot]
    return total


def joined(sides: Sequence[Side]) -> tuple[Side, ...]:
    """Sides for whole texts, and heads of such, in place of pieces that follow one another."""
    found = list[Side]()
    for side in sides:
        if side.number and found:
            found.pop()
        found.append(side.head or side)
    return tuple(found)


def ascending(sides: Sequence[Side]) -> Ints | None:
    """The order that sorts rows by their segments, the first foremost; None where they are sorted."""
    keys = [side.slots if side.ranks is None else side.ranks for side in joined(sides)]
    if not keys:
        return None
    if len(keys) == 1:
        return None if _ascends(keys[0]) else np.argsort(keys[0], kind="stable")
    order = np.lexsort(keys[::-1])
    return None if _in_order(order) else order


@kernel
def _ascends(values: Tokens) -> bool:
    """Whether no value is less than the one before it."""
    n = 1
    while n < len(values) and values[n] >= values[n - 1]:
        n += 1
    return n >= len(values)


@kernel
def _in_order(order: Ints) -> bool:
    """Whether an order is 0, 1, 2 and so on."""
    n = 0
    while n < len(order) and order[n] == n:
        n += 1
    return n == len(order)
