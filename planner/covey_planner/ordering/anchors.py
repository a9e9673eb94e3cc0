"""A step about pairs and what is left of its sides, counted, in; from which side it costs less out. Asks nothing.

An order is found with how many texts are expected to be left, and with the mean tokens of all that there are. When a
step begins, those that are left are known with their tokens: what it costs from either side is computed, not estimated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from covey_planner.cost.prompted import Prompted
from covey_planner.cost.reach import reach
from covey_planner.cost.segments import Side
from covey_planner.cost.statistics import Lengths, Selectivity
from covey_planner.ordering.costing import Costing
from covey_planner.physical import AskStep, Question

_EQUAL = 1e-7
"""Relative difference of costs between which the planned side decides."""

Ints = NDArray[np.integer]


@dataclass(frozen=True)
class Left:
    """A side as it is left. lengths: tokens of each argument's texts, by row; pairs: how many each row is in."""

    lengths: tuple[Ints, ...]
    pairs: Ints

    def as_anchors(self) -> Side:
        """The rows that are in a pair."""
        busy = self.pairs > 0
        return _side(self.lengths, busy.astype(np.float64), int(busy.sum()))

    def as_partners(self) -> Side:
        """The rows, with their texts as often as they are in a pair."""
        return _side(self.lengths, self.pairs.astype(np.float64), int((self.pairs > 0).sum()))


@dataclass(frozen=True)
class Weighed:
    """What a step costs from the planned side and from the other, in seconds or in tokens."""

    planned: float
    other: float

    @property
    def exchanged(self) -> bool:
        """Whether the other side is the better anchor."""
        return self.other < self.planned * (1 - _EQUAL)


@dataclass(frozen=True)
class Anchors:
    """Weighs the sides of the steps of one plan."""

    costing: Costing

    @cached_property
    def _prompted(self) -> Prompted:
        return Prompted(self.costing.encode)

    def weigh(self, step: AskStep, anchors: Left, partners: Left, known: float = 0.0) -> Weighed | None:
        """Compare the sides; None where the step leaves no choice. known: the part of the pairs that need not be asked
        from the planned side any more.
        """
        if step.other is None or step.partners is None:
            return None
        planned = self._seconds(step, anchors, partners, 1.0 - known)
        return Weighed(planned, self._seconds(exchanged(step), partners, anchors, 1.0))

    def _seconds(self, step: AskStep, anchors: Left, partners: Left, part: float) -> float:
        shares, _ = reach(step.questions, [self._likely(question) for question in step.questions])
        sides = anchors.as_anchors(), partners.as_partners()
        tree = self._prompted.tree(step, sides, float(anchors.pairs.sum()), sides[0].count, shares)
        return self.costing.seconds(tree.work(self.costing.chunk_tokens).scaled(part))

    def _likely(self, question: Question) -> Selectivity | None:
        if question.kind != "boolean" or question.key is None:
            return None
        assumed = self.costing.assumed.get(question.key)
        return assumed or self.costing.statistics.selectivity(question.key, question.hint)


def exchanged(step: AskStep) -> AskStep:
    """The step with its partners as the anchors."""
    assert step.other is not None, "the plan pins the anchor"
    assert step.partners is not None, "a question about pairs"
    ours, theirs = len(step.anchors.arguments), len(step.partners.arguments)
    columns = [f"p{n} AS a{n}" for n in range(theirs)] + [f"a{n} AS p{n}" for n in range(ours)]
    return replace(
        step,
        prefix=step.other.prefix,
        questions=tuple(
            replace(question, suffix=suffix)
            for question, suffix in zip(step.questions, step.other.suffixes, strict=True)
        ),
        anchors=step.partners,
        partners=step.anchors,
        pairs=None if step.pairs is None else f"SELECT {', '.join(columns)} FROM ({step.pairs}) AS __covey_e",
        pairs_given=None,
        other=None,
        exchanged=True,
    )


def _side(lengths: tuple[Ints, ...], times: NDArray[np.float64], count: int) -> Side:
    total = float(times.sum())
    each = (argument.astype(np.float64) for argument in lengths)
    sums = [(float(times @ tokens), float(times @ tokens**2)) for tokens in each]
    return Side(
        float(count), True, tuple(Lengths(total, sum_, squares, exact=True) for sum_, squares in sums)
    )
