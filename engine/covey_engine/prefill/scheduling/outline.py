"""The batches of a chunk go in; out comes the trie of what they must compute, as arrays in depth-first order.

Every prompt is a row of codes: the node it starts from, then one code a cell, which is a segment, or a segment with the
literals after it where nothing can part them. Where prompts that begin alike are neighbours, which sorting makes them,
a node of the trie stands wherever a code or one before it differs from the row above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from covey_engine.prefill.scheduling.batches import Batch
from covey_engine.prefill.scheduling.compiled import (
    FlagsOut,
    Ints,
    IntsOut,
    Table,
    TableOut,
    Tokens,
    TokensOut,
    TokenTable,
    kernel,
)
from covey_engine.prefill.scheduling.jobs import Path, Step
from covey_engine.prefill.scheduling.kinds import Kind
from covey_engine.prefill.scheduling.prepare import HOLLOW
from covey_engine.prefill.scheduling.tree import Tree

_END = -1
_LAST = (1 << 31) - 1
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Cell:
    """Neighbouring segments that make up one node: one of any type, then literals.

    step: the first of them; end: how many steps of the path are complete with it; tail: the tokens of its literals.
    """

    step: Step
    end: int
    tail: Tokens


@dataclass(eq=False)
class Strip:
    """Items of one batch whose prompts start equally deep.

    first: the first step that is not in the arena; begin: where the items are in the outline, one after another;
    parted: whether some may start within a segment, whose rest is then a cell of its own.
    """

    batch: Batch
    path: Path
    first: int
    begin: int
    parted: bool
    cells: tuple[Cell, ...] = ()

    @property
    def where(self) -> slice:
        """The items in the outline."""
        return slice(self.begin, self.begin + len(self.batch))

    def cell_after(self, steps: int) -> int:
        """The cell that ends after so many steps of the path."""
        return next(n for n, cell in enumerate(self.cells) if cell.end == steps)


@dataclass(eq=False)
class Outline:
    """A forest of nodes to compute (int64 [nodes], in depth-first order) under the prompts' start nodes.

    length, position: tokens of each node and position of the first in the prompt; slot: HOLLOW for a literal; strip,
    level: which strip's cell `level` it is; steps: how many segments of the prompt are complete with it; item: its
    first prompt in the strips' order; parent: index of the node above, -1 where that is the prompt's start; begin: its
    first row in the chunk, with one row a token; end: the row after its last descendant's. size: rows together. By
    prompt (int64 [prompts]), in the strips' order: start: its start node; row: its last row in the chunk, -1 for none;
    tokens: its length; strip_of: its strip. current: [prompts, cells], the node of a prompt at each cell, plus one; 0
    after its last one. missing: how many prompts have no row. batches: with their strips, all in the items' order.
    """

    batches: list[tuple[Batch, list[Strip]]]
    strips: list[Strip]
    size: int
    missing: int
    length: Ints
    position: Ints
    slot: Ints
    strip: Ints
    level: Ints
    steps: Ints
    item: Ints
    parent: Ints
    begin: Ints
    end: Ints
    start: Ints
    row: Ints
    tokens: Ints
    strip_of: Ints
    current: Table

    def new_nodes(self, strip: Strip, cell: int, known: FlagsOut) -> tuple[Ints, Ints]:
        """The nodes of a strip's cell that are not known yet, but are from now on: indices into the batch, nodes."""
        return _new_nodes(self.current, strip.begin, len(strip.batch), cell, known)

    def most(self, values: Ints) -> Ints:
        """For each node, the highest of its prompts' values, which are not negative."""
        result = np.zeros(len(self.length), np.int64)
        for nodes in self.current.T:
            there = nodes > 0
            np.maximum.at(result, nodes[there] - 1, values[there])
        return result


def outline(batches: Sequence[Batch], tree: Tree) -> Outline:
    """Lay out the prompts of some batches as a trie."""
    whole = _strips(batches, tree)
    strips = [strip for _, theirs in whole for strip in theirs]
    prompts, depth = (
        sum(len(strip.batch) for strip in strips),
        max(1, *(len(strip.cells) for strip in strips)),
    )
    codes = np.empty((depth + 1, prompts), np.int64)
    lengths = np.empty((depth, prompts), np.int64)
    slots = np.empty((depth, prompts), np.int32)
    strip_of = np.zeros(prompts, np.int64)
    steps = np.zeros((len(strips), depth), np.int64)
    for number, strip in enumerate(strips):
        if number:
            strip_of[strip.where] = number
        codes[len(strip.cells) + 1 :, strip.where] = _END
        codes[0, strip.where] = strip.batch.nodes
        steps[number, : len(strip.cells)] = [cell.end for cell in strip.cells]
        _fill_in(strip, tree, codes, lengths, slots)
    place = _NONE if _grouped(codes, len(tree.end)) else np.lexsort(codes[::-1])
    nodes = np.empty((10, prompts * depth), np.int64)
    items = np.empty((2, prompts), np.int64)
    current = np.zeros((prompts, depth), np.int64)
    count, size, missing = _trie(
        codes, lengths, slots, strip_of, steps, place, tree.end, nodes, items, current
    )
    return Outline(
        batches=whole,
        strips=strips,
        size=size,
        missing=missing,
        length=nodes[0, :count],
        position=nodes[1, :count],
        slot=nodes[2, :count],
        strip=nodes[3, :count],
        level=nodes[4, :count],
        item=nodes[5, :count],
        parent=nodes[6, :count],
        begin=nodes[7, :count],
        end=nodes[8, :count],
        steps=nodes[9, :count],
        start=codes[0],
        row=items[0],
        tokens=items[1],
        strip_of=strip_of,
        current=current,
    )


