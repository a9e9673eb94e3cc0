"""A boolean tree of questions in, the same tree out with what decides it for little asked first; numbers come by name.

A part of OR ends it where it is true, a part of AND where it is false. Parts that no other one's answer makes
cheaper are best asked by cost over the odds of ending it; equals stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from covey_planner.call import Call
from covey_planner.logical import All, Any, Ask, Condition, Not
from covey_planner.ordering.problem import Share


@dataclass(frozen=True)
class Odds:
    """Of a tree: the price of deciding it for one document, how many questions that takes, and how often it is true."""

    price: float
    asks: float
    true: Share


def shortest(
    condition: Condition, price: Callable[[Call], float], share: Callable[[Call], Share], keep: bool = False
) -> tuple[Condition, Odds]:
    """Order the parts of a tree that consists of calls only. keep: as they are; only the odds are wanted."""
    match condition:
        case Ask(call):
            return condition, Odds(price(call), 1.0, share(call))
        case Not(part):
            inner, odds = shortest(part, price, share, keep)
            return Not(inner), replace(odds, true=_not(odds.true))
        case All(parts) | Any(parts):
            wants = isinstance(condition, All)
            found = [shortest(part, price, share, keep) for part in parts]
            if not keep:
                found.sort(key=lambda each: _rank(each[1], wants))
            total, asks, reached = 0.0, 0.0, Share.sure(1.0)
            for _, odds in found:
                total, asks = total + odds.price * reached.value, asks + odds.asks * reached.value
                reached = _both(reached, odds.true if wants else _not(odds.true))
            ordered = tuple(part for part, _ in found)
            node = All(ordered) if wants else Any(ordered)
            return node, Odds(total, asks, reached if wants else _not(reached))
    raise AssertionError("a tree of calls only")


def _rank(odds: Odds, wants: bool) -> float:
    ends = 1 - odds.true.value if wants else odds.true.value
    return round(odds.price / max(ends, 1e-9), 9)


def _not(share: Share) -> Share:
    return Share(1 - share.value, 1 - share.high, 1 - share.low)


def _both(one: Share, other: Share) -> Share:
    return Share(one.value * other.value, one.low * other.low, one.high * other.high)
