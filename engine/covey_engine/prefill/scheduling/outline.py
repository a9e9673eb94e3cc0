"""The batches of a chunk go in; out comes the trie of what they must compute, as arrays in depth-first order.

Every prompt is a row of codes: the node it starts from, then one code a cell, which is a segment, or a segment with the
literals after it where nothing can part them. Where prompts that begin alike are neighbours, which sorting makes them,
a node of the trie stands wherever a code or one before it differs from the row above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from covey_engine.prefill.scheduling.batches import Batch
from covey_engine.prefill.scheduling.compiled import FlagsOut, Ints, TokenTable
from covey_engine.prefill.scheduling.strips import Strip, fill_in, strips_of
from covey_engine.prefill.scheduling.tree import Tree
from covey_engine.prefill.scheduling.trie import lay_out, new_nodes

_END = -1
_NONE = np.empty(0, np.int64)


@dataclass(eq=False)
class Outline:
    """A forest of nodes to compute (int64 [nodes], in depth-first order) under the prompts' start nodes.

    length, position: tokens of each node and position of the first in the prompt; slot: HOLLOW for a literal; cell:
    the number of its cell; item: its first prompt in the strips' order; parent: index of the node above, -1 where that
    is the prompt's start; root: that start; begin: its first row in the chunk, with one row a token; end: the row after
    its last descendant's. size: rows together. steps: by cell, how many segments of a prompt are complete with it. By
    prompt (int64 [prompts]), in the strips' order: start: its start node; row: its last row in the chunk, -1 for none;
    tokens: its length; strip_of: its strip. current: int32 [prompts, cells], the node of a prompt at each cell, plus
    one; 0 after its last one. missing: how many prompts have no row. batches: with their strips, all in the items'
    order.
    """

    batches: list[tuple[Batch, list[Strip]]]
    strips: list[Strip]
    size: int
    missing: int
    length: Ints
    position: Ints
    slot: Ints
    cell: Ints
    item: Ints
    parent: Ints
    root: Ints
    begin: Ints
    end: Ints
    steps: Ints
    start: Ints
    row: Ints
    tokens: Ints
    strip_of: Ints
    current: TokenTable

    def new_nodes(self, strip: Strip, cell: int, known: FlagsOut) -> tuple[Ints, Ints]:
        """The nodes of a strip's cell that are not known yet, but are from now on: indices into the batch, nodes."""
        return new_nodes(self.current, strip.begin, len(strip.batch), cell, known)

    def most(self, values: Ints) -> Ints:
        """For each node, the highest of its prompts' values, which are not negative."""
        result = np.zeros(len(self.length), np.int64)
        for nodes in self.current.T:
            there = nodes > 0
            np.maximum.at(result, nodes[there] - 1, values[there])
        return result


def outline(batches: Sequence[Batch], tree: Tree) -> Outline:
    """Lay out the prompts of some batches as a trie."""
    whole = strips_of(batches, tree)
    strips = [strip for _, theirs in whole for strip in theirs]
    prompts = sum(len(strip.batch) for strip in strips)
    depth = max(1, *(len(strip.cells) for strip in strips))
    codes = np.empty((depth + 1, prompts), np.int64)
    lengths = np.empty((depth, prompts), np.int32)
    strip_of = np.zeros(prompts, np.int64)
    for number, strip in enumerate(strips):
        if number:
            strip_of[strip.where] = number
        if len(strip.cells) < depth:
            codes[len(strip.cells) + 1 :, strip.where] = _END
        codes[0, strip.where] = strip.batch.nodes
        fill_in(strip, tree, codes, lengths)
    cells = np.array([strip.number for strip in strips])
    nodes = np.empty((9, prompts * depth), np.int64)
    items = np.empty((2, prompts), np.int64)
    current = np.empty((prompts, depth), np.int32)
    count, size, missing = lay_out(codes, lengths, strip_of, cells, _NONE, tree.end, nodes, items, current)
    if not count:
        place = np.lexsort(codes[::-1])
        count, size, missing = lay_out(
            codes, lengths, strip_of, cells, place, tree.end, nodes, items, current
        )
    length, position, slot, cell, item, parent, begin, end, root = nodes[:, :count]
    return Outline(
        batches=whole,
        strips=strips,
        size=size,
        missing=missing,
        length=length,
        position=position,
        slot=slot,
        cell=cell,
        item=item,
        parent=parent,
        root=root,
        begin=begin,
        end=end,
        steps=np.array([cell.end for strip in strips for cell in strip.cells], np.int64),
        start=codes[0],
        row=items[0],
        tokens=items[1],
        strip_of=strip_of,
        current=current,
    )
