"""Rows of codes go in, the nodes of their trie come out; compiled."""

from __future__ import annotations

import numpy as np

from covey_engine.prefill.scheduling.compiled import (
    FlagsOut,
    Ints,
    Table,
    TableOut,
    TokenTable,
    kernel,
)


@kernel
def grouped(codes: Table, nodes: int) -> bool:
    """Whether each of the start nodes (below `nodes`) comes once, and the columns below it ascend."""
    seen = np.zeros(nodes, np.bool_)
    for n in range(codes.shape[1]):
        start = codes[0, n]
        if n == 0 or start != codes[0, n - 1]:
            if seen[start]:
                return False
            seen[start] = True
            continue
        for level in range(1, codes.shape[0]):
            if codes[level, n - 1] > codes[level, n]:
                return False
            if codes[level, n - 1] < codes[level, n]:
                break
    return True


@kernel
def lay_out(
    codes: Table,
    lengths: Table,
    slots: TokenTable,
    strip_of: Ints,
    steps_of: Table,
    place: Ints,
    tree_end: Ints,
    nodes: TableOut,
    prompts: TableOut,
    current: TableOut,
) -> tuple[int, int, int]:
    """Write the nodes' and the prompts' columns of an Outline, and `current`; how many nodes, rows and `missing`.

    place: an order in which prompts that begin alike are neighbours, empty where that is their own. nodes: length,
    position, slot, strip, level, item, parent, begin, end, steps; prompts: row, tokens.
    """
    depth, count = lengths.shape
    length, position, slot, strip = nodes[0], nodes[1], nodes[2], nodes[3]
    level_of, item, parent, begin, end, steps = nodes[4], nodes[5], nodes[6], nodes[7], nodes[8], nodes[9]
    path = np.empty(depth, np.int64)  # the nodes of the prompt before
    for level in range(depth):
        path[level] = -1
    made, rows, missing, before = 0, 0, 0, -1
    for n in range(count):
        prompt = place[n] if len(place) else n
        # How many nodes it shares with the one before.
        alike = 0
        if n and codes[0, prompt] == codes[0, before]:
            while alike < depth and path[alike] >= 0 and codes[alike + 1, prompt] == codes[alike + 1, before]:
                alike += 1
        for level in range(alike, depth):
            if path[level] >= 0:
                end[path[level]] = rows
                path[level] = -1
        at, last, above = tree_end[codes[0, prompt]], -1, -1
        for level in range(depth):
            if codes[level + 1, prompt] < 0:
                for rest in range(level, depth):
                    current[prompt, rest] = 0
                break
            node = path[level]
            if node < 0:
                node = path[level] = made
                made += 1
                length[node], position[node] = lengths[level, prompt], at
                slot[node], level_of[node] = slots[level, prompt], level
                steps[node] = steps_of[strip_of[prompt], level]
                item[node], strip[node] = prompt, strip_of[prompt]
                parent[node], begin[node] = above, rows
                rows += length[node]
            elif prompt < item[node]:
                item[node], strip[node] = prompt, strip_of[prompt]
            current[prompt, level] = node + 1
            at += length[node]
            if length[node]:
                last = begin[node] + length[node] - 1
            above = node
        prompts[0, prompt], prompts[1, prompt] = last, at
        missing += last < 0
        before = prompt
    for node in path:
        if node >= 0:
            end[node] = rows
    return made, rows, missing


@kernel
def new_nodes(current: Table, begin: int, count: int, cell: int, known: FlagsOut) -> tuple[Ints, Ints]:
    """Outline.new_nodes for `count` prompts from `begin` on."""
    which, nodes, found = np.empty(count, np.int64), np.empty(count, np.int64), 0
    for n in range(count):
        node = current[begin + n, cell] - 1
        if not known[node]:
            known[node] = True
            which[found], nodes[found] = n, node
            found += 1
    return which[:found], nodes[:found]
