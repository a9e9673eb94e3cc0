"""Sets of applied predicates in, the work of each way to ask a further one out; many sets at once."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from covey_planner.ordering.estimate import Estimator, Floats, Ints, Left, Masks
from covey_planner.ordering.problem import Problem, Side

FRESH, PAIRS, READ, HELD = range(4)
"""The units of work, as in cost.work."""

_AT_ONCE = 256
"""Sets of all cases of a problem that are reckoned together, before they are asked for: as dear as two or three."""


@dataclass(frozen=True)
class Way:
    """A predicate asked from one of its sides. group: the number of the step that it can be a part of."""

    predicate: int
    side: int
    group: int


class Costs:
    """The work of every way to ask every predicate: linear in the anchors and the pairs, but for what is held.

    others: problems that differ in their predicates' shares, and in what trees of questions take, only: cases, of which
    `problem` is the first.
    """

    def __init__(self, problem: Problem, *others: Problem) -> None:
        self._estimator = Estimator(problem, *others)
        self._chunk = problem.chunk
        # Of a small problem all sets are reckoned at once; 0 where there are too many.
        sets, size = 1 << len(problem.predicates), 1 + len(others)
        self._sets, self._size = (sets if sets * size <= _AT_ONCE else 0), size
        groups: dict[Hashable, int] = {}
        self.ways: list[Way] = []
        sides: list[Side] = []
        for number, predicate in enumerate(problem.predicates):
            for index, side in enumerate(predicate.sides):
                key = (side.anchor, side.partner, side.prompt.shared)
                self.ways.append(Way(number, index, groups.setdefault(key, len(groups))))
                sides.append(side)
        self._anchor = np.array([side.anchor for side in sides])
        self._predicate = np.array([way.predicate for way in self.ways])
        self._joins = np.array([side.partner is not None for side in sides])
        self._early = [number for number, side in enumerate(sides) if side.early]
        # [cases, ways, joined, unit]: of a step, of each of its anchors and of each of its pairs; what an anchor holds.
        shape = (1 + len(others), len(sides), 2)
        self._once, self._each, self._pair = (np.zeros((*shape, 4)) for _ in range(3))
        self._kept = np.zeros(shape)
        for case, each in enumerate((problem, *others)):
            for number, (way, side) in enumerate(zip(self.ways, sides, strict=True)):
                self._fill((case, number), side, problem, each.predicates[way.predicate].asks)

    def left(self, masks: Masks, cases: Ints | int = 0) -> Left:
        """Documents and pairs left of each set."""
        if not self._sets:
            return self._estimator.left(masks, cases)
        places, every = cases * self._sets + masks, self._all_left
        return Left(every.documents[places], every.pairs[places])

    def of(self, masks: Masks, cases: Ints | int = 0) -> Floats:
        """Work [sets, ways, joined, unit]: joined is 1 where the documents are there from the step's last question.

        cases: of each set, whose shares hold.
        """
        if not self._sets:
            return self._work(self._estimator.left(masks, cases), cases)
        found: Floats = self._all_work[cases * self._sets + masks]
        return found

    @cached_property
    def _all_left(self) -> Left:
        sets = np.tile(np.arange(self._sets, dtype=np.int64), self._size)
        return self._estimator.left(sets, self._cases)

    @cached_property
    def _all_work(self) -> Floats:
        return self._work(self._all_left, self._cases)

    @property
    def _cases(self) -> Ints:
        return np.repeat(np.arange(self._size, dtype=np.int64), self._sets)

    def _work(self, left: Left, cases: Ints | int) -> Floats:
        anchors, pairs = left.documents[:, self._anchor], left.pairs[:, self._predicate]
        # An anchor that is asked is in a pair: where less than one partner is to be expected, often none is.
        anchors[:, self._joins] = np.minimum(anchors, pairs)[:, self._joins]
        for way in self._early:
            true = self._estimator.true[cases, self._predicate[way]]
            pairs[:, way] = _until_first(anchors[:, way], pairs[:, way], true)
        anchors, pairs = anchors[:, :, None], pairs[:, :, None]
        each, pair = anchors[..., None] * self._each[cases], pairs[..., None] * self._pair[cases]
        found: Floats = self._once[cases] + each + pair
        found[..., HELD] += np.minimum(anchors * self._kept[cases], 2 * self._chunk)
        return found

    def _fill(self, number: tuple[int, int], side: Side, problem: Problem, asks: float) -> None:
        """The documents, then what each question adds to them."""
        prompt, text = side.prompt, problem.documents[side.anchor].tokens
        shared = 0.0 if prompt.again else text + prompt.document
        question = prompt.question + (text if prompt.again else 0.0)
        before = prompt.head + shared
        once, each, pair = self._once[number], self._each[number], self._pair[number]
        once[:, HELD] = prompt.head
        once[0, FRESH], once[0, PAIRS] = prompt.head, _area(0.0, prompt.head)
        each[0, FRESH], each[0, PAIRS], each[0, READ] = shared, _area(prompt.head, shared), prompt.head
        each[:, FRESH] += asks * question
        each[:, PAIRS] += asks * _area(before, question)
        each[0, READ] += (asks - 1) * before
        each[1, READ] += asks * before
        self._kept[number] = shared
        if side.partner is None:
            self._kept[number][0] = shared if asks > 1 else 0.0
            return
        suffix = problem.documents[side.partner].tokens + prompt.pair
        each[:, READ] += asks * (before + question)
        pair[:, FRESH], pair[:, PAIRS] = asks * suffix, asks * _area(before + question, suffix)


def _area(before: float, tokens: float) -> float:
    """Query-key pairs of so many tokens behind others."""
    return tokens * before + tokens * (tokens + 1) / 2


def _until_first(anchors: Floats, pairs: Floats, true: Floats) -> Floats:
    """Pairs asked where an anchor's first match settles it, in waves that grow: about a third is asked in vain."""
    each = pairs / np.maximum(anchors, 1e-12)
    tries = -np.expm1(each * np.log1p(-np.minimum(true, 1 - 1e-12))) / np.maximum(true, 1e-12)
    found: Floats = anchors * np.minimum(each, 1.33 * tries)
    return found
