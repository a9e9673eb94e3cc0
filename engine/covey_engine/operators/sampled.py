"""What was found for a sample goes in, how often each question is true comes out, with its uncertainty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from covey_planner.cost.shares import share_of
from covey_planner.cost.statistics import Selectivity
from covey_planner.physical import AskStep, CallKey
from numpy.typing import NDArray

from covey_engine.operators.answers import FALSE, TRUE, Found
from covey_engine.operators.subjects import Subjects

if TYPE_CHECKING:
    from covey_planner.ordering.doubt import Verdict
    from covey_planner.plan import Planned

LEAST = 20
"""Answers below which nothing is concluded from them."""

Shares = Mapping[CallKey, Selectivity]


@dataclass(frozen=True)
class Sampled:
    """What a statement's samples have brought.

    shares: of the questions; verdict: the costs of the plan's order and of the best one by them; revised: the plan that
    took the first one's place, None where that was kept.
    """

    shares: Shares = field(default_factory=dict)
    verdict: Verdict | None = None
    revised: Planned | None = None


def shares(step: AskStep, subjects: Subjects, found: Sequence[Found]) -> dict[CallKey, Selectivity]:
    """The shares of true answers to the yes/no questions of a sample that has enough of them."""
    known: dict[CallKey, Selectivity] = {}
    for question, answers in zip(step.questions, found, strict=True):
        items = np.flatnonzero((answers.states == TRUE) | (answers.states == FALSE))
        if question.key is None or not question.is_condition or len(items) < LEAST:
            continue
        true = answers.states[items] == TRUE
        alike = 1.0
        if subjects.partners is not None:
            sides = subjects.anchor_rows(items), subjects.partner_rows(items)
            alike = max(_alike(true, rows) for rows in sides)
        known[question.key] = share_of(len(items), int(true.sum()), "sample", alike)
    return known


def _alike(true: NDArray[np.bool_], rows: NDArray[np.integer]) -> float:
    """How many answers are worth one, as those about the same text tend to be equal: by how much the texts' shares
    differ more than they would by chance.
    """
    _, which, counts = np.unique(rows, return_inverse=True, return_counts=True)
    mean, each = float(true.mean()), np.bincount(which, true) / counts
    chance = mean * (1 - mean) * len(counts) / len(true)
    if len(counts) < 2 or not chance:
        return 1.0
    spread = float((counts * (each - mean) ** 2).sum()) / len(true) * len(counts) / (len(counts) - 1)
    return min(max(1.0, spread / chance), len(true) / len(counts))
