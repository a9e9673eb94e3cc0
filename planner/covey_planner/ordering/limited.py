"""A problem whose last step ends once enough rows are found: all before it is asked in full, so it should be cheap."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from covey_planner.cost.work import Work
from covey_planner.ordering.problem import Choice, Ordered, Problem
from covey_planner.ordering.search import Seconds, order, work


def limited(problem: Problem, enough: int, seconds: Seconds, endings: Collection[int]) -> Ordered:
    """The cheapest order where the last step ends after so many matches. endings: predicates that a step which may end
    so can consist of; without any, the problem's own order.
    """
    needed = frozenset().union(
        *(each.after for each in problem.predicates if each.effect != "none"), frozenset()
    )
    found: list[tuple[float, Ordered]] = []
    for last in _steps(problem, [number for number in endings if number not in needed]):
        posed = _ending_with(problem, last)
        ordered = order(posed, seconds)
        choices = tuple(
            replace(choice, side=last.get(choice.predicate, choice.side)) for choice in ordered.choices
        )
        found.append((seconds(_work(problem, choices, last, enough)), replace(ordered, choices=choices)))
    if not found:
        return order(_as_it_stands(problem), seconds)
    return min(found, key=lambda each: each[0])[1]


def _steps(problem: Problem, endings: Sequence[int]) -> list[dict[int, int]]:
    """Predicates, with a side of each, that can be one step: those of the latest predicates first."""
    groups: dict[object, dict[int, int]] = {}
    for number in reversed(endings):
        for index, side in enumerate(problem.predicates[number].sides):
            groups.setdefault((side.anchor, side.partner, side.prompt.shared), {}).setdefault(number, index)
    return list(groups.values())


def _ending_with(problem: Problem, last: dict[int, int]) -> Problem:
    """The problem with some predicates, each from one side, behind all others."""
    rest = frozenset(
        number
        for number, each in enumerate(problem.predicates)
        if number not in last and each.effect != "none"
    )
    predicates = tuple(
        replace(each, sides=(each.sides[last[number]],), after=each.after | rest) if number in last else each
        for number, each in enumerate(problem.predicates)
    )
    return replace(problem, predicates=predicates)


def _work(problem: Problem, choices: Sequence[Choice], last: Collection[int], enough: int) -> Work:
    """All of it, of the last step the part after which enough is found."""
    places = [place for place, choice in enumerate(choices) if choice.predicate in last]
    before, whole = (work(problem, choices[:end]) for end in (places[0], places[-1] + 1))
    matches = choices[places[0]].pairs or choices[places[0]].documents
    for place in places:
        matches *= problem.predicates[choices[place].predicate].selectivity.value
    share = min(1.0, enough / matches) if matches else 1.0
    step = Work(whole.fresh - before.fresh, whole.pairs - before.pairs, whole.read - before.read, whole.held)
    return before + replace(step.scaled(share), held=step.held)


def _as_it_stands(problem: Problem) -> Problem:
    """The problem with its order given: only sides are left to choose."""
    predicates = (
        replace(predicate, after=frozenset(range(number)))
        for number, predicate in enumerate(problem.predicates)
    )
    return replace(problem, predicates=tuple(predicates))
