"""A chunk's trie with addresses goes in, the chunk comes out."""

from __future__ import annotations

import numpy as np

from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.scheduling.compiled import Ints, IntsOut, Table, Tokens, TokensOut, kernel
from covey_engine.prefill.scheduling.outline import Outline
from covey_engine.prefill.scheduling.tree import Tree

_NO_TEXTS = (0, np.empty(0, np.int64), np.empty(0, np.int32))


def pack(outline: Outline, address: Ints, tree: Tree, answers: Tokens) -> Chunk:
    """The chunk. address: of each node's KV; answers: its rows that are read."""
    return assemble(
        token_ids(outline),
        tree,
        outline.length,
        outline.position,
        address,
        outline.parent,
        outline.begin,
        outline.end,
        outline.root,
        answers,
    )


def assemble(
    tokens: Tokens,
    tree: Tree,
    length: Ints,
    position: Ints,
    address: Ints,
    parent: Ints,
    begin: Ints,
    end: Ints,
    start: Ints,
    answers: Tokens,
) -> Chunk:
    """The chunk of some nodes (int64 [nodes], as in Outline).

    address: of each node's KV; start: where its prompts start in the arena, read of those without a parent only.
    """
    size = len(tokens)
    positions, addresses = np.empty(size, np.int32), np.empty(size, np.int64)
    _lay_rows(length, position, address, begin, positions, addresses)
    above = _contexts_above(parent, begin, start, size, tree.parent, tree.depth, tree.address, tree.length)
    segments, below = _segments(length, address, parent, begin, end, size)
    contexts = np.concatenate([above, below]) if len(above) else below
    return Chunk(tokens, positions, addresses, segments, contexts, answers, tree.arena.first)


def token_ids(outline: Outline) -> Tokens:
    """The tokens of all rows."""
    tokens = np.empty(outline.size, np.int32)
    for strip in outline.strips:
        for number, cell in enumerate(strip.cells, strip.number):
            side = cell.step.side
            texts = cell.tail if side is None else side.column.lengths
            for first, begins, values in (_NO_TEXTS,) if side is None else side.column.stretches:
                _write(
                    tokens,
                    number,
                    outline.cell,
                    outline.slot,
                    outline.begin,
                    outline.length,
                    texts,
                    first,
                    begins,
                    values,
                    cell.tail,
                )
    return tokens


@kernel
def _lay_rows(
    length: Ints, position: Ints, address: Ints, begin: Ints, positions: TokensOut, addresses: IntsOut
) -> None:
    """Write each row's position and address."""
    for node in range(len(length)):
        at, address_of = np.uint64(position[node] - begin[node]), np.uint64(address[node] - begin[node])
        for n in range(np.uint64(begin[node]), np.uint64(begin[node] + length[node])):
            positions[n] = at + n
            addresses[n] = address_of + n


@kernel
def _segments(
    length: Ints, address: Ints, parent: Ints, begin: Ints, end: Ints, size: int
) -> tuple[Table, Table]:
    """The chunk's segments, and the contexts of nodes with descendants outside their segment.

    Nodes without tokens have no part in it. Scratch addresses are row numbers, so what is not kept stands side by side.
    """
    count = len(length)
    segments, of_node, made = np.empty((count, 3), np.int64), np.empty(count, np.int64), 0
    before = -1
    for node in range(count):
        if length[node] == 0:
            continue
        above = parent[node]
        while above >= 0 and length[above] == 0:
            above = parent[above]
        if above < 0 or above != before or address[before] + length[before] != address[node]:
            segments[made, 0], segments[made, 1], segments[made, 2] = begin[node], size, address[node]
            if made:
                segments[made - 1, 1] = begin[node]
            made += 1
        of_node[node] = made - 1
        before = node
    contexts, found = np.empty((count, 4), np.int64), 0
    for node in range(count):
        if length[node] == 0:
            continue
        seen = segments[of_node[node], 1]
        if end[node] > seen:
            contexts[found, 0], contexts[found, 1] = seen, end[node] - seen
            contexts[found, 2], contexts[found, 3] = address[node], length[node]
            found += 1
    for n in range(made):
        segments[n, 1] -= segments[n, 0]
    return segments[:made], contexts[:found]


@kernel
def _contexts_above(
    parent: Ints,
    begin: Ints,
    start: Ints,
    size: int,
    tree_parent: Ints,
    tree_depth: Ints,
    tree_address: Ints,
    tree_length: Ints,
) -> Table:
    """Contexts for the nodes of the arena, outermost first; one where neighbouring runs of rows share a node."""
    # Runs of rows below one node of the arena each: the node, the first row, the row after the last.
    at, first, last, runs, deepest = np.empty_like(begin), np.empty_like(begin), np.empty_like(begin), 0, 0
    for node in range(len(parent)):
        if parent[node] < 0 and (runs == 0 or start[node] != at[runs - 1]):
            if runs:
                last[runs - 1] = begin[node]
            at[runs], first[runs], last[runs] = start[node], begin[node], size
            deepest = max(deepest, tree_depth[start[node]])
            runs += 1
    contexts, found = np.empty((runs * deepest, 4), np.int64), runs * deepest
    for depth in range(deepest, 0, -1):
        joined = -1
        for run in range(runs - 1, -1, -1):
            node = at[run]
            if tree_depth[node] != depth:
                joined = -1
                continue
            at[run] = tree_parent[node]
            if first[run] == last[run]:
                continue
            if node == joined:
                contexts[found, 1] += contexts[found, 0] - first[run]
            else:
                found -= 1
                contexts[found, 1] = last[run] - first[run]
                contexts[found, 2], contexts[found, 3] = tree_address[node], tree_length[node]
            contexts[found, 0] = first[run]
            joined = node
    return contexts[found:]


@kernel
def _write(
    tokens: TokensOut,
    number: int,
    cell: Ints,
    slot: Ints,
    begin: Ints,
    length: Ints,
    texts: Tokens,
    first: int,
    begins: Ints,
    values: Tokens,
    tail: Tokens,
) -> None:
    """Write the tokens of the nodes of a cell: a text, if it is among these, and the literals after it.

    Where the arena has a part of them, the node is the rest. texts: lengths by slot; begins: where the text of each
    slot from `first` on begins among the values.
    """
    for node in range(len(cell)):
        if cell[node] != number:
            continue
        literal = min(length[node], len(tail))
        text, index = length[node] - literal, slot[node] - first
        row = begin[node]
        if text and 0 <= index < len(begins):
            shift = np.uint64(begins[index] + texts[slot[node]] - text - row)
            for n in range(np.uint64(row), np.uint64(row + text)):
                tokens[n] = values[n + shift]
        shift = np.uint64(len(tail) - length[node] - row)
        for n in range(np.uint64(row + text), np.uint64(row + length[node])):
            tokens[n] = tail[n + shift]
