"""Problems that differ in shares only in, what a given order costs in each and what the best one does out.

All are searched at once, as `search` does one: level by level, with a narrow beam, of each set of applied predicates
and documents at hand the cheapest candidate only. So it takes as many steps as there are predicates, whatever the
number of problems.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from covey_planner.cost.work import Work
from covey_planner.ordering.costs import HELD, Costs
from covey_planner.ordering.estimate import Flags, Floats, Ints, Masks
from covey_planner.ordering.problem import Choice, Problem
from covey_planner.ordering.search import Seconds, slope

WIDTH = 12
"""States of a problem that are followed from one level to the next."""


@dataclass(frozen=True)
class _Level:
    """Candidates of all problems with equally many predicates applied.

    cases: whose they are; open: the group whose documents are there, -1 for none; work: [candidates, units].
    """

    cases: Ints
    masks: Masks
    open: Ints
    work: Floats

    def take(self, rows: Ints | Flags) -> _Level:
        """Some of them."""
        return _Level(self.cases[rows], self.masks[rows], self.open[rows], self.work[rows])


class Cases:
    """Problems by number. `seconds` grows with the work, in every unit."""

    def __init__(self, problems: Sequence[Problem], seconds: Seconds) -> None:
        self._seconds = seconds
        self._costs = Costs(*problems)
        self._size = len(problems)
        ways, predicates = self._costs.ways, problems[0].predicates
        self._predicate = np.array([way.predicate for way in ways])
        self._group = np.array([way.group for way in ways])
        self._bits = np.int64(1) << np.arange(len(predicates), dtype=np.int64)
        self._bit = self._bits[self._predicate]
        after = [sum(1 << n for n in predicates[way.predicate].after) for way in ways]
        self._after = np.array(after, np.int64)

    def work(self, choices: Sequence[Choice]) -> list[Work]:
        """What an order takes in each problem; of the choices, the predicates and their sides count."""
        numbers = {(way.predicate, way.side): number for number, way in enumerate(self._costs.ways)}
        ways = np.array([numbers[choice.predicate, choice.side] for choice in choices])
        before = np.append(0, np.bitwise_or.accumulate(self._bit[ways])[:-1])
        joined = np.append(False, self._group[ways][1:] == self._group[ways][:-1]).astype(np.int64)
        count = len(ways)
        costs = self._costs.of(np.tile(before, self._size), np.repeat(np.arange(self._size), count))
        steps = costs.reshape(self._size, count, *costs.shape[1:])[:, np.arange(count), ways, joined]
        total = steps.sum(axis=1)
        total[:, HELD] = steps[..., HELD].max(axis=1)
        return [Work(*row) for row in total.tolist()]

    def least(self, near: Sequence[Work]) -> list[float]:
        """The seconds of the best order in each problem, as far as a beam of `WIDTH` finds it. near: work of about as
        much, by which candidates are compared before they are whole.
        """
        weights = np.array([slope(self._seconds, work) for work in near])
        remaining = self._least_remaining(weights)
        none = np.zeros(self._size, np.int64)
        level = _Level(np.arange(self._size), none, none - 1, np.zeros((self._size, 4)))
        for _ in self._bits:
            level = self._next(level, weights, remaining)
        seconds = np.array([self._seconds(Work(*row)) for row in level.work.tolist()])
        found = np.full(self._size, np.inf)
        np.minimum.at(found, level.cases, seconds)
        least: list[float] = found.tolist()
        return least

    def _next(self, level: _Level, weights: Floats, remaining: Floats) -> _Level:
        """Every candidate with every predicate that may come next; of each set and group the cheapest, the most
        promising of each problem.
        """
        key = level.cases << len(self._bits) | level.masks
        _, first, where = np.unique(key, return_index=True, return_inverse=True)
        costs = self._costs.of(level.masks[first], level.cases[first])
        free = ((level.masks[:, None] & self._bit) == 0) & ((self._after & ~level.masks[:, None]) == 0)
        state, way = free.nonzero()
        added = costs[where[state], way, (level.open[state] == self._group[way]).astype(np.int64)]
        work = level.work[state] + added
        work[:, HELD] = np.maximum(level.work[state, HELD], added[:, HELD])
        masks = level.masks[state] | self._bit[way]
        found = _Level(level.cases[state], masks, self._group[way], work)
        value = (work * weights[found.cases]).sum(axis=1)
        rows = np.lexsort((value, found.open, masks, found.cases))
        same = [part[rows][1:] == part[rows][:-1] for part in (found.open, masks, found.cases)]
        rows = rows[np.append(True, ~np.logical_and.reduce(same))]
        left = (masks[rows, None] & self._bits) == 0
        bound = value[rows] + (left * remaining[found.cases[rows]]).sum(axis=1)
        rows = rows[np.lexsort((bound, found.cases[rows]))]
        cases = found.cases[rows]
        place = np.arange(len(rows)) - np.searchsorted(cases, cases)
        return found.take(rows[place < WIDTH])

    def _least_remaining(self, weights: Floats) -> Floats:
        """The least that each predicate may cost in each problem [cases, predicates]: all others hold, and its
        documents are there if any other's may be.
        """
        count = len(self._bits)
        others = int(self._bits.sum()) & ~self._bits
        costs = self._costs.of(np.tile(others, self._size), np.repeat(np.arange(self._size), count))
        value = (costs * np.repeat(weights, count, axis=0)[:, None, None, :]).sum(axis=3)
        value = value.reshape(self._size, count, len(self._bit), 2)[
            :, self._predicate, np.arange(len(self._bit))
        ]
        sharing = np.bincount(self._group)[self._group] > 1
        price = np.where(sharing, value.min(axis=2), value[..., 0])
        least = np.full((self._size, count), np.inf)
        for way, predicate in enumerate(self._predicate.tolist()):
            least[:, predicate] = np.minimum(least[:, predicate], price[:, way])
        return least
