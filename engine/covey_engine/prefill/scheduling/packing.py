"""A chunk's trie with addresses goes in, the chunk comes out; vectorized over nodes, never a loop over prompts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.scheduling.groups import Ints, Slots
from covey_engine.prefill.scheduling.orders import Column
from covey_engine.prefill.scheduling.outline import Cell, Outline
from covey_engine.prefill.scheduling.tree import Nodes, Tree

Tokens = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Rows:
    """What a chunk computes, int64 [nodes] in depth-first order, none of them empty.

    length; position: of the first token in the prompt; address: of its KV; parent: index of the node above, -1 where
    that is in the arena; begin: its first row; end: the row after its last descendant's.
    """

    length: Ints
    position: Ints
    address: Ints
    parent: Ints
    begin: Ints
    end: Ints


@dataclass(frozen=True, eq=False)
class Roots:
    """Runs of rows below one node of the arena each: first row, row after the last, node."""

    begin: Ints
    end: Ints
    node: Nodes


def rows_of(outline: Outline, address: Ints) -> Rows:
    """The nodes of an outline that have tokens."""
    if outline.size == 0 or outline.length.min() > 0:
        return Rows(outline.length, outline.position, address, outline.parent, outline.begin, outline.end)
    solid = outline.length > 0
    parent = outline.parent
    while True:
        hollow = (parent >= 0) & ~solid[parent]
        if not hollow.any():
            break
        parent = np.where(hollow, outline.parent[parent], parent)
    index = solid.cumsum() - 1
    parent = np.where(parent >= 0, index[parent], -1)
    fields = (outline.length, outline.position, address, parent, outline.begin, outline.end)
    return Rows(*(field[solid] for field in fields))


def roots_of(outline: Outline) -> Roots:
    """Where the prompts' start nodes change."""
    tops = (outline.parent < 0).nonzero()[0]
    nodes = outline.start[outline.item[tops]]
    if len(nodes) == 0 or (nodes[0] == nodes[-1] and (nodes == nodes[0]).all()):
        return Roots(outline.begin[tops[:1]], np.full(min(len(nodes), 1), outline.size), nodes[:1])
    changes = (nodes[1:] != nodes[:-1]).nonzero()[0] + 1
    first = np.concatenate([tops[:1], tops[changes]])
    begin = outline.begin[first]
    end = np.concatenate([begin[1:], [outline.size]])
    return Roots(begin, end, outline.start[outline.item[first]])


def assemble(rows: Rows, tokens: Tokens, roots: Roots, tree: Tree) -> Chunk:
    """The chunk without answers."""
    size, count = len(tokens), len(rows.length)
    index = np.arange(size)
    # Scratch addresses are row numbers, so that what is not kept stands side by side.
    apart = np.ones(count, np.bool_)
    meets = rows.address[:-1] + rows.length[:-1] == rows.address[1:]
    meets &= rows.parent[1:] == index[: max(count - 1, 0)]
    np.logical_not(meets, out=apart[1:])
    heads = apart.nonzero()[0]
    segments = np.empty((len(heads), 3), np.int64)
    first = segments[:, 0] = rows.begin[heads]
    segments[:-1, 1] = first[1:]
    segments[-1:, 1] = size
    seen = segments[:, 1][apart.cumsum() - 1]
    segments[:, 1] -= first
    segments[:, 2] = rows.address[heads]
    inner = (rows.end > seen).nonzero()[0]
    below = np.empty((len(inner), 4), np.int64)
    below[:, 0], below[:, 2], below[:, 3] = seen[inner], rows.address[inner], rows.length[inner]
    below[:, 1] = rows.end[inner] - below[:, 0]
    shift = rows.address - rows.begin
    positions = (rows.position - rows.begin).repeat(rows.length)
    positions += index
    return Chunk(
        tokens=tokens,
        positions=positions.astype(np.int32),
        kv_address=shift.repeat(rows.length) + index if shift.any() else index,
        segments=segments,
        contexts=np.concatenate([*_above(roots, tree), below]),
        answers=np.empty(0, np.int32),
    )


