"""The rounds of a step go in; out come its parts, in the order in which the anchors are wanted; asks nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from covey_planner.physical import AskStep

from covey_engine.operators.overflow import Round
from covey_engine.operators.subjects import Subjects

LEAST = 64
"""Items of a first wave: fewer would leave the device idle."""


def in_waves(step: AskStep, subjects: Subjects, rounds: Sequence[Round]) -> Iterator[tuple[bool, Round]]:
    """Each round to be asked, and whether what was found before may be enough.

    An ordered step, or one for labels, of which no order ends by itself, is asked in waves, each of twice as many
    anchors as the one before: whether there are enough matches is known at the end of a wave, when all anchors before
    the next are answered. Ties are never parted.
    """
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
