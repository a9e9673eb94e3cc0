"""The check of the law of conservation finds each way in which tree, arena and claims may contradict each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from covey_engine.prefill.scheduling.conservation import check
from covey_engine.prefill.scheduling.kinds import Kind
from covey_engine.prefill.scheduling.tree import Tree
from support.bench import Bench, chain, join, scan
from support.lawful import tree_of


def running() -> tuple[Tree, dict[int, Kind]]:
    """A tree in the middle of some orders: nodes that are held, that others want, parents and children."""
    bench = Bench(arena=4_000, chunk=100)
    for order in (chain(300), scan(300, 3, "other"), join(40, 30)):
        bench.submit(order)
    for _ in range(6):
        bench.step()
    bench.schedule()
    tree, kinds = tree_of(bench.scheduler)
    assert len(tree.claimants) > 3
    assert len(used(tree)) > 5
    check(tree, kinds)
    return tree, kinds


def used(tree: Tree) -> list[int]:
    return [int(node) for node in tree.used()]


def held(tree: Tree) -> int:
    return next(node for node in used(tree) if tree.holds[node] > 0)


def promised(tree: Tree) -> int:
    return next(node for node, some in tree.claimants.items() if any(c.wants_one(group) for c, group in some))


def above(tree: Tree) -> int:
    return next(node for node in used(tree) if tree.children[node] > 0)


def text(tree: Tree) -> int:
    """A node that is promised by its own slot."""
    for node, some in tree.claimants.items():
        if any(claim.wants_one(group) and claim.groups.count > 1 for claim, group in some):
            return node
    raise AssertionError("no text is promised")


def add(array: str, which: Callable[[Tree], int], amount: int) -> Callable[[Tree], None]:
    def corrupt(tree: Tree) -> None:
        getattr(tree, array)[which(tree)] += amount

    return corrupt


def put(array: str, which: Callable[[Tree], int], value: Callable[[Tree], int]) -> Callable[[Tree], None]:
    def corrupt(tree: Tree) -> None:
        getattr(tree, array)[which(tree)] = value(tree)

    return corrupt


def lose_promise(tree: Tree) -> None:
    node = promised(tree)
    del tree.claimants[node]
    tree.claimed[node] = False


def promise_twice(tree: Tree) -> None:
    tree.claimants[promised(tree)] *= 2


def move(tree: Tree) -> None:
    leaf, other = (node for node in used(tree)[-2:])
    assert tree.children[leaf] == tree.children[other] == 0
    tree.parent[leaf] = other


def promise_another_group(tree: Tree) -> None:
    node = text(tree)
    claim, group = next((c, g) for c, g in tree.claimants[node] if c.wants_one(g) and c.groups.count > 1)
    others = [other for other in range(claim.groups.count) if other != group and claim.wants_one(other)]
    tree.claimants[node] = [(claim, others[0])]


def promise_what_is_not_there(tree: Tree) -> None:
    tree.claimants[int(tree.numbers[0])] = []
    tree.claimed[tree.numbers[0]] = True


def lose_number(tree: Tree) -> None:
    tree.spare -= 1


def lose_space(tree: Tree) -> None:
    assert tree.arena.allocate(np.array([7]))[0] >= 0


def miscount_space(tree: Tree) -> None:
    tree.arena.free -= 1


def swap_spaces(tree: Tree) -> None:
    lengths = {int(tree.length[node]): node for node in used(tree)}
    (_, one), (_, other) = sorted(lengths.items())[:2]
    tree.length[one], tree.length[other] = tree.length[other], tree.length[one]


CORRUPT: dict[str, tuple[Callable[[Tree], None], str]] = {
    "a range begins a token later": (add("address", held, 1), "overlap"),
    "a range is a token longer": (add("length", held, 1), "resident"),
    "two ranges have each other's lengths": (swap_spaces, "overlap"),
    "addresses belong to nobody": (lose_space, "resident"),
    "free addresses are miscounted": (miscount_space, "are free"),
    "a node has a child too many": (add("children", above, 1), "children"),
    "a node has a child too few": (add("children", above, -1), "children"),
    "a node is under another": (move, "children"),
    "a parent is free": (
        put("holds", lambda tree: int(tree.parent[text(tree)]), lambda tree: -1),
        "promised|free",
    ),
    "more answers are due than items hold": (
        put("waiting", held, lambda tree: int(tree.holds[held(tree)]) + 1),
        "fewer items",
    ),
    "a node is kept for nobody": (lose_promise, "promised|nobody"),
    "a promise is made twice": (promise_twice, "twice"),
    "a promise is another group's": (promise_another_group, "cannot want"),
    "a promise is not marked": (put("claimed", promised, lambda tree: 0), "not marked"),
    "a free node is promised": (promise_what_is_not_there, "not in use"),
    "a name is of no kind": (put("name", promised, lambda tree: 1 << 40), "nobody uses"),
    "a name has another slot": (
        lambda tree: tree.slots.__setitem__((slice(None), text(tree)), 1_999),
        "promised",
    ),
    "a number is lost": (lose_number, "lost"),
    "a number in use is free": (put("numbers", lambda tree: 0, held), "free as well"),
}


@pytest.mark.parametrize("name", CORRUPT)
def test_a_contradiction_is_found(name: str) -> None:
    corrupt, words = CORRUPT[name]
    tree, kinds = running()
    corrupt(tree)
    with pytest.raises(AssertionError, match=words):
        check(tree, kinds)


def test_a_kind_that_is_gone_is_missed() -> None:
    tree, kinds = running()
    number = int(tree.name[promised(tree)] >> 32)
    with pytest.raises(AssertionError, match="nobody uses"):
        check(tree, {n: kind for n, kind in kinds.items() if n != number})


def test_a_step_of_any_scheduler_of_the_tests_is_checked() -> None:
    bench = Bench()
    bench.submit(scan(50))
    bench.step()
    bench.scheduler.arena.free -= 1
    with pytest.raises(AssertionError, match="are free"):
        bench.scheduler.schedule()
