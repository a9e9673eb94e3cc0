"""A problem and a price in, the cheapest order out: dynamic programming over sets of applied predicates.

A state is the set of applied predicates and whose documents are resident; of each, the candidates that no other one
dominates in all units of work are kept. Level by level, states that cannot become cheaper than a plan known already
are dropped, and beyond a width the least promising ones. What remains of a state costs at least what each remaining
predicate costs when all others hold, so nothing better is lost while the width is not reached. No shape of join tree
is left out: bushy ones are orders too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from covey_planner.cost.work import Work
from covey_planner.ordering.costs import FRESH, HELD, Costs
from covey_planner.ordering.estimate import Floats, Masks
from covey_planner.ordering.problem import Choice, Ordered, Problem

Seconds = Callable[[Work], float]
"""What work costs on a device."""
Ints = NDArray[np.int64]

MOST = 60
"""Predicates of a problem."""
_CANDIDATES = 6_000
"""Of a level, before any is dropped; with a predicate's ways they bound its states."""
_FRONTIER = 4
"""Candidates of a state."""
_EQUAL = 1e-7
"""Relative difference of plans between which the given order decides."""


@dataclass(frozen=True)
class _Level:
    """Candidates with equally many predicates applied.

    open: the group whose documents are there, -1 for none; work: [candidates, units]; moved: how often a predicate
    came before one that stands in front of it; parent: in the level before; way: the last one taken.
    """

    masks: Masks
    open: Ints
    work: Floats
    moved: Ints
    parent: Ints
    way: Ints

    def take(self, rows: Ints) -> _Level:
        """Some of them."""
        return _Level(
            self.masks[rows],
            self.open[rows],
            self.work[rows],
            self.moved[rows],
            self.parent[rows],
            self.way[rows],
        )


def order(problem: Problem, seconds: Seconds, width: int | None = None, frontier: int = _FRONTIER) -> Ordered:
    """The order and sides that take the fewest seconds. `seconds` grows with the work, in every unit.

    width: states that are followed from one level to the next, as many as 200 ms allow by default.
    """
    assert len(problem.predicates) <= MOST, "bits of a set"
    if not problem.predicates:
        return Ordered(())
    return _Search(problem, seconds, width, frontier).run()


def work(problem: Problem, choices: Sequence[Choice]) -> Work:
    """What a given order costs; of the choices, the predicates and their sides count. For comparing an order that is
    under way with others, once more is known of the problem.
    """
    costs = Costs(problem)
    ways = {(way.predicate, way.side): number for number, way in enumerate(costs.ways)}
    mask, group, total = 0, -1, Work()
    for choice in choices:
        way = ways[choice.predicate, choice.side]
        joined = int(costs.ways[way].group == group)
        total += _work(costs.of(np.array([mask], np.int64))[0, way, joined])
        mask, group = mask | 1 << choice.predicate, costs.ways[way].group
    return total


