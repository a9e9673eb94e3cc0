"""Two resolved sides and their pairs go in, the items of a step come out: what a question can be put to.

An item is an anchor row (filter), a position in `pairs.indices`, or anchor * partners + partner where every
pair is asked: the numbering of prefill.api.Answers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from covey_engine.operators.domains import Side
from covey_engine.operators.pairs import pairs
from covey_engine.prefill import api

Rows = NDArray[np.integer]


@dataclass(frozen=True)
class Subjects:
    """What a step asks about: anchors, or pairs of anchors and partners (`pairs` None: every pair)."""

    anchors: Side
    partners: Side | None = None
    pairs: api.Pairs | None = None

    @property
    def items(self) -> int:
        """Number of anchors (filter) or pairs (join)."""
        if self.partners is None:
            return len(self.anchors)
        return len(self.pairs.indices) if self.pairs is not None else len(self.anchors) * len(self.partners)

    def anchor_rows(self, items: Rows) -> Rows:
        """The anchor row of each item."""
        if self.partners is None:
            return items
        return self._anchor_of_pair[items] if self.pairs is not None else items // len(self.partners)

    def partner_rows(self, items: Rows) -> Rows:
        """The partner row of each item of a join."""
        assert self.partners is not None
        return self.pairs.indices[items] if self.pairs is not None else items % len(self.partners)

    def restrict(self, items: Rows) -> Subjects:
        """These items alone (ascending); item i of the result is `items[i]` of this."""
        anchors = self.anchor_rows(items)
        if self.partners is None:
            return Subjects(self.anchors.take(anchors))
        distinct, counts = np.unique(anchors, return_counts=True)
        return replace(
            self, anchors=self.anchors.take(distinct), pairs=pairs(counts, self.partner_rows(items))
        )

    def exchanged(self) -> Subjects:
        """The same pairs with the partners as the anchors, those that are in none left out."""
        assert self.partners is not None
        if self.pairs is None:
            return Subjects(self.partners, self.anchors)
        counts = np.bincount(self.pairs.indices, minlength=len(self.partners))
        busy, order = np.flatnonzero(counts), np.argsort(self.pairs.indices, kind="stable")
        met = pairs(counts[busy], self._anchor_of_pair[order])
        return Subjects(self.partners.take(busy), self.anchors, met)

    @cached_property
    def _anchor_of_pair(self) -> NDArray[np.int32]:
        assert self.pairs is not None
        return np.repeat(np.arange(len(self.anchors), dtype=np.int32), np.diff(self.pairs.offsets))
