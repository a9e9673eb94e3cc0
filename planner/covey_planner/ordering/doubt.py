"""Ordered blocks in; out, whether their order depends on shares that nobody knows well, and what answers to a sample
change. Never runs anything: how to ask a sample is for `lowering.sampling` to say.

A share that is in doubt may lie anywhere in a range. What it costs not to know it is the mean, over the ends of these
ranges, of what the given order costs more than the best one there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from covey_planner.call import Call
from covey_planner.cost.statistics import CallKey, Selectivity, call_key
from covey_planner.cost.work import Work
from covey_planner.logical import Ask, Block, Mixed, filters, leaves
from covey_planner.ordering.costing import Costing
from covey_planner.ordering.costs import Costs
from covey_planner.ordering.posing import Poser, Unit
from covey_planner.ordering.problem import Ordered, Problem, Side
from covey_planner.ordering.search import order, work

LEAST_ITEMS = 2_000
"""Texts or pairs of which a sample is asked at least: below, there is little to save."""

TEXTS, PAIRS, ANCHORS, PARTNERS = 256, 512, 16, 32
"""How many texts a sample has, and how many pairs, of how many anchors with how many partners of each."""

MATTERS = 0.01
"""The part of an order's cost that another one must save."""

_SURPLUS = 1.5
"""How much more a sample must be expected to save than it may cost."""

_TIMES = 12.0
"""A hint is suspected to be wrong by this factor."""
_SURELY = 0.02, 0.98
"""Between these a share lies of which nothing is known."""
_GRID = 4
"""Shares that are varied together; more of them one by one."""
_MOST = 12
"""Predicates of a block that is looked at: a larger one takes too long to order often."""
_WIDTH = 24
"""States that are followed where orders are compared."""

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

    def compare(self, shares: Shares) -> tuple[float, float]:
        """The cost of this order and of the best one, under some shares."""
        costing = replace(self.costing, assumed={**self.costing.assumed, **shares})
        poser = self.poser(costing)
        problem, _ = poser.pose(self.block)
        best = costing.seconds(order(problem, costing.seconds, _WIDTH).work)
        predicates = list(problem.predicates)
        for number, unit in enumerate(self.units):
            if unit.condition is not None and predicates[number].asks != 1.0:
                # The problem has the parts of a tree in their best order, not in the given one.
                predicates[number] = replace(predicates[number], asks=poser.odds(unit.condition).asks)
        given = costing.seconds(work(replace(problem, predicates=tuple(predicates)), self.found.choices))
        return given, min(best, given)


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

    def verdict(self, shares: Shares) -> Verdict:
        """Compare the given order with the best one, now that shares are known."""
        found = [posed.compare(shares) for posed in self.posed]
        return Verdict(sum(given for given, _ in found), sum(best for _, best in found))


def doubt(blocks: Iterable[Posed]) -> Doubt:
    """The questions whose shares are worth a sample."""
    keys: dict[CallKey, Selectivity] = {}
    posed = tuple(blocks)
    for each in posed:
        keys.update(_worth_asking(each))
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
    return [call for call in found if call.kind == "boolean"]


def range_of(share: Selectivity) -> tuple[float, float]:
    """Between which shares one may lie, for all that is known."""
    match share.source:
        case "hint":
            return max(share.value / _TIMES, 1e-3), min(share.value * _TIMES, _SURELY[1])
        case "default":
            return _SURELY
    return share.low, share.high


def _worth_asking(posed: Posed) -> dict[CallKey, Selectivity]:
    """A block's questions that are worth a sample: not knowing them costs more than asking it."""
    uncertain = _uncertain(posed) if len(posed.problem.predicates) <= _MOST else {}
    if not uncertain:
        return {}
    alone = {key: _loss(posed, [key], uncertain) for key in uncertain}
    keys = sorted(uncertain, key=lambda key: -alone[key])[:_GRID]
    least, best = MATTERS * posed.costing.seconds(posed.found.work), 0.0
    chosen: tuple[CallKey, ...] = ()
    for wanted in dict.fromkeys(_sets(posed, keys)):
        loss = alone[wanted[0]] if len(wanted) == 1 else _loss(posed, wanted, uncertain)
        surplus = loss - _SURPLUS * _price(posed, wanted)
        if loss > least and surplus > best:
            best, chosen = surplus, wanted
    return {key: uncertain[key] for key in chosen}


def _sets(posed: Posed, keys: Sequence[CallKey]) -> Iterator[tuple[CallKey, ...]]:
    """Which questions may be sampled together: all, those about texts (pairs are dear), those of each step."""
    found = [tuple(keys), tuple(key for key in keys if len(key.arguments) == 1)]
    for numbers in _steps(posed).values():
        own = {call_key(call) for number in numbers for call in calls_of(posed.units[number])}
        found.append(tuple(key for key in keys if key in own))
    return filter(None, found)


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
            if high - low > 0.02:
                found[call_key(call)] = share
    return found


def _loss(posed: Posed, keys: Sequence[CallKey], uncertain: Shares) -> float:
    """What it costs on average not to know some shares."""
    ends = [range_of(uncertain[key]) for key in keys]
    losses = []
    for values in product(*ends):
        shares = {key: replace(uncertain[key], value=value) for key, value in zip(keys, values, strict=True)}
        given, best = posed.compare(shares)
        losses.append(given - best)
    return sum(losses) / len(losses)


def _price(posed: Posed, keys: Iterable[CallKey]) -> float:
    """What samples cost at most beyond what is asked anyway."""
    left = Costs(posed.problem).left(np.zeros(1, np.int64))
    wanted, opening = set(keys), posed.found.choices[0]
    total = Work()
    for step, numbers in _steps(posed).items():
        calls = [call for number in numbers for call in calls_of(posed.units[number])]
        if wanted.isdisjoint(map(call_key, calls)):
            continue
        pairs = float(left.pairs[0, numbers[0]])
        total += _sample_work(posed.problem, step, len(calls), pairs, opening.predicate in numbers)
    return posed.costing.seconds(total)


def _sample_work(problem: Problem, side: Side, calls: int, pairs: float, opens: bool) -> Work:
    """Of one sample. pairs: all that there are; opens: the order begins with it, and one question is asked anyway."""
    documents, vain = problem.documents[side.anchor], calls - opens
    document = documents.tokens + side.prompt.document
    if side.partner is None:
        each = vain * side.prompt.question + (0.0 if opens else document)
        return Work(fresh=side.prompt.head + TEXTS * each)
    suffix = problem.documents[side.partner].tokens + side.prompt.pair
    partners = min(max(pairs / max(documents.distinct, 1.0), 1.0), PARTNERS)
    anchors = PAIRS / partners * (document + calls * side.prompt.question)
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
