"""A step's rounds go in, the same parted by the question that comes first come out; asks nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from covey_planner.physical import AskStep
from numpy.typing import NDArray

from covey_engine.operators.answers import NOT_ASKED, NULL, TRUE, Found
from covey_engine.operators.overflow import Round
from covey_engine.operators.subjects import Subjects

Items = NDArray[np.int64]


def entries_of(step: AskStep, subjects: Subjects, items: Items) -> NDArray[np.int64]:
    """The question that each of these items is asked first, -1 for none."""
    marks = subjects.anchors.keys.marks
    if not step.entries or marks is None:
        return np.zeros(len(items), np.int64)
    entries: NDArray[np.int64] = np.array(step.entries, np.int64)[marks[subjects.anchor_rows(items)]]
    return entries


def by_entry(step: AskStep, rounds: Sequence[Round]) -> list[Round]:
    """The rounds, each of items that are asked the same question first; without those that are asked none."""
    if not step.entries:
        return list(rounds)
    parts = []
    for turn in rounds:
        entries = entries_of(step, turn.subjects, np.arange(turn.subjects.items))
        for entry in np.unique(entries[entries >= 0]).tolist():
            chosen = np.flatnonzero(entries == entry)
            if len(chosen) == len(entries):
                parts.append(replace(turn, entry=entry))
                continue
            items = chosen if turn.items is None else turn.items[chosen]
            parts.append(replace(turn, subjects=turn.subjects.restrict(chosen), items=items, entry=entry))
    return parts


def goes_by_null(step: AskStep) -> bool:
    """Whether it is said of a step's questions where to go without an answer."""
    return any(question.on_null is not None for question in step.questions)


def after_failures(
    step: AskStep, subjects: Subjects, found: Sequence[Found], lost: Sequence[Items]
) -> list[Round]:
    """What is still to be asked of items that failed: the order went on as if a NULL were a no."""
    if not lost or not goes_by_null(step):
        return []
    items = np.unique(np.concatenate(lost))
    states = np.stack([each.states[items] for each in found])
    patterns, which = np.unique(
        np.vstack([states, entries_of(step, subjects, items)]), axis=1, return_inverse=True
    )
    rounds = []
    for number, (*pattern, entry) in enumerate(patterns.T):
        chosen = items[which.ravel() == number]
        known = {n: bool(state == TRUE) for n, state in enumerate(pattern) if state not in (NOT_ASKED, NULL)}
        unanswered = frozenset(n for n, state in enumerate(pattern) if state == NULL)
        rounds.append(Round(subjects.restrict(chosen), chosen, unanswered, known, int(entry)))
    return rounds
