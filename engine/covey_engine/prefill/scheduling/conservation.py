"""A tree with its arena and the kinds of all running orders go in; an AssertionError comes out where they contradict.

The law is free + resident + reserved = total: every address is free, or in the range of one node, and every node is
kept for somebody. It is asserted after every step of the tests, so what can be is compiled. It changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from weakref import WeakKeyDictionary

import numpy as np

from covey_engine.prefill.scheduling.claims import Claim
from covey_engine.prefill.scheduling.compiled import Flags, Ints, kernel
from covey_engine.prefill.scheduling.groups import Groups
from covey_engine.prefill.scheduling.kinds import Kind
from covey_engine.prefill.scheduling.tree import Tree

_FAULTS = (
    "",
    "kept for nobody",
    "the children of a node are not those that are counted",
    "a node is held by fewer items than wait for an answer",
    "a node that is free, or none, is above another",
    "a promise of a node that is not in use",
    "a node that is in use and free as well",
)


_places: WeakKeyDictionary[Groups, dict[tuple[int, ...], int]] = WeakKeyDictionary()


def check(tree: Tree, kinds: Mapping[int, Kind]) -> None:
    """Assert that nodes and arena agree. kinds: all there are, by number."""
    wanted, sure = _check_claims(tree, kinds)
    unused = tree.numbers[: tree.spare]
    nodes, reserved, fault, where = _examine(
        tree.parent, tree.holds, tree.waiting, tree.children, tree.claimed, wanted, sure, unused
    )
    assert not fault, f"{_FAULTS[fault]}: node {where}"
    assert len(tree.parent) == 1 + len(nodes) + tree.spare, "a node is lost"
    tree.arena.check(tree.address[nodes], tree.length[nodes], reserved)


def _check_claims(tree: Tree, kinds: Mapping[int, Kind]) -> tuple[Flags, Flags]:
    """Assert that just what orders may want is promised to them; which nodes that is, and which surely."""
    wanted, sure = np.zeros((2, len(tree.parent)), np.bool_)
    due = set[tuple[int, Claim, int]]()
    nodes = _named(tree.holds, tree.name)
    numbers, slots = (tree.name[nodes] >> 32).tolist(), tree.slots[:, nodes].T.tolist()
    for node, number, theirs in zip(nodes.tolist(), numbers, slots, strict=True):
        assert number in kinds, f"node {node} is of a kind that nobody uses"
        kind = kinds[number]
        for claim in kind.claims:
            group = _place(claim.groups, tuple(theirs[: kind.columns]))
            if group >= 0 and claim.wants_one(group):
                due.add((node, claim, group))
                wanted[node] = True
                sure[node] |= claim.sure
    promised = 0
    for node, some in tree.claimants.items():
        assert tree.claimed[node], f"node {node} is promised, and not marked"
        for claim, group in some:
            if claim.wants_one(group):
                promised += 1
                assert (node, claim, group) in due, f"node {node} is promised to who cannot want it"
    assert promised == len(due), "a node that is wanted is not promised, or twice"
    assert len(tree.claimants) == np.count_nonzero(tree.claimed), "a node is marked, and not promised"
    return wanted, sure


def _place(groups: Groups, slots: tuple[int, ...]) -> int:
    """What Groups.find says, from a dictionary of all rows."""
    places = _places.get(groups)
    if places is None:
        columns, at = [], groups
        while at.parent is not None and at.slots is not None:
            columns.append(at.slots.tolist())
            at = at.parent
        keys = zip(*columns[::-1], strict=True) if columns else [()] * groups.rows
        places = _places[groups] = dict(zip(keys, groups.of(np.arange(groups.rows)).tolist(), strict=True))
    return places.get(slots, -1)


@kernel
def _named(holds: Ints, names: Ints) -> Ints:
    """The nodes in use that have a name."""
    nodes, count = np.empty(len(names), np.int64), 0
    for node in range(1, len(names)):
        if holds[node] >= 0 and names[node] > 0:
            nodes[count] = node
            count += 1
    return nodes[:count]


@kernel
def _examine(
    parent: Ints,
    holds: Ints,
    waiting: Ints,
    children: Ints,
    claimed: Flags,
    wanted: Flags,
    sure: Flags,
    unused: Ints,
) -> tuple[Ints, Flags, int, int]:
    """The nodes in use, and whether each is kept only for what may never be asked.

    And a fault, an index into _FAULTS, with the node that has it.
    """
    nodes, counts, count = np.empty(len(parent), np.int64), np.zeros(len(parent), np.int64), 0
    reserved = np.zeros(len(parent), np.bool_)
    for node in range(1, len(parent)):
        if holds[node] < 0:
            if claimed[node]:
                return nodes, reserved, 5, node
            continue
        if parent[node] and holds[parent[node]] < 0:
            return nodes, reserved, 4, node
        if not 0 <= waiting[node] <= holds[node]:
            return nodes, reserved, 3, node
        counts[parent[node]] += 1
        only = holds[node] == waiting[node] and (holds[node] > 0 or wanted[node])
        nodes[count], reserved[count] = node, only and not sure[node]
        count += 1
    for node in nodes[:count]:
        if counts[node] != children[node]:
            return nodes, reserved, 2, node
        if not (holds[node] or children[node] or wanted[node]):
            return nodes, reserved, 1, node
    for number in unused:
        if holds[number] >= 0:
            return nodes, reserved, 6, number
    return nodes[:count], reserved[:count], 0, 0
