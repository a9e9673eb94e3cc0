"""Rows of codes go in, the nodes of their trie come out; compiled."""

from __future__ import annotations

import numpy as np

from covey_engine.prefill.scheduling.compiled import (
    FlagsOut,
    Ints,
    Table,
    TableOut,
    TokenTable,
    TokenTableOut,
    kernel,
)

_NO_TEXT = (1 << 31) - 1
"""In a code, one more than the slot; this one stands for a text without tokens."""


@kernel
def lay_out(
    codes: Table,
    lengths: TokenTable,
    strip_of: Ints,
    cells: Ints,
    place: Ints,
    tree_end: Ints,
    nodes: TableOut,
    prompts: TableOut,
    current: TokenTableOut,
) -> tuple[int, int, int]:
    """Write the nodes' and the prompts' columns of an Outline, and `current`; how many nodes, rows and `missing`.

    cells: the number of each strip's first cell. place: an order in which prompts that begin alike are neighbours;
    empty where their own may be one, which it is if each start node comes once and the codes below it ascend: no nodes
    if not. nodes: length, position, slot, cell, item, parent, begin, end, start; prompts: row, tokens.
    """
    depth, count = lengths.shape
    length, position, slot, cell = nodes[0], nodes[1], nodes[2], nodes[3]
    item, parent, begin, end, first = nodes[4], nodes[5], nodes[6], nodes[7], nodes[8]
    # Of the prompt before, at each cell: its node, the position after it, and its last row up to there.
    path, after, lasts = np.full(depth, -1), np.empty(depth, np.int64), np.empty(depth, np.int64)
    ordered = len(place) > 0
    seen = np.zeros(0 if ordered else len(tree_end), np.bool_)
    made, rows, missing, before = 0, 0, 0, -1
    for n in range(count):
        prompt = place[n] if ordered else n
        start = codes[0, prompt]
        # How many nodes it shares with the one before.
        alike = 0
        if n and start == codes[0, before]:
            while alike < depth and path[alike] >= 0 and codes[alike + 1, prompt] == codes[alike + 1, before]:
                alike += 1
            if not ordered and alike < depth and codes[alike + 1, prompt] < codes[alike + 1, before]:
                return 0, 0, 0
        elif not ordered:
            if seen[start]:
                return 0, 0, 0
            seen[start] = True
        for level in range(alike, depth):
            if path[level] < 0:
                break
            end[path[level]] = rows
            path[level] = -1
        at, last, above = tree_end[start], -1, -1
        if alike:
            at, last, above = after[alike - 1], lasts[alike - 1], path[alike - 1]
        for level in range(alike):
            node = path[level]
            current[prompt, level] = node + 1
            if prompt < item[node]:
                item[node], cell[node] = prompt, cells[strip_of[prompt]] + level
        for level in range(alike, depth):
            code = codes[level + 1, prompt]
            if code < 0:
                current[prompt, level:] = 0
                break
            node, mine = made, lengths[level, prompt]
            made += 1
            text = (code & 0xFFFFFFFF) - 1
            length[node], position[node], slot[node] = mine, at, text if text < _NO_TEXT else -1
            item[node], cell[node] = prompt, cells[strip_of[prompt]] + level
            parent[node], begin[node], first[node] = above, rows, start
            rows += mine
            at += mine
            if mine:
                last = rows - 1
            above = path[level] = node
            after[level], lasts[level] = at, last
            current[prompt, level] = node + 1
        prompts[0, prompt], prompts[1, prompt] = last, at
        missing += last < 0
        before = prompt
    for node in path:
        if node >= 0:
            end[node] = rows
    return made, rows, missing


@kernel
def new_nodes(current: TokenTable, begin: int, count: int, cell: int, known: FlagsOut) -> tuple[Ints, Ints]:
    """Outline.new_nodes for `count` prompts from `begin` on."""
    which, nodes, found = np.empty(count, np.int64), np.empty(count, np.int64), 0
    for n in range(count):
        node = current[begin + n, cell] - 1
        if not known[node]:
            known[node] = True
            which[found], nodes[found] = n, node
            found += 1
    return which[:found], nodes[:found]
