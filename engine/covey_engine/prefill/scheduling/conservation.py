"""A tree with its arena and the kinds of all running orders go in; an AssertionError comes out where they contradict.

The law is free + resident + reserved = total: every address is free, or in the range of one node, and every node is
kept for somebody. It is asserted after every step of the tests, so what can be is compiled. It changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from covey_engine.prefill.scheduling.compiled import Flags, FlagsOut, Ints, TableOut, kernel
from covey_engine.prefill.scheduling.kinds import Kind
from covey_engine.prefill.scheduling.promises import check_promises
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


def check(tree: Tree, kinds: Mapping[int, Kind]) -> None:
    """Assert that nodes and arena agree. kinds: all there are, by number."""
    size = len(tree.parent)
    wanted, sure, reserved = np.zeros((3, size), np.bool_)
    ranges = np.empty((2, size), np.int64)
    if tree.claimants or tree.name.any():
        check_promises(tree, kinds, wanted, sure)
    assert len(tree.claimants) == np.count_nonzero(tree.claimed), "a node is marked, and not promised"
    count, fault, where = _examine(
        tree.parent,
        tree.holds,
        tree.waiting,
        tree.children,
        tree.claimed,
        tree.address,
        tree.length,
        wanted,
        sure,
        tree.numbers[: tree.spare],
        ranges,
        reserved,
    )
    assert not fault, f"{_FAULTS[fault]}: node {where}"
    assert size == 1 + count + tree.spare, "a node is lost"
    tree.arena.check(ranges[0, :count], ranges[1, :count], reserved[:count])


@kernel
def _examine(
    parent: Ints,
    holds: Ints,
    waiting: Ints,
    children: Ints,
    claimed: Flags,
    address: Ints,
    length: Ints,
    wanted: Flags,
    sure: Flags,
    unused: Ints,
    ranges: TableOut,
    reserved: FlagsOut,
) -> tuple[int, int, int]:
    """How many nodes are in use; a fault of theirs, an index into _FAULTS, and the node that has it.

    Writes, of the nodes in use, their addresses and lengths, and whether each is kept only for what may never be asked.
    """
    counts, count = np.zeros(len(parent), np.int64), 0
    for node in range(1, len(parent)):
        if holds[node] < 0:
            if claimed[node]:
                return count, 5, node
            continue
        if parent[node] and holds[parent[node]] < 0:
            return count, 4, node
        if not 0 <= waiting[node] <= holds[node]:
            return count, 3, node
        counts[parent[node]] += 1
        only = holds[node] == waiting[node] and (holds[node] > 0 or wanted[node])
        ranges[0, count], ranges[1, count], reserved[count] = (
            address[node],
            length[node],
            only and not sure[node],
        )
        count += 1
    for node in range(1, len(parent)):
        if holds[node] < 0:
            continue
        if counts[node] != children[node]:
            return count, 2, node
        if not (holds[node] or children[node] or wanted[node]):
            return count, 1, node
    for number in unused:
        if holds[number] >= 0:
            return count, 6, number
    return count, 0, 0
