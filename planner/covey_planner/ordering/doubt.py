"""Ordered blocks in; out, whether their order depends on shares that nobody knows well, and what answers to a sample
change. Never runs anything: how to ask a sample is for `lowering.sampling` to say.

A share that is in doubt may lie anywhere in a range. What it costs not to know it is the mean, over the ends of these
ranges, of what the given order costs more than the best one there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from covey_planner.call import Call
from covey_planner.cost.statistics import CallKey, Selectivity, call_key
from covey_planner.cost.work import Work
from covey_planner.logical import Ask, Block, Mixed, Not, filters, leaves
from covey_planner.ordering.cases import WIDTH, Cases
from covey_planner.ordering.costing import Costing
from covey_planner.ordering.costs import Costs
from covey_planner.ordering.posing import Poser, Unit
from covey_planner.ordering.problem import Ordered, Predicate, Problem, Share, Side
from covey_planner.ordering.search import order

LEAST_ITEMS = 1_000
"""Texts or pairs of which a sample is asked at least: below, there is little to save."""

TEXTS, PAIRS, PARTNERS = 128, 256, 16
"""How many texts a sample has, and how many pairs, with how many partners of an anchor."""

MATTERS = 0.01
"""The part of an order's cost that another one must save."""

_TIMES = 12.0
"""A hint is suspected to be wrong by this factor."""
_SURELY = 0.02, 0.98
"""Between these a share lies of which nothing is known."""
_KEYS = 7
"""Shares of a block that may be in doubt."""
_FEW = 3
"""Shares of which parts are looked at too, where all together are not worth a sample."""
_MOST = 10
"""Predicates of a block that is looked at."""
_LEVELS = 40
"""Predicates of all searches for one statement, each of which goes through at most 2^3 problems at once: about half a
millisecond each on one core. Blocks that come when they are used up are not looked at.
"""
_SURE = 0.02
"""Shares whose ranges are no wider are known."""
Shares = Mapping[CallKey, Selectivity]


@dataclass(frozen=True)
class Posed:
    """An ordered block.

    poser: poses its problem for other shares; problem, units, found: as it was posed and ordered.
    """

    block: Block
    poser: Callable[[Costing], Poser]
    costing: Costing
    problem: Problem
    units: tuple[Unit, ...]
    found: Ordered

    def compare(self, several: Sequence[Shares]) -> list[tuple[float, float]]:
        """The cost of this order and of the best one, under several sets of shares."""
        seconds = self.costing.seconds
        given, best = zip(*map(self._problems, several), strict=True)
        cases = Cases(best, seconds)
        works = (cases if given == best else Cases(given, seconds)).work(self.found.choices)
        costs = map(seconds, works)
        return [(cost, min(least, cost)) for cost, least in zip(costs, cases.least(works), strict=True)]

    def knowing(self, shares: Shares) -> Posed:
        """The block in its best order under some shares."""
        problem = self._problems(shares)[1]
        found = order(problem, self.costing.seconds, WIDTH, 1)
        return replace(self, costing=replace(self.costing, assumed=shares), problem=problem, found=found)

    def keeping(self, shares: Shares) -> Posed:
        """The block in this order under some shares."""
        problem = self._problems(shares)[0]
        (work,) = Cases([problem], self.costing.seconds).work(self.found.choices)
        found = replace(self.found, work=work)
        return replace(self, costing=replace(self.costing, assumed=shares), problem=problem, found=found)

    def _problems(self, shares: Shares) -> tuple[Problem, Problem]:
        """The problem under some shares: with the parts of its boolean trees as they stand, and in their best order."""
        best = replace(
            self.problem, predicates=tuple(map(_with(shares), self.units, self.problem.predicates))
        )
        trees = [number for number, unit in enumerate(self.units) if len(calls_of(unit)) > 1]
        if not trees:
            return best, best
        poser = self.poser(replace(self.costing, assumed={**self.costing.assumed, **shares}))
        best, _ = poser.pose(self.block)
        predicates = list(best.predicates)
        for number in trees:
            condition = self.units[number].condition
            if condition is not None and predicates[number].asks != 1.0:
                predicates[number] = replace(predicates[number], asks=poser.odds(condition).asks)
        return replace(best, predicates=tuple(predicates)), best


