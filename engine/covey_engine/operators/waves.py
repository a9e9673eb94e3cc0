"""The rounds of a step go in; out come its parts, in the order in which the anchors are wanted; asks nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from covey_planner.physical import AskStep
from numpy.typing import NDArray

from covey_engine.operators.overflow import Round
from covey_engine.operators.pair_waves import pair_waves
from covey_engine.operators.subjects import Subjects

LEAST = 64
"""Items of a first wave: fewer would leave the device idle."""


def in_waves(
    step: AskStep, subjects: Subjects, rounds: Sequence[Round], least: float = 0.0
) -> Iterator[tuple[bool, Round]]:
    """Each round to be asked, and whether what was found before may be enough.

    An ordered step, or one for labels, of which no order ends by itself, is asked in waves, each of twice as many
    anchors as the one before: whether there are enough matches is known at the end of a wave, when all anchors before
    the next are answered. Ties are never parted. Where pairs have an order, each wave has twice as many of them, of
    each anchor `least` on an average.
    """
    if step.pair_order is not None and step.enough is not None:
        for wave in pair_waves(step.pair_order, subjects, max(LEAST, 2 * step.enough), least):
            parts = [part for turn in rounds if (part := within(turn, wave)).subjects.items]
            yield from ((number == 0, part) for number, part in enumerate(parts))
        return
    labels = any(question.kind == "label" for question in step.questions)
    if not (step.ordered or labels) or step.enough is None:
        for turn in rounds:
            yield True, turn
        return
    items = [np.arange(turn.subjects.items) if turn.items is None else turn.items for turn in rounds]
    wide = 1 if subjects.partners is None else max(1, len(subjects.partners))
    total, ties = len(subjects.anchors), subjects.anchors.keys.ties
    start, size = 0, max(1, -(-max(LEAST, 2 * step.enough) // wide))
    while start < total:
        end = min(start + size, total)
        if ties is not None:
            end = int(np.searchsorted(ties, ties[end - 1], side="right"))
        first = True
        for turn, numbers in zip(rounds, items, strict=True):
            chosen = np.flatnonzero((numbers >= start * wide) & (numbers < end * wide))
            if len(chosen):
                yield first, replace(turn, subjects=turn.subjects.restrict(chosen), items=numbers[chosen])
                first = False
        start, size = end, 2 * size


def within(turn: Round, items: NDArray[np.int64]) -> Round:
    """The part of a round that is among these items, ascending."""
    if turn.items is None:
        return replace(turn, subjects=turn.subjects.restrict(items), items=items)
    chosen = np.flatnonzero(np.isin(turn.items, items))
    return replace(turn, subjects=turn.subjects.restrict(chosen), items=turn.items[chosen])
