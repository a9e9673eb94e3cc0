"""The batches of a chunk go in; out comes the trie of what they must compute, as arrays in depth-first order.

Every prompt is a row of codes: the node it starts from, then one code a cell, which is a segment, or a segment with the
literals after it where nothing can part them. Sorted, prompts that begin alike are neighbours, and a node of the trie
stands wherever a code or one before it differs from the row above.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.scheduling.batches import Batch
from covey_engine.prefill.scheduling.groups import Ints, Slots
from covey_engine.prefill.scheduling.jobs import Path, Step
from covey_engine.prefill.scheduling.kinds import Kind
from covey_engine.prefill.scheduling.prepare import HOLLOW
from covey_engine.prefill.scheduling.tree import Tree

_END = -1


@dataclass(frozen=True, eq=False)
class Cell:
    """Neighbouring segments that make up one node: one of any type, then literals.

    end: how many steps of the path are complete with it; tail: the tokens of the literals after the first segment.
    """

    step: Step
    end: int
    tail: tuple[NDArray[np.int32], ...]
    tail_length: int


@dataclass(eq=False)
class Strip:
    """Items of one batch whose prompts start equally deep.

    first: the first step that is not in the arena; where: the items' rows in the outline.
    """

    batch: Batch
    path: Path
    first: int
    where: Ints | slice
    cells: tuple[Cell, ...] = ()

    def cell_after(self, steps: int) -> int:
        """The cell that ends after so many steps of the path."""
        return next(n for n, cell in enumerate(self.cells) if cell.end == steps)


@dataclass(eq=False)
class Outline:
    """A forest of nodes to compute (int64 [nodes], in depth-first order) under the prompts' start nodes.

    length, position: tokens of each node and position of the first in the prompt; slot: HOLLOW for a literal; strip,
    level: which strip's cell `level` it is; item: its first prompt; parent: index of the node above, -1 where that is
    the prompt's start; begin: its first row in the chunk, with one row a token; until: the prompt after its last one;
    end: the row after its last descendant's. size: rows together. By prompt (int64 [prompts]): start: its start node;
    row: its last row in the chunk, -1 for none; tokens: its length; place: where the strips, one after another, have
    it, None where that is the same; strip_of: its strip. current: [prompts, cells], the node of a prompt at each cell,
    plus one.
    """

    strips: list[Strip]
    size: int
    length: Ints
    position: Ints
    slot: Slots
    strip: Ints
    level: Ints
    item: Ints
    parent: Ints
    begin: Ints
    until: Ints
    end: Ints
    start: Ints
    row: Ints
    tokens: Ints
    place: Ints | None
    strip_of: Ints
    current: Ints

    def nodes_at(self, strip: Strip, cell: int) -> tuple[Ints, Ints]:
        """The nodes that a strip's items are the first to need in one cell: indices into the batch, and nodes."""
        nodes = self.current[strip.where, cell] - 1
        rows = (
            np.arange(strip.where.start, strip.where.stop) if isinstance(strip.where, slice) else strip.where
        )
        own = (self.item[nodes] == rows).nonzero()[0]
        return own, nodes[own]

    def over(self, reduce: np.ufunc, values: Ints) -> Ints:
        """For each node, the values of its prompts reduced to one."""
        result = np.empty(len(self.length), np.int64)
        padded = np.concatenate([values, values[-1:]])
        for level in range(self.current.shape[1]):
            nodes = (self.level == level).nonzero()[0]
            if len(nodes):
                edges = np.empty(2 * len(nodes), np.int64)
                edges[::2], edges[1::2] = self.item[nodes], self.until[nodes]
                result[nodes] = reduce.reduceat(padded, edges)[::2]
        return result


def outline(batches: Sequence[Batch], tree: Tree) -> Outline:
    """Lay out the prompts of some batches as a trie."""
    strips = _strips(batches, tree)
    shape = (sum(len(strip.batch) for strip in strips), max(1, *(len(strip.cells) for strip in strips)))
    table = _Table(strips, shape, tree)
    table.sort()
    return table.trie(tree)