@dataclass(frozen=True)
class Verdict:
    """What a sample changes: the predicted cost of the given order and of the best one, in seconds or in tokens."""

    given: float
    best: float

    @property
    def matters(self) -> bool:
        """Whether another order saves enough."""
        return self.given - self.best > MATTERS * self.given


@dataclass(frozen=True)
class Doubt:
    """Questions whose shares are to be found out first, with what was assumed of them."""

    keys: Mapping[CallKey, Selectivity] = field(default_factory=dict)
    posed: tuple[Posed, ...] = ()

    def news(self, shares: Shares) -> dict[CallKey, Selectivity]:
        """Of shares that a sample has shown, those of which more is not known from earlier answers."""
        known = {
            key
            for posed in self.posed
            for key in shares
            if posed.costing.statistics.selectivity(key).source == "remembered"
        }
        return {key: share for key, share in shares.items() if key in self.keys or key not in known}

    def further(self, shares: Shares) -> frozenset[CallKey]:
        """The questions that are worth another sample, now that these shares are known."""
        # What it costs not to know more is that of the order which would be run now.
        revised = self.verdict(shares).matters
        found = doubt(each.knowing(shares) if revised else each.keeping(shares) for each in self.posed).keys
        return frozenset(key for key in found if key not in shares)

    def verdict(self, shares: Shares) -> Verdict:
        """Compare the given order with the best one, now that shares are known."""
        found = [pair for posed in self.posed for pair in posed.compare([shares])]
        return Verdict(sum(given for given, _ in found), sum(best for _, best in found))


def doubt(blocks: Iterable[Posed]) -> Doubt:
    """The questions whose shares are worth a sample."""
    keys: dict[CallKey, Selectivity] = {}
    posed, levels = tuple(blocks), _LEVELS
    for each in posed:
        found, used = _worth_asking(each, levels)
        keys.update(found)
        levels -= used
    return Doubt(keys, posed if keys else ())


def calls_of(unit: Unit) -> list[Call]:
    """The calls of a predicate that are true or false."""
    if unit.condition is None:
        return []
    found: list[Call] = []
    for leaf in leaves(unit.condition):
        match leaf:
            case Ask(call):
                found.append(call)
            case Mixed(values=(), blocks=(block,)):
                asked = (part for condition in filters(block.plan)[1] for part in leaves(condition))
                found += [part.call for part in asked if isinstance(part, Ask)]
    return [call for call in found if call.is_condition]


def range_of(share: Selectivity) -> tuple[float, float]:
    """Between which shares one may lie, for all that is known."""
    match share.source:
        case "hint":
            return max(share.value / _TIMES, 1e-3), min(share.value * _TIMES, _SURELY[1])
        case "default":
            return _SURELY
    return share.low, share.high


def _worth_asking(posed: Posed, levels: int) -> tuple[dict[CallKey, Selectivity], int]:
    """A block's questions that are worth a sample now: not knowing them costs more than asking it. levels: how many may
    be used to find out; how many were.
    """
    each, used = len(posed.problem.predicates), 0
    uncertain = _uncertain(posed) if each <= _MOST else {}
    keys = tuple(uncertain)[:_KEYS]
    least = MATTERS * posed.costing.seconds(posed.found.work)
    # Those about texts, as pairs are dear and may not be worth it any more once these are known; then all together, or
    # of each step those that it asks.
    texts = tuple(key for key in keys if len(key.arguments) == 1)
    sets = [texts, keys, *(_by_step(posed, keys) if len(keys) <= _FEW else ())]
    for wanted in dict.fromkeys(filter(None, sets)):
        used += each
        if used > levels:
            return {}, levels
        if _loss(posed, wanted, uncertain) > max(least, _price(posed, wanted)):
            # What is asked first anyway costs next to nothing, and may leave nothing to ask about the others.
            first = next(filter(None, _by_step(posed, wanted)))
            return {key: uncertain[key] for key in first}, used
    return {}, used


def _by_step(posed: Posed, keys: Sequence[CallKey]) -> list[tuple[CallKey, ...]]:
    """The questions that one step can ask, of each step in the order at hand."""
    found = []
    for numbers in _steps(posed).values():
        own = {call_key(call) for number in numbers for call in calls_of(posed.units[number])}
        found.append(tuple(key for key in keys if key in own))
    return found


