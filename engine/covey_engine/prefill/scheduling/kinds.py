"""Segments by type go in, kinds of prefixes come out: what the prefixes of different orders have in common at all.

A kind is a sequence of segment types, each the tokens of a literal or the folder of a token column. The prefixes of
one kind differ in the slots of its columns only, so orders meet in the prefix tree exactly where they share a kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from covey_engine.prefill.scheduling.claims import Claim
    from covey_engine.prefill.scheduling.jobs import Job
    from covey_engine.prefill.scheduling.orders import Column

Symbol = tuple[int, ...] | str
"""A segment's type: the tokens of a literal, or a column's folder."""


class Kind:
    """One kind of prefix; equal kinds are one object.

    tokens: those of a literal segment; column: that of a column segment. claims: what orders may still want of nodes
    of this kind; keyed: orders whose fresh anchors are identified by a prefix of this kind. columns: how many column
    segments it has; shared: whether more than one claim was ever made.
    """

    __slots__ = (
        "children",
        "claims",
        "column",
        "columns",
        "id",
        "keyed",
        "parent",
        "references",
        "shared",
        "symbol",
        "tokens",
    )

    def claim(self, claim: Claim) -> None:
        """Register a claim."""
        self.claims.append(claim)
        self.shared |= len(self.claims) > 1

    def __init__(self, number: int, parent: Kind | None, symbol: Symbol, column: Column | None) -> None:
        self.id = number
        self.parent = parent
        self.symbol = symbol
        self.column = column
        self.tokens: NDArray[np.int32] | None = (
            None if isinstance(symbol, str) else np.array(symbol, np.int32)
        )
        self.children: dict[Symbol, Kind] = {}
        self.references = 0
        self.claims: list[Claim] = []
        self.keyed: list[Job] = []
        self.columns: int = (parent.columns if parent else 0) + isinstance(symbol, str)
        self.shared = False


class Kinds:
    """All kinds that running orders use, in `each` by number."""

    def __init__(self) -> None:
        self.root = Kind(0, None, (), None)
        self.each = {0: self.root}
        self._made = 0

    def acquire(self, parent: Kind, symbol: Symbol, column: Column | None) -> Kind:
        """The kind of `parent` with one more segment; counts one more user of it."""
        kind = parent.children.get(symbol)
        if kind is None:
            self._made += 1
            kind = parent.children[symbol] = Kind(self._made, parent, symbol, column)
            self.each[kind.id] = kind
        kind.references += 1
        return kind

    def release(self, kind: Kind) -> None:
        """One user less; release children before their parents."""
        kind.references -= 1
        if kind.references == 0:
            assert kind.parent is not None
            del kind.parent.children[kind.symbol], self.each[kind.id]