class _Search:
    def __init__(self, problem: Problem, seconds: Seconds, width: int | None, frontier: int) -> None:
        self._seconds, self._frontier = seconds, frontier
        self._problem = problem
        self._costs = Costs(problem)
        self._count = len(problem.predicates)
        ways = self._costs.ways
        self._width = width or min(384, max(64, _CANDIDATES // len(ways)))
        self._predicate = np.array([way.predicate for way in ways])
        self._group = np.array([way.group for way in ways])
        self._bit = np.int64(1) << self._predicate.astype(np.int64)
        after = [sum(1 << n for n in problem.predicates[way.predicate].after) for way in ways]
        self._after = np.array(after, np.int64)
        self._all = np.int64((1 << self._count) - 1)
        self._weights = np.array([1.0, 0.0, 0.0, 0.0])
        self._complete = True

    def run(self) -> Ordered:
        written = self._written()
        self._weights = slope(self._seconds, _work(written))
        self._remaining = self._least_remaining()
        best = min(self._value(written), self._value(self._greedy().work)[0])
        levels = [self._start()]
        for _ in range(self._count):
            levels.append(self._next(levels[-1], float(best)))
        return self._read(levels)

    def _written(self) -> Floats:
        """The work of the given order; what must come before a predicate stands before it."""
        ways = [int((self._predicate == number).argmax()) for number in range(self._count)]
        before = (np.int64(1) << np.arange(self._count, dtype=np.int64)) - 1
        groups = self._group[ways]
        joined = np.append(False, groups[1:] == groups[:-1]).astype(np.int64)
        steps = self._costs.of(before)[np.arange(self._count), ways, joined]
        work: Floats = steps.sum(axis=0)
        work[HELD] = steps[:, HELD].max()
        return work

    def _start(self) -> _Level:
        none = np.zeros(1, np.int64)
        return _Level(none, none - 1, np.zeros((1, 4)), none, none - 1, none - 1)

    def _next(self, level: _Level, best: float) -> _Level:
        found = self._expand(level)
        value = self._value(found.work)
        bound = value + self._bound(found.masks)
        keep = (bound <= best * (1 + _EQUAL)).nonzero()[0]
        if len(keep) == 0:
            keep = np.array([bound.argmin()])
        found, value, bound = found.take(keep), value[keep], bound[keep]
        kept = self._undominated(found, value)
        if len(kept) > self._width:
            self._complete = False
            kept = kept[np.argsort(bound[kept], kind="stable")[: self._width]]
        return found.take(kept)

    def _expand(self, level: _Level) -> _Level:
        """Every candidate with every predicate that may come next, from every side."""
        masks, where = np.unique(level.masks, return_inverse=True)
        costs = self._costs.of(masks)
        free = ((level.masks[:, None] & self._bit) == 0) & ((self._after & ~level.masks[:, None]) == 0)
        state, way = free.nonzero()
        joined = (level.open[state] == self._group[way]).astype(np.int64)
        added = costs[where[state], way, joined]
        work = level.work[state] + added
        work[:, HELD] = np.maximum(level.work[state, HELD], added[:, HELD])
        earlier = ~level.masks[state] & (self._bit[way] - 1)
        moved = level.moved[state] + _count(earlier)
        return _Level(level.masks[state] | self._bit[way], self._group[way], work, moved, state, way)

    def _undominated(self, level: _Level, value: Floats) -> Ints:
        """Of each set and group the candidates that no other one dominates, the cheapest first; some at most."""
        scale = max(float(value.max(initial=0.0)), 1e-300)
        rounded = np.round(value / scale / _EQUAL)
        # The first way of a predicate comes first among equals.
        rest = np.lexsort((level.way, level.moved, rounded, level.open, level.masks))
        kept: list[Ints] = []
        for _ in range(self._frontier):
            if len(rest) == 0:
                break
            masks, groups = level.masks[rest], level.open[rest]
            new = np.ones(len(rest), np.bool_)
            new[1:] = (masks[1:] != masks[:-1]) | (groups[1:] != groups[:-1])
            kept.append(rest[new])
            leader = rest[new][np.cumsum(new) - 1]
            worse = (level.work[leader] <= level.work[rest] * (1 + _EQUAL)).all(axis=1)
            rest = rest[~worse]
        return np.concatenate(kept)

    def _value(self, work: Floats) -> Floats:
        value: Floats = work @ self._weights
        return value

    def _bound(self, masks: Masks) -> Floats:
        """What is still to come at least."""
        left = (masks[:, None] & (np.int64(1) << np.arange(self._count, dtype=np.int64))) == 0
        found: Floats = left @ self._remaining
        return found

    def _least_remaining(self) -> Floats:
        """The least that each predicate may cost: all others hold, and its documents are there if any other's may be.

        What others hold can only shrink it; of predicates that must come before, they are among the others anyway.
        """
        sharing = np.bincount(self._group)[self._group] > 1
        least = np.full(self._count, np.inf)
        others = self._all & ~self._bit
        masks, where = np.unique(others, return_inverse=True)
        costs = self._value(self._costs.of(masks).reshape(-1, 4)).reshape(len(masks), len(self._bit), 2)
        for way, predicate in enumerate(self._predicate.tolist()):
            price = costs[where[way], way]
            least[predicate] = min(least[predicate], price.min() if sharing[way] else price[0])
        return least

    def _greedy(self) -> _Level:
        """A plan: always the next predicate that costs the least for what it sorts out."""
        level = self._start()
        shares = np.array([_leaves(self._problem, number) for number in self._predicate.tolist()])
        for _ in range(self._count):
            found = self._expand(level)
            price = self._value(found.work - level.work[found.parent])
            rank = price / np.maximum(1 - shares[found.way], 1e-9)
            level = found.take(np.array([rank.argmin()]))
        return level

    def _read(self, levels: Sequence[_Level]) -> Ordered:
        """The best of the last level, from its end."""
        last = levels[-1]
        seconds = np.array([self._seconds(_work(row)) for row in last.work])
        good = seconds <= seconds.min() * (1 + _EQUAL)
        at = int(np.lexsort((last.way, last.moved, ~good))[0])
        ways: list[int] = []
        work = last.work[at]
        for level in reversed(levels[1:]):
            ways.append(int(level.way[at]))
            at = int(level.parent[at])
        return Ordered(tuple(self._choices(ways[::-1])), _work(work), self._complete)

    def _choices(self, ways: Sequence[int]) -> list[Choice]:
        bits = self._bit[list(ways)]
        left = self._costs.left(np.concatenate([np.zeros(1, np.int64), np.bitwise_or.accumulate(bits)[:-1]]))
        groups = [-1, *(self._costs.ways[way].group for way in ways)]
        found = []
        for place, number in enumerate(ways):
            way = self._costs.ways[number]
            side = self._problem.predicates[way.predicate].sides[way.side]
            documents = float(left.documents[place, side.anchor])
            pairs = float(left.pairs[place, way.predicate])
            found.append(Choice(way.predicate, way.side, groups[place] == way.group, documents, pairs))
        return found


def _leaves(problem: Problem, number: int) -> float:
    predicate = problem.predicates[number]
    value = predicate.selectivity.value
    return 1.0 if predicate.effect == "none" else 1 - value if predicate.effect == "anti" else value


def slope(seconds: Seconds, work: Work) -> Floats:
    """What each unit costs near some work: a price by which candidates are compared before they are whole."""
    base, slopes = seconds(work), []
    for unit in ("fresh", "pairs", "read", "held"):
        step = max(getattr(work, unit), 1.0) * 0.5
        more = replace(work, **{unit: getattr(work, unit) + step})
        slopes.append(max(0.0, (seconds(more) - base) / step))
    prices = np.array(slopes)
    # A device bound by something else entirely still prefers less of it all.
    least: Floats = prices + 1e-6 * max(prices.max(), 1e-12) * np.array([1.0, 1e-6, 1e-6, 0.0])
    return least


def _work(row: Floats) -> Work:
    return Work(*row.tolist())


def _count(values: Masks) -> Ints:
    """The bits of each."""
    found: Ints = np.bitwise_count(values).astype(np.int64)
    return found


assert (FRESH, HELD) == (0, 3)