def _with(shares: Shares) -> Callable[[Unit, Predicate], Predicate]:
    """A predicate of one question, with its share."""

    def changed(unit: Unit, predicate: Predicate) -> Predicate:
        calls = calls_of(unit)
        share = shares.get(call_key(calls[0])) if len(calls) == 1 else None
        if share is None:
            return predicate
        found, condition = Share(share.value, share.low, share.high), unit.condition
        while isinstance(condition, Not):
            found = Share(1 - found.value, 1 - found.high, 1 - found.low)
            condition = condition.part
        return replace(predicate, selectivity=found)

    return changed


def _uncertain(posed: Posed) -> dict[CallKey, Selectivity]:
    """Questions whose shares are not known well, and of which there is much to ask."""
    left = Costs(posed.problem).left(np.zeros(1, np.int64))
    found: dict[CallKey, Selectivity] = {}
    for number, (unit, predicate) in enumerate(zip(posed.units, posed.problem.predicates, strict=True)):
        side = predicate.sides[0]
        items = left.documents[0, side.anchor] if side.partner is None else left.pairs[0, number]
        if items < LEAST_ITEMS:
            continue
        for call in calls_of(unit):
            share = posed.costing.selectivity(call)
            low, high = range_of(share)
            if high - low > _SURE and share.source != "sample":
                found[call_key(call)] = share
    return found


def _loss(posed: Posed, keys: Sequence[CallKey], uncertain: Shares) -> float:
    """What it costs on average not to know some shares: over ends of their ranges, chosen so that of any two shares all
    four combinations of ends come equally often (an orthogonal array).
    """
    ends = [range_of(uncertain[key]) for key in keys]
    runs = []
    for run in range(1 << len(keys).bit_length()):
        sides = [(run & number).bit_count() % 2 for number in range(1, len(keys) + 1)]
        shares = {
            key: replace(uncertain[key], value=end[side])
            for key, end, side in zip(keys, ends, sides, strict=True)
        }
        runs.append(shares)
    return sum(given - best for given, best in posed.compare(runs)) / len(runs)


def _price(posed: Posed, keys: Iterable[CallKey]) -> float:
    """What samples cost beyond what is asked anyway, as far as the order at hand asks it."""
    wanted, total = set(keys), Work()
    left = Costs(posed.problem).left(np.zeros(1, np.int64))
    places = {choice.predicate: choice for choice in posed.found.choices}
    for side, numbers in _steps(posed).items():
        calls = [call for number in numbers for call in calls_of(posed.units[number])]
        if wanted.isdisjoint(map(call_key, calls)):
            continue
        first = places[numbers[0]]
        every, still = float(left.documents[0, side.anchor]), first.documents
        pairs = float(left.pairs[0, first.predicate])
        if side.partner is not None:
            every, still = pairs, first.pairs
        gone = 1 - min(1.0, still / max(every, 1e-9))
        total += _sample_work(posed.problem, side, len(calls), pairs, gone)
    return posed.costing.seconds(total)


def _sample_work(problem: Problem, side: Side, calls: int, pairs: float, gone: float) -> Work:
    """What one sample asks in vain. pairs: all that there are; gone: the part of them, or of the texts, that the order
    at hand does not ask about; of the rest, one question is asked anyway.
    """
    documents, vain = problem.documents[side.anchor], gone * calls + (1 - gone) * (calls - 1)
    document = documents.tokens + side.prompt.document
    if side.partner is None:
        return Work(fresh=side.prompt.head + TEXTS * (gone * document + vain * side.prompt.question))
    suffix = problem.documents[side.partner].tokens + side.prompt.pair
    partners = max(pairs / max(documents.distinct, 1.0), 1.0)
    # An anchor that has more partners is computed again for the others.
    again = 1.0 if partners > PARTNERS else gone
    anchors = PAIRS / min(partners, PARTNERS) * again * (document + calls * side.prompt.question)
    return Work(fresh=side.prompt.head + anchors + PAIRS * vain * suffix)


def _steps(posed: Posed) -> dict[Side, list[int]]:
    """The predicates that one step can ask, by the side of the first of them."""
    found: dict[object, tuple[Side, list[int]]] = {}
    for choice in posed.found.choices:
        side = posed.problem.predicates[choice.predicate].sides[choice.side]
        found.setdefault((side.anchor, side.partner, side.prompt.shared), (side, []))[1].append(
            choice.predicate
        )
    return dict(found.values())
