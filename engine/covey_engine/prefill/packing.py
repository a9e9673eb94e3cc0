"""A chunk's trie with addresses goes in, the chunk comes out; vectorized over nodes, never a loop over prompts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.groups import Ints
from covey_engine.prefill.orders import Column
from covey_engine.prefill.outline import Outline
from covey_engine.prefill.tree import Nodes, Tree


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


def rows_of(outline: Outline, address: Ints) -> Rows:
    """The nodes of an outline that have tokens."""
    solid = outline.length > 0
    if solid.all():
        return Rows(outline.length, outline.position, address, outline.parent, outline.begin, outline.end)
    parent = outline.parent
    while True:
        hollow = (parent >= 0) & ~solid[parent]
        if not hollow.any():
            break
        parent = np.where(hollow, outline.parent[parent], parent)
    index = np.cumsum(solid) - 1
    parent = np.where(parent >= 0, index[parent], -1)
    fields = (outline.length, outline.position, address, parent, outline.begin, outline.end)
    return Rows(*(field[solid] for field in fields))


def assemble(rows: Rows, tokens: NDArray[np.int32], roots: tuple[Ints, Ints, Nodes], tree: Tree) -> Chunk:
    """The chunk without answers.

    roots: by block of rows below one node of the arena, its first row, the row after its last, and the node.
    """
    size = len(tokens)
    index = np.arange(size)
    # Scratch addresses are row numbers, so that whatever is not kept stands side by side.
    joined = np.zeros(len(rows.length), np.bool_)
    behind = rows.address[:-1] + rows.length[:-1] == rows.address[1:]
    joined[1:] = behind & (rows.parent[1:] == np.arange(len(rows.length) - 1))
    heads = np.flatnonzero(~joined)
    first = rows.begin[heads]
    lengths = np.diff(np.append(first, size))
    segments = np.stack([first, lengths, rows.address[heads]], 1)
    seen = (first + lengths)[np.cumsum(~joined) - 1]
    inner = np.flatnonzero(rows.end > seen)
    below = np.stack([seen, rows.end - seen, rows.address, rows.length], 1)[inner]
    return Chunk(
        tokens=tokens,
        positions=(np.repeat(rows.position - rows.begin, rows.length) + index).astype(np.int32),
        kv_address=np.repeat(rows.address[heads] - first, lengths) + index,
        segments=segments,
        contexts=np.concatenate([_above(*roots, tree), below]),
        answers=np.empty(0, np.int32),
    )


def root_blocks(outline: Outline) -> tuple[Ints, Ints, Nodes]:
    """Runs of rows that start from one node of the arena."""
    tops = np.flatnonzero((outline.level == 0) & (outline.parent < 0))
    begins = outline.begin[tops]
    nodes = outline.start[outline.item[tops]]
    changes = np.flatnonzero(np.concatenate([[True], nodes[1:] != nodes[:-1]])) if len(nodes) else tops
    return begins[changes], np.append(begins[changes][1:], outline.size), nodes[changes]


def _above(begins: Ints, ends: Ints, nodes: Nodes, tree: Tree) -> NDArray[np.int64]:
    """Contexts for the nodes of the arena, those that neighbouring blocks share being one."""
    chains = []
    at = nodes
    while at.any():
        chains.append(at)
        at = tree.parent[at]
    # Aligned at the top, so that a shared ancestor has one column.
    depth = len(chains)
    chain = np.stack(chains, 1) if chains else np.zeros((len(nodes), 0), np.int64)
    missing = np.count_nonzero(chain == 0, axis=1)
    order = depth - 1 - np.arange(depth)[None, :] - missing[:, None]
    aligned = np.where(order >= 0, np.take_along_axis(chain, np.maximum(order, 0), 1), 0) if depth else chain
    found = []
    for column in aligned.T:
        solid = column > 0
        first = solid.copy()
        first[1:] &= (column[1:] != column[:-1]) | (begins[1:] != ends[:-1])
        starts = np.flatnonzero(first)
        runs = np.cumsum(first)[solid] - 1
        last = np.zeros(len(starts), np.int64)
        last[runs] = ends[solid]
        node = column[starts]
        found.append(
            np.stack([begins[starts], last - begins[starts], tree.address[node], tree.length[node]], 1)
        )
    result = np.concatenate(found) if found else np.zeros((0, 4), np.int64)
    return result[result[:, 1] > 0]


def token_ids(outline: Outline) -> NDArray[np.int32]:
    """The tokens of all rows."""
    tokens = np.empty(outline.size, np.int32)
    which = outline.strip * outline.current.shape[1] + outline.level
    for number, strip in enumerate(outline.strips):
        steps = strip.batch.job.paths[strip.batch.ask].steps[strip.first :]
        for level, step in enumerate(steps):
            nodes = np.flatnonzero(which == number * outline.current.shape[1] + level)
            if len(nodes) == 0:
                continue
            begin, length = outline.begin[nodes], outline.length[nodes]
            if step.kind.tokens is not None:
                # The rest of a literal of which the arena has a part.
                left = int(length[0])
                if (length == left).all():
                    tokens[begin[:, None] + np.arange(left)] = step.kind.tokens[
                        len(step.kind.tokens) - left :
                    ]
                else:
                    for at, count in zip(begin.tolist(), length.tolist(), strict=True):
                        tokens[at : at + count] = step.kind.tokens[len(step.kind.tokens) - count :]
                continue
            assert step.kind.column is not None
            _gather(tokens, step.kind.column, outline.slot[nodes], begin, length)
    return tokens


def _gather(
    tokens: NDArray[np.int32], column: Column, slots: NDArray[np.int32], begin: Ints, length: Ints
) -> None:
    solid = length > 0
    if not solid.all():
        slots, begin, length = slots[solid], begin[solid], length[solid]
    whole = column.lengths[slots] == length
    if not whole.all():
        # The rest of a text of which the arena has a part.
        for slot, at, count in zip(
            slots[~whole].tolist(), begin[~whole].tolist(), length[~whole].tolist(), strict=True
        ):
            tokens[at : at + count] = column.tokens(slot)[-count:]
        slots, begin, length = slots[whole], begin[whole], length[whole]
    if len(slots) == 0:
        return
    ends = np.cumsum(length)
    if begin[-1] - begin[0] == ends[-1] - length[-1]:
        column.gather(slots, tokens[begin[0] : begin[0] + ends[-1]])
        return
    found = np.empty(ends[-1], np.int32)
    column.gather(slots, found)
    tokens[np.repeat(begin - (ends - length), length) + np.arange(len(found))] = found
