"""Random ordering problems, and the best order by trying all: shared by tests and benchmarks."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from random import Random

import numpy as np
from covey_planner.cost.work import Work
from covey_planner.ordering.costs import Costs
from covey_planner.ordering.problem import (
    Documents,
    Link,
    Predicate,
    Problem,
    Prompt,
    Relation,
    Share,
    Side,
)


def seconds(work: Work) -> float:
    """A device on which all units of work count, and none but what is held is free."""
    return work.fresh * 7e-6 + work.pairs * 6e-10 + work.read * 4e-8


def problem(
    random: Random, edges: list[tuple[int, int]], relations: int, filters: int = 0, links: float = 0.3
) -> Problem:
    """AI joins along the edges, some beside an ordinary join, and filters on random relations."""
    rows = [float(random.choice([5, 12, 40, 150, 600, 2_000, 5_000])) for _ in range(relations)]
    documents = tuple(
        Documents(
            n, max(1.0, count * random.choice([0.1, 0.7, 1, 1])), random.choice([4, 12, 60, 300, 2_000])
        )
        for n, count in enumerate(rows)
    )
    predicates: list[Predicate] = []
    found: list[Link] = []
    for left, right in edges:
        sides = []
        for anchor, partner in ((left, right), (right, left)):
            sides.append(
                Side(
                    anchor,
                    partner,
                    Prompt(30, 6, random.randint(5, 40), random.choice([1, 8]), (anchor, partner)),
                )
            )
        predicates.append(Predicate(tuple(sides), _share(random)))
        if random.random() < links:
            found.append(_link(random, left, right, rows))
    for _ in range(filters):
        on = random.randrange(relations)
        side = Side(on, None, Prompt(30, 6, random.randint(5, 40), 0, "filter"))
        predicates.append(Predicate((side,), _share(random), asks=random.choice([1.0, 1.0, 1.5])))
    random.shuffle(predicates)
    return Problem(
        tuple(Relation(f"r{n}", count) for n, count in enumerate(rows)),
        documents,
        tuple(predicates),
        tuple(found),
    )


def _share(random: Random) -> Share:
    return Share.sure(random.choice([0.01, 0.05, 0.2, 0.5, 0.9]))


def _link(random: Random, left: int, right: int, rows: list[float]) -> Link:
    sizes = rows[left], rows[right]
    if random.random() < 0.3:
        return Link.of(left, right, sizes, random.choice([0.001, 0.1, 0.5]))
    keys = (max(1.0, sizes[0] * random.choice([0.05, 1])), max(1.0, sizes[1] * random.choice([0.05, 1])))
    return Link.equal(left, right, sizes, keys, min(keys) * random.choice([0.5, 1]))


def star(relations: int) -> list[tuple[int, int]]:
    """The first relation with each other one."""
    return [(0, n) for n in range(1, relations)]


def chain(relations: int) -> list[tuple[int, int]]:
    """Each relation with the next."""
    return [(n, n + 1) for n in range(relations - 1)]


def clique(relations: int) -> list[tuple[int, int]]:
    """Each relation with each other one."""
    return list(combinations(range(relations), 2))


def cheapest(problem: Problem) -> float:
    """The seconds of the cheapest of all orders, from all sides: they add up, and depend on the set only."""
    costs = Costs(problem)
    price = np.array([7e-6, 6e-10, 4e-8, 0.0])
    count = len(problem.predicates)
    table = costs.of(np.arange(1 << count, dtype=np.int64)) @ price

    @cache
    def best(mask: int, group: int) -> float:
        if mask == (1 << count) - 1:
            return 0.0
        return min(
            table[mask, number, int(way.group == group)] + best(mask | 1 << way.predicate, way.group)
            for number, way in enumerate(costs.ways)
            if not mask >> way.predicate & 1
            and all(mask >> n & 1 for n in problem.predicates[way.predicate].after)
        )

    return float(best(0, -1))