def _strips(batches: Sequence[Batch], tree: Tree) -> list[tuple[Batch, list[Strip]]]:
    """The batches with their strips, the items of each level together."""
    found, at = list[tuple[Batch, list[Strip]]](), 0
    for batch in batches:
        path, strips = batch.job.paths[batch.ask], list[Strip]()
        begins, parted = _runs(batch.nodes, tree.level, tree.offset)
        if len(begins) > len(set(tree.level[batch.nodes[begins]].tolist())):
            batch = batch.part(tree.level[batch.nodes].argsort(kind="stable"))
            begins, parted = _runs(batch.nodes, tree.level, tree.offset)
        firsts = tree.level[batch.nodes[begins]].tolist()
        for first, (begin, end) in zip(firsts, pairwise([*begins.tolist(), len(batch)]), strict=True):
            part = batch if len(firsts) == 1 else batch.part(slice(begin, end))
            strips.append(Strip(part, path, first, at + begin, parted))
        found.append((batch, strips))
        at += len(batch)
    every = [strip for _, strips in found for strip in strips]
    for strip in every:
        others = [other for other in every if other is not strip and other.first == strip.first]
        strip.cells = _cells(
            strip, {step.kind for other in others for step in other.path.steps[strip.first :]}
        )
    return found


def _cells(strip: Strip, shared: set[Kind]) -> tuple[Cell, ...]:
    """Group a strip's steps. shared: kinds of which other strips have nodes too."""
    path, first = strip.path, strip.first
    cuts = [first]
    for level in range(first + 1, len(path.steps)):
        before = path.steps[level - 1].kind
        apart = before in shared or path.stands_out(level - 1) or (strip.parted and level == first + 1)
        if apart or path.steps[level].side is not None:
            cuts.append(level)
    known = path.cells.get(tuple(cuts))
    if known is None:
        ends = [*cuts[1:], len(path.steps)]
        cells = tuple(_cell(path, begin, end) for begin, end in zip(cuts, ends, strict=True) if begin < end)
        known = path.cells[tuple(cuts)] = cells
    return known


def _cell(path: Path, begin: int, end: int) -> Cell:
    literals = [tokens for step in path.steps[begin:end] if (tokens := step.kind.tokens) is not None]
    return Cell(path.steps[begin], end, np.concatenate(literals) if literals else np.empty(0, np.int32))


def _fill_in(strip: Strip, tree: Tree, codes: TableOut, lengths: TableOut, slots: TokenTable) -> None:
    batch, where = strip.batch, strip.where
    for n, cell in enumerate(strip.cells):
        code = strip.path.steps[cell.end - 1].kind.id << 32
        side = cell.step.side
        if side is None:
            codes[n + 1, where] = code
            lengths[n, where] = len(cell.tail)
            slots[n, where] = HOLLOW
            continue
        rows = batch.rows if cell.step.ours else batch.partners
        assert rows is not None
        texts = side.column.lengths
        _fill_column(
            codes[n + 1], lengths[n], slots[n], strip.begin, code + 1, len(cell.tail), side.slots, rows, texts
        )
    if strip.cells and strip.parted:
        lengths[0, where] -= tree.offset[batch.nodes]


@kernel
def _runs(nodes: Ints, levels: Ints, offsets: Ints) -> tuple[Ints, bool]:
    """Where runs of nodes of one level begin, and whether some node is part of a segment."""
    begins, count, parted = np.empty(len(nodes), np.int64), 0, False
    for n in range(len(nodes)):
        if n == 0 or levels[nodes[n]] != levels[nodes[n - 1]]:
            begins[count] = n
            count += 1
        parted = parted or offsets[nodes[n]] > 0
    return begins[:count], parted


@kernel
def _fill_column(
    codes: IntsOut,
    lengths: IntsOut,
    found: TokensOut,
    begin: int,
    code: int,
    tail: int,
    slots: Tokens,
    rows: Ints,
    texts: Tokens,
) -> None:
    """Write one column cell of a strip; a slot below 0 stands for a text without tokens.

    Such a prompt comes last: what goes on then follows what it goes on from, in one segment.
    """
    for n in range(len(rows)):
        slot = slots[rows[n]]
        found[begin + n] = slot
        codes[begin + n] = code + (slot if slot >= 0 else _LAST)
        lengths[begin + n] = tail + (texts[slot] if slot >= 0 else 0)


@kernel
def _grouped(codes: Table, nodes: int) -> bool:
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
def _trie(
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
def _new_nodes(current: Table, begin: int, count: int, cell: int, known: FlagsOut) -> tuple[Ints, Ints]:
    """Outline.new_nodes for `count` prompts from `begin` on."""
    which, nodes, found = np.empty(count, np.int64), np.empty(count, np.int64), 0
    for n in range(count):
        node = current[begin + n, cell] - 1
        if not known[node]:
            known[node] = True
            which[found], nodes[found] = n, node
            found += 1
    return which[:found], nodes[:found]