def _above(roots: Roots, tree: Tree) -> list[NDArray[np.int64]]:
    """Contexts for the nodes of the arena, outermost first; one where neighbouring runs of rows share a node."""
    found = []
    at = roots.node
    depths = tree.depth[at]
    for depth in range(int(depths.max(initial=0)), 0, -1):
        here = depths == depth
        node = np.where(here, at, 0)
        changed = np.ones(len(node), np.bool_)
        np.not_equal(node[1:], node[:-1], out=changed[1:])
        first = changed.nonzero()[0]
        last = np.concatenate([first[1:], [len(node)]]) - 1
        node = node[first]
        contexts = np.empty((len(first), 4), np.int64)
        contexts[:, 0] = roots.begin[first]
        contexts[:, 1] = roots.end[last] - contexts[:, 0]
        contexts[:, 2], contexts[:, 3] = tree.address[node], tree.length[node]
        found.append(contexts[(node > 0) & (contexts[:, 1] > 0)])
        at = np.where(here, tree.parent[at], at)
        depths = np.where(here, depth - 1, depths)
    return found[::-1]


def token_ids(outline: Outline) -> Tokens:
    """The tokens of all rows."""
    tokens = np.empty(outline.size, np.int32)
    depth = outline.current.shape[1]
    which = outline.strip * depth + outline.level
    for number, strip in enumerate(outline.strips):
        for level, cell in enumerate(strip.cells):
            nodes = (which == number * depth + level).nonzero()[0]
            if len(nodes):
                _write(tokens, cell, outline.slot[nodes], outline.begin[nodes], outline.length[nodes])
    return tokens


def _write(tokens: Tokens, cell: Cell, slots: Slots, begin: Ints, length: Ints) -> None:
    """Write one cell's tokens for nodes that begin at rows `begin`."""
    kind = cell.step.kind
    length = length - cell.tail_length
    if kind.tokens is not None:
        _write_literal(tokens, kind.tokens, begin, length)
    else:
        assert kind.column is not None
        _gather(tokens, kind.column, slots, begin, length)
    at = begin + length
    for tail in cell.tail:
        tokens[at[:, None] + np.arange(len(tail))] = tail
        at = at + len(tail)


def _write_literal(tokens: Tokens, literal: Tokens, begin: Ints, length: Ints) -> None:
    whole = length == len(literal)
    if not whole.all():
        # The arena has a part of it: this is the rest.
        for at, count in zip(begin[~whole].tolist(), length[~whole].tolist(), strict=True):
            tokens[at : at + count] = literal[len(literal) - count :]
        begin = begin[whole]
    tokens[begin[:, None] + np.arange(len(literal))] = literal


def _gather(tokens: Tokens, column: Column, slots: Slots, begin: Ints, length: Ints) -> None:
    whole = column.lengths[slots] == length
    if not whole.all() or length.min() == 0:
        # The arena has a part of it: this is the rest.
        broken = (~whole & (length > 0)).nonzero()[0]
        for slot, at, count in zip(
            slots[broken].tolist(), begin[broken].tolist(), length[broken].tolist(), strict=True
        ):
            tokens[at : at + count] = column.tokens(slot)[-count:]
        solid = whole & (length > 0)
        slots, begin, length = slots[solid], begin[solid], length[solid]
        if len(slots) == 0:
            return
    ends = length.cumsum()
    total = int(ends[-1])
    if begin[-1] + length[-1] - begin[0] == total:
        column.gather(slots, tokens[begin[0] : begin[0] + total])
        return
    found = np.empty(total, np.int32)
    column.gather(slots, found)
    spans = (begin - (ends - length)).repeat(length)
    spans += np.arange(total)
    tokens[spans] = found
