"""Answer rows and pairs go in; the pairs and key ranges of the answers alone come out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.hopper.pairs import Ints, levels_of


def spans_of(answers: Ints, own: Ints, contexts: Ints) -> NDArray[np.int32]:
    """The (first address, length) ranges that each answer reads, int32 [answers, ranges, 2]; length 0 for none."""
    levels = levels_of(contexts)
    spans = np.zeros((len(answers), 1 + len(levels), 2), np.int32)
    narrowed = last_rows(own, answers)
    spans[:, 0] = narrowed[:, 2:]
    for index, pairs in enumerate(levels):
        holder, inside = _holders(pairs, answers)
        spans[inside, 1 + index] = pairs[holder[inside], 2:]
    return spans


def answers_in(pairs: Ints, answers: Ints) -> Ints:
    """A level's pairs with the answers among their rows for queries, numbered by answer."""
    begin = np.searchsorted(answers, pairs[:, 0])
    end = np.searchsorted(answers, pairs[:, 0] + pairs[:, 1])
    return np.column_stack([begin, end - begin, pairs[:, 2:]])[end > begin]


def last_rows(own: Ints, answers: Ints) -> Ints:
    """One pair an answer, numbered by answer, with the keys that its row sees of its own pair."""
    holder, inside = _holders(own, answers)
    number, holder, row = np.flatnonzero(inside), holder[inside], answers[inside]
    hidden = own[holder, 0] + own[holder, 1] - 1 - row
    return np.column_stack([number, np.ones_like(number), own[holder, 2], own[holder, 3] - hidden])


def _holders(pairs: Ints, rows: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """For each row the pair that could hold its query, and whether it does; pairs ascend and are disjoint."""
    if not len(pairs):
        return np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_)
    holder = np.searchsorted(pairs[:, 0], rows, "right") - 1
    return holder, (holder >= 0) & (rows < pairs[holder, 0] + pairs[holder, 1])
