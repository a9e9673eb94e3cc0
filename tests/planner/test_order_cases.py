"""Problems that differ in shares only, compared all at once: as each of them by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from covey_planner.ordering.cases import Cases
from covey_planner.ordering.problem import Problem, Share
from covey_planner.ordering.search import order, work
from support.orders import chain, cheapest, clique, problem, seconds, star

Shape = Callable[[int], list[tuple[int, int]]]


def cases_of(shape: Shape, seed: int, effects: bool = False) -> list[Problem]:
    """Some problems that differ in shares, and in how many questions a tree takes."""
    random = Random(seed)
    relations = random.randint(2, 4)
    edges = shape(relations)
    first = problem(random, edges, relations, random.randint(1, 7 - len(edges)))
    if effects:
        first = replace(
            first,
            predicates=tuple(
                each
                if each.sides[0].partner is None
                else replace(
                    each,
                    effect=random.choice(["semi", "anti"]),
                    outer=first.documents[each.sides[0].anchor].relation,
                    sides=tuple(replace(side, early=True) for side in each.sides),
                )
                for each in first.predicates
            ),
        )
    first = replace(
        first, predicates=(*first.predicates[:-1], replace(first.predicates[-1], after=frozenset({0})))
    )

    def other() -> Problem:
        shares = [Share.sure(random.choice([0.0, 0.02, 0.3, 0.98])) for _ in first.predicates]
        changed = [
            replace(each, selectivity=share, asks=random.choice([1.0, 1.7]))
            for each, share in zip(first.predicates, shares, strict=True)
        ]
        return replace(first, predicates=tuple(changed))

    return [first, *(other() for _ in range(5))]


@pytest.mark.parametrize("effects", [False, True])
@pytest.mark.parametrize("shape", [star, chain, clique])
@pytest.mark.parametrize("seed", range(4))
def test_an_order_costs_in_each_case_what_it_costs_alone(shape: Shape, seed: int, effects: bool) -> None:
    problems = cases_of(shape, seed, effects)
    for ordered in (order(each, seconds) for each in problems[:3]):
        found = Cases(problems, seconds).work(ordered.choices)
        for one, each in zip(found, problems, strict=True):
            alone = work(each, ordered.choices)
            assert (one.fresh, one.pairs, one.read, one.held) == pytest.approx(
                (alone.fresh, alone.pairs, alone.read, alone.held)
            )


@pytest.mark.parametrize("effects", [False, True])
@pytest.mark.parametrize("shape", [star, chain, clique])
@pytest.mark.parametrize("seed", range(4))
def test_the_least_is_near_the_cheapest_of_all_orders(shape: Shape, seed: int, effects: bool) -> None:
    problems = cases_of(shape, seed, effects)
    cases = Cases(problems, seconds)
    found = cases.least(cases.work(order(problems[0], seconds).choices))
    for one, each in zip(found, problems, strict=True):
        least = cheapest(each)
        assert least * (1 - 1e-9) <= one <= 1.02 * least
