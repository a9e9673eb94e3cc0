"""Orders of a block that want a question asked from two sides in, the cheapest one that asks it from one side out.

A prompt depends on its anchor, so calls that ask alike have one side between them. Which one that is, is not for the
call that happens to come first: what one side saves one call may cost the other more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from covey_planner.call import Call
from covey_planner.logical import Ask, leaves
from covey_planner.ordering.posing import Unit
from covey_planner.ordering.problem import Ordered, Problem
from covey_planner.ordering.search import Seconds
from covey_planner.ordering.sides import Sides

_TRIED = 2
"""Questions of which every wanted side is tried; of further ones the call that comes first decides."""


@dataclass(frozen=True)
class Attempt:
    """A block's problem with the sides that were decided when it was posed, and its cheapest order."""

    decided: Sides
    problem: Problem
    units: tuple[Unit, ...]
    found: Ordered


def agree(attempt: Callable[[Sides], Attempt], decided: Sides, seconds: Seconds) -> tuple[Attempt, Sides]:
    """The cheapest attempt of which all calls that ask alike are asked from one side, and the sides it has chosen."""
    return min(_agreed(attempt, decided, _TRIED), key=lambda each: seconds(each[0].found.work))


def _agreed(
    attempt: Callable[[Sides], Attempt], decided: Sides, tried: int
) -> Iterator[tuple[Attempt, Sides]]:
    """Attempts without a question that is wanted from two sides, what the first calls want first."""
    first = attempt(decided)
    wanted = tuple(_wanted(first.units, first.found))
    chosen = decided.copy()
    contested = [call for call, relation in wanted if not chosen.choose(call, relation)]
    if not contested:
        yield first, chosen
    elif not tried:
        yield from _agreed(attempt, chosen, tried)
    else:
        for number in dict.fromkeys(
            Sides.number(*wish) for wish in wanted if Sides.alike(wish[0], contested[0])
        ):
            fixed = decided.copy()
            fixed.fix(contested[0], number)
            yield from _agreed(attempt, fixed, tried - 1)


def _wanted(units: Sequence[Unit], found: Ordered) -> Iterator[tuple[Call, str]]:
    """Each call that may be asked from several sides, with a relation of the one that an order has chosen."""
    for choice in found.choices:
        unit = units[choice.predicate]
        if unit.call is not None and len(unit.calls) > 1:
            chosen = unit.calls[choice.side]
            anchors = frozenset().union(*(chosen.arguments[n].relations for n in chosen.sides[0]))
            yield unit.call, min(anchors)
        if unit.anchors and unit.condition is not None:
            for call in (leaf.call for leaf in leaves(unit.condition) if isinstance(leaf, Ask)):
                yield call, unit.anchors[choice.side]