def _strips(batches: Sequence[Batch], tree: Tree) -> list[Strip]:
    strips, at = [], 0
    for batch in batches:
        levels = tree.level[batch.nodes]
        low = int(levels[0])
        alike = [low] if (levels == low).all() else sorted(set(levels.tolist()))
        for level in alike:
            part = batch if len(alike) == 1 else batch.part(levels == level)
            path = batch.job.paths[batch.ask]
            strips.append(Strip(part, path, level, slice(at, at + len(part))))
            at += len(part)
    used = Counter((strip.first, step.kind) for strip in strips for step in strip.path.steps[strip.first :])
    for strip in strips:
        broken = bool(tree.offset[strip.batch.nodes].any())
        shared = {kind for (first, kind), n in used.items() if first == strip.first and n > 1}
        strip.cells = _cells(strip, shared, broken)
    return strips


def _cells(strip: Strip, shared: set[Kind], broken: bool) -> tuple[Cell, ...]:
    """Group a strip's steps. broken: some prompts start within a segment, whose rest is then a cell of its own."""
    path, cells = strip.path, list[Cell]()
    for level in range(strip.first, len(path.steps)):
        step = path.steps[level]
        tokens = step.kind.tokens
        before = path.steps[level - 1].kind
        alone = not cells or before in shared or path.stands_out(level - 1) or (broken and len(cells) == 1)
        if tokens is None or alone:
            cells.append(Cell(step, level + 1, (), 0))
        else:
            last = cells[-1]
            cells[-1] = Cell(last.step, level + 1, (*last.tail, tokens), last.tail_length + len(tokens))
    return tuple(cells)


