"""A column and its cut go in, virtual columns of pieces come out: windows into the real one's texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.api import Anchor, Literal, Part, Partner, WorkOrder
from covey_engine.prefill.scheduling.groups import Ints, Slots
from covey_engine.prefill.scheduling.prefixes import Cut, Rule, cut_texts

Stretch = tuple[int, Ints, NDArray[np.int32]]
"""Texts of a range of slots: the first slot, where each one's tokens begin, and an array that has all of them."""


class Ordered(Protocol):
    """Texts in lexicographic order of their tokens."""

    @property
    def slots(self) -> Slots:
        """The texts."""
        ...

    @property
    def common(self) -> Slots:
        """How many tokens each has in common with the one before it."""
        ...


class Texts(Protocol):
    """What pieces need of a token column."""

    @property
    def lengths(self) -> Slots:
        """Tokens of each slot."""
        ...

    @property
    def order(self) -> Ordered:
        """All slots in lexicographic order."""
        ...

    @property
    def stretches(self) -> Sequence[Stretch]:
        """Where the texts are, by ranges of slots."""
        ...

    def tokens(self, slot: int) -> NDArray[np.int32]:
        """The token ids of one slot."""
        ...


class Window:
    """A token column of which each text is a part of another one's: its tokens begins[slot]..ends[slot] - 1."""

    def __init__(self, texts: Texts, begins: Slots, ends: Slots) -> None:
        self._texts = texts
        self._begins = begins
        self.lengths: Slots = ends - begins
        known = len(begins)
        self.stretches: list[Stretch] = []
        for first, places, values in texts.stretches:
            some = places[: max(0, known - first)]
            self.stretches.append((first, some + begins[first : first + len(some)], values))

    def tokens(self, slot: int) -> NDArray[np.int32]:
        """The token ids of one slot."""
        begin = int(self._begins[slot])
        return self._texts.tokens(slot)[begin : begin + int(self.lengths[slot])]


@dataclass(frozen=True, eq=False)
class Pieces:
    """A column cut into pieces.

    folders: what the virtual columns are called; they are the same for all orders that see the same texts. windows:
    each piece; heads: each text up to and with that piece.
    """

    cut: Cut
    folders: tuple[str, ...]
    windows: tuple[Window, ...]
    heads: tuple[Window, ...]

    @staticmethod
    def of(folder: str, column: Texts, rule: Rule) -> tuple[Pieces | None, int]:
        """The column's pieces, None where nothing is worth sharing, and how many texts were looked at."""
        order = column.order
        count = len(order.slots)
        cut = cut_texts(order.slots, order.common, column.lengths, rule)
        if cut is None:
            return None, count
        nothing = np.zeros(count, np.int32)
        return Pieces(
            cut,
            tuple(f"{folder}\0{count}\0{number}" for number in range(len(cut.names))),
            tuple(
                Window(column, begins, ends)
                for begins, ends in zip((nothing, *cut.ends), cut.ends, strict=False)
            ),
            tuple(Window(column, nothing, ends) for ends in cut.ends),
        ), count


def rewrite(order: WorkOrder, anchors: Sequence[int], partners: Sequence[int]) -> WorkOrder:
    """The same prompts where each argument of an order is replaced by a number of arguments, its pieces.

    The new arguments have no slots of their own; their numbers are all that paths need.
    """

    def parts(old: Sequence[Part]) -> tuple[Part, ...]:
        return tuple(new for part in old for new in pieces(part))

    def pieces(part: Part) -> list[Part]:
        match part:
            case Literal():
                return [part]
            case Anchor(argument):
                first = sum(anchors[:argument])
                return [Anchor(first + number) for number in range(anchors[argument])]
            case Partner(argument):
                first = sum(partners[:argument])
                return [Partner(first + number) for number in range(partners[argument])]

    asks = tuple(replace(ask, suffix=parts(ask.suffix)) for ask in order.asks)
    return replace(order, prefix=parts(order.prefix), asks=asks)
