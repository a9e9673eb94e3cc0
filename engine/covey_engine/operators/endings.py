"""How far a step has to be asked: rounds and answers go in, what is next and what ends an order comes out; asks none.

A step ends after enough matches, an anchor after some of its pairs, or a group of items after some of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from covey_planner.physical import AskStep, Question
from numpy.typing import NDArray

from covey_engine.operators.answers import FALSE, TRUE
from covey_engine.operators.groups import Waves, ranges
from covey_engine.operators.overflow import Round
from covey_engine.operators.subjects import Subjects
from covey_engine.operators.waves import in_waves, within
from covey_engine.prefill import api

Items = NDArray[np.int64]
Ended = api.Ask | Question
"""What says where an answer leads."""


class Ending:
    """What a step that may end early has found. waves: of a step with groups; least: pairs of an anchor that are asked
    together, where pairs are asked in an order.
    """

    def __init__(self, step: AskStep, subjects: Subjects, waves: Waves | None, least: float = 0.0) -> None:
        self._step = step
        self._subjects = subjects
        self._waves = waves
        self._least = least
        self._anchors = step.exists or (waves is not None and waves.members.anchors)
        self._each = step.each if step.groups is None else step.groups.needed
        size = 0
        if waves is not None or step.enough is not None:
            size = len(subjects.anchors) if self._anchors else subjects.items
        self._found = np.zeros(size, np.int64)

    def turns(self, rounds: Sequence[Round]) -> Iterator[tuple[Round, bool]]:
        """What is to be asked, one after another, as far as what was found before does not end it; and whether an order
        of it may end early by itself.
        """
        if self._waves is None:
            for first, turn in in_waves(self._step, self._subjects, rounds, self._least):
                if first and self._step.enough is not None and self._missing <= 0:
                    return
                yield turn, not self._step.ordered  # in a wave of its order, no match comes before another
            return
        for units in self._waves:
            for items, alone in self._parts(self._items(units)):
                for turn in rounds:
                    yield turn if items is None else within(turn, items), alone

    def fields(self, asks: Sequence[api.Ask], alone: bool) -> dict[str, Any]:
        """What ends an order of these asks, as its fields; nothing where none of their answers is a match."""
        if not alone or not any(api.MATCH in (ask.on_true, ask.on_false) for ask in asks):
            return {}
        if self._waves is not None:
            return {"exists": True, "each": self._each}
        enough = None if self._step.enough is None else self._missing
        return {"exists": self._step.exists, "each": self._step.each, "enough": enough}

    def count(self, ask: Ended, items: Items, states: NDArray[np.int8], failed: NDArray[np.bool_]) -> None:
        """Take in answers to an ask, or to a question."""
        if not len(self._found):
            return
        true, false = ask.on_true == api.MATCH, ask.on_false == api.MATCH
        matched = items[(((states == TRUE) & true) | ((states == FALSE) & false)) & ~failed]
        rows = self._subjects.anchor_rows(matched) if self._anchors else matched
        np.add.at(self._found, rows, 1)
        if self._waves is not None:
            self._waves.matched[rows] = self._found[rows] >= (self._each if self._anchors else 1)

    @property
    def _missing(self) -> int:
        settled = self._found >= (self._step.each if self._anchors else 1)
        return (self._step.enough or 0) - int(np.count_nonzero(settled))

    def _parts(self, items: Items | None) -> Iterator[tuple[Items | None, bool]]:
        """The items of anchors whose matches settle them, and others."""
        assert self._waves is not None
        alone = self._waves.members.alone
        if alone is None:
            yield items, self._anchors
            return
        chosen = alone if items is None else alone[items]
        for part, settles in ((chosen, True), (~chosen, False)):
            if part.all():
                yield items, settles
            elif part.any():
                yield np.flatnonzero(part) if items is None else items[part], settles

    def _items(self, units: Items) -> Items | None:
        """The items of some units; None for all there are."""
        subjects = self._subjects
        if not self._anchors:
            return None if len(units) == subjects.items else units
        if len(units) == len(subjects.anchors):
            return None
        if subjects.pairs is not None:
            return ranges(subjects.pairs.offsets[units], subjects.pairs.offsets[units + 1])
        assert subjects.partners is not None
        wide = len(subjects.partners)
        return ranges(units * wide, (units + 1) * wide)