class _Table:
    """Codes, lengths and slots of prompts by cell; each column one array."""

    def __init__(self, strips: list[Strip], shape: tuple[int, int], tree: Tree) -> None:
        prompts, depth = shape
        self._strips = strips
        self._shape = shape
        self._place: Ints | None = None
        self.codes = np.empty((depth + 1, prompts), np.int64)
        self.lengths = np.zeros((depth, prompts), np.int64)
        self.slots = np.empty((depth, prompts), np.int32)
        self.strip_of = np.zeros(prompts, np.int64)
        if len(strips) > 1:
            self.codes[1:] = _END
        for number, strip in enumerate(strips):
            where = strip.where
            self.strip_of[where] = number
            self.codes[0, where] = strip.batch.nodes
            self._fill(strip)
            if strip.cells:
                self.lengths[0, where] -= tree.offset[strip.batch.nodes]
            else:
                self.codes[1:, where] = _END

    def _fill(self, strip: Strip) -> None:
        batch, where = strip.batch, strip.where
        for n, cell in enumerate(strip.cells):
            step = cell.step
            code = strip.path.steps[cell.end - 1].kind.id << 32
            if step.side is None:
                assert step.kind.tokens is not None
                self.codes[n + 1, where] = code
                self.lengths[n, where] = len(step.kind.tokens) + cell.tail_length
                self.slots[n, where] = HOLLOW
                continue
            rows = batch.rows if step.ours else batch.partners
            assert rows is not None
            slots = step.side.slots[rows]
            self.slots[n, where] = slots
            np.add(slots, np.int64(code + 1), out=self.codes[n + 1, where])
            np.add(step.side.lengths_of(slots), cell.tail_length, out=self.lengths[n, where])

    def sort(self) -> None:
        """Bring prompts that begin alike together."""
        if self._sorted():
            return
        place = self._place = np.lexsort(self.codes[::-1])
        self.codes, self.lengths = self.codes[:, place], self.lengths[:, place]
        self.slots, self.strip_of = self.slots[:, place], self.strip_of[place]
        where = np.empty(len(place), np.int64)
        where[place] = np.arange(len(place))
        for strip in self._strips:
            strip.where = where[strip.where]

    def _sorted(self) -> bool:
        tied: NDArray[np.bool_] | None = None
        for column in self.codes:
            before, after = column[:-1], column[1:]
            falls = before > after
            if tied is not None:
                falls &= tied
            if falls.any():
                return False
            same = before == after
            tied = same if tied is None else tied & same
            if not tied.any():
                return True
        return True

    def trie(self, tree: Tree) -> Outline:
        """The trie of the sorted prompts."""
        prompts, depth = self._shape
        new = np.empty((prompts, depth), np.bool_)
        differs = np.empty((depth, prompts), np.bool_)
        steps = np.zeros(prompts, np.int64)
        last = np.ones(prompts, np.bool_)
        np.not_equal(self.codes[0, 1:], self.codes[0, :-1], out=last[1:])
        for level in range(depth):
            codes, now = self.codes[level + 1], differs[level]
            now[0] = True
            np.not_equal(codes[1:], codes[:-1], out=now[1:])
            now |= last
            last = now
            there = codes != _END
            steps += there
            np.logical_and(now, there, out=new[:, level])
        flat = new.ravel().nonzero()[0]
        item = flat // depth
        at = flat - item * depth
        length = self.lengths[at, item]
        ends = length.cumsum()
        begin = ends - length
        size = int(ends[-1]) if len(ends) else 0
        current = np.zeros((prompts, depth), np.int64)
        current.ravel()[flat] = np.arange(1, len(flat) + 1)
        np.maximum.accumulate(current, axis=0, out=current)
        parent = np.where(at > 0, current[item, at - 1] - 1, -1) if depth > 1 else np.full(len(flat), -1)
        # The row at which each prompt's own nodes begin, and one more at the end.
        own = np.zeros(prompts + 1, np.int64)
        own[1:] = new.sum(axis=1)
        own = own.cumsum()
        first_row = np.concatenate([begin, [size]])[own]
        until = self._until(differs, at, item)
        start = self.codes[0]
        position = np.zeros((depth + 1, prompts), np.int64)
        position[0] = tree.end[start]
        self.lengths.cumsum(axis=0, out=position[1:])
        position[1:] += position[0]
        leaf = np.where(steps > 0, current[np.arange(prompts), steps - 1] - 1, -1)
        return Outline(
            strips=self._strips,
            size=size,
            length=length,
            position=position[at, item],
            slot=self.slots[at, item],
            strip=self.strip_of[item],
            level=at,
            item=item,
            parent=parent,
            begin=begin,
            until=until,
            end=first_row[until],
            start=start,
            row=_last_rows(leaf, parent, ends, length),
            tokens=position[-1],
            place=self._place,
            strip_of=self.strip_of,
            current=current,
        )

    def _until(self, differs: NDArray[np.bool_], level: Ints, item: Ints) -> Ints:
        """The prompt after the last one of each node: the next that differs at its level or above."""
        prompts, depth = self._shape
        until = np.empty(len(level), np.int64)
        following = np.empty(prompts, np.int64)
        for number in range(depth):
            edges = differs[number].nonzero()[0]
            following[edges[:-1]] = edges[1:]
            following[edges[-1]] = prompts
            here = (level == number).nonzero()[0]
            until[here] = following[item[here]]
        return until


def _last_rows(leaf: Ints, parent: Ints, ends: Ints, length: Ints) -> Ints:
    """The last row of each prompt: that of its last node with tokens; -1 for none."""
    if len(length) == 0:
        return np.full(len(leaf), -1)
    if length.min() == 0:
        while True:
            hollow = (leaf >= 0) & (length[leaf] == 0)
            if not hollow.any():
                break
            leaf = np.where(hollow, parent[leaf], leaf)
    return np.where(leaf >= 0, ends[leaf] - 1, -1)
