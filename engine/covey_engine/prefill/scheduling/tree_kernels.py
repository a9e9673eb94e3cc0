"""The prefix tree's arrays in, the same changed in place: nodes added, found, freed; never touches arena or claims."""

from __future__ import annotations

import numpy as np

from covey_engine.prefill.scheduling.compiled import Flags, Ints, IntsOut, kernel

UNUSED = -1
"""What holds a node whose number is not in use."""


@kernel
def add_nodes(
    above: Ints,
    start: Ints,
    address: Ints,
    length: Ints,
    position: Ints,
    cell: Ints,
    steps: Ints,
    offset: int,
    stays: Flags,
    numbers: Ints,
    spare: int,
    found: IntsOut,
    tree_parent: IntsOut,
    tree_address: IntsOut,
    tree_length: IntsOut,
    tree_end: IntsOut,
    tree_level: IntsOut,
    tree_offset: IntsOut,
    tree_depth: IntsOut,
    tree_holds: IntsOut,
    tree_waiting: IntsOut,
    tree_children: IntsOut,
) -> int:
    """Tree.add; how many numbers are spare after it."""
    for n in range(len(above)):
        parent = start[n] if above[n] < 0 else found[above[n]]
        if not stays[n]:
            found[n] = parent
            continue
        spare -= 1
        node = found[n] = numbers[spare]
        tree_parent[node], tree_depth[node] = parent, tree_depth[parent] + 1
        tree_address[node], tree_length[node] = address[n], length[n]
        tree_end[node] = position[n] + length[n]
        tree_level[node], tree_offset[node] = steps[cell[n]], offset
        tree_holds[node] = tree_waiting[node] = tree_children[node] = 0
        tree_children[parent] += 1
    return spare


@kernel
def nodes_of(names: Ints, kinds: Ints) -> Ints:
    """The nodes whose names are of some kinds."""
    found, count = np.empty(len(names), np.int64), 0
    for node in range(len(names)):
        for kind in kinds:
            if names[node] >> 32 == kind:
                found[count] = node
                count += 1
    return found[:count]


@kernel
def prune_nodes(
    nodes: Ints,
    parent: Ints,
    holds: IntsOut,
    children: IntsOut,
    claimed: Flags,
    numbers: IntsOut,
    spare: int,
) -> tuple[int, Ints]:
    """Free nodes that nobody holds, and parents; the spare numbers with theirs, and those that claims may keep."""
    asked, count = np.empty(len(nodes), np.int64), 0
    for node in nodes:
        while node and holds[node] == 0 and children[node] == 0:
            if claimed[node]:
                if count == 0 or asked[count - 1] != node:
                    asked[count] = node
                    count += 1
                break
            holds[node] = UNUSED
            numbers[spare] = node
            spare += 1
            node = parent[node]
            children[node] -= 1
    return spare, asked[:count]
