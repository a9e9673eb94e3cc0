"""Batches go in; out come strips of items whose prompts start equally deep, each cut into cells, and the cells' codes.

A cell is a segment, or a segment with the literals after it where nothing can part them. Cells of equal codes after
equal ones are one node of the trie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from covey_engine.prefill.scheduling.batches import Batch
from covey_engine.prefill.scheduling.compiled import (
    Ints,
    IntsOut,
    TableOut,
    Tokens,
    TokensOut,
    TokenTableOut,
    kernel,
)
from covey_engine.prefill.scheduling.paths import Path, Step, path_alike
from covey_engine.prefill.scheduling.tree import Tree

_LAST = (1 << 31) - 1


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
    parted: whether some may start within a segment, whose rest is then a cell of its own. number: of the first of its
    cells, counted strip after strip.
    """

    batch: Batch
    path: Path
    first: int
    begin: int
    parted: bool
    cells: tuple[Cell, ...] = ()
    number: int = 0

    @property
    def where(self) -> slice:
        """The items in the outline."""
        return slice(self.begin, self.begin + len(self.batch))

    def cell_after(self, steps: int) -> int:
        """The cell that ends after so many steps of the path."""
        return next(n for n, cell in enumerate(self.cells) if cell.end == steps)


def strips_of(batches: Sequence[Batch], tree: Tree) -> list[tuple[Batch, list[Strip]]]:
    """The batches with their strips, the items of each level together."""
    found, at = list[tuple[Batch, list[Strip]]](), 0
    for batch in batches:
        path, strips = batch.job.paths[batch.ask], list[Strip]()
        levels, begins, parted = _runs(batch.nodes, tree.level, tree.offset)
        firsts = levels.tolist()
        if len(firsts) == 1:
            found.append((batch, [Strip(batch, path, firsts[0], at, parted)]))
            at += len(batch)
            continue
        if len(firsts) > len(set(firsts)):
            batch = batch.part(tree.level[batch.nodes].argsort(kind="stable"))
            levels, begins, parted = _runs(batch.nodes, tree.level, tree.offset)
            firsts = levels.tolist()
        for first, (begin, end) in zip(firsts, pairwise([*begins.tolist(), len(batch)]), strict=True):
            strips.append(Strip(batch.part(slice(begin, end)), path, first, at + begin, parted))
        found.append((batch, strips))
        at += len(batch)
    every, number = [strip for _, strips in found for strip in strips], 0
    for strip in every:
        others = (other for other in every if other is not strip and other.first == strip.first)
        shared = max((path_alike(strip.path, other.path) for other in others), default=0)
        key = strip.first, strip.parted, shared
        strip.cells = strip.path.cells.get(key) or _cells(strip, shared)
        strip.path.cells[key], strip.number = strip.cells, number
        number += len(strip.cells)
    return found


def _cells(strip: Strip, shared: int) -> tuple[Cell, ...]:
    """Group a strip's steps. shared: the first steps that other strips have, too."""
    path, first = strip.path, strip.first
    cuts = [first]
    for level in range(first + 1, len(path.steps)):
        apart = level <= shared or path.stands_out(level - 1) or (strip.parted and level == first + 1)
        if apart or path.steps[level].side is not None:
            cuts.append(level)
    ends = [*cuts[1:], len(path.steps)]
    return tuple(_cell(path, begin, end) for begin, end in zip(cuts, ends, strict=True) if begin < end)


def _cell(path: Path, begin: int, end: int) -> Cell:
    literals = [tokens for step in path.steps[begin:end] if (tokens := step.kind.tokens) is not None]
    return Cell(path.steps[begin], end, np.concatenate(literals) if literals else np.empty(0, np.int32))


def fill_in(strip: Strip, tree: Tree, codes: TableOut, lengths: TokenTableOut) -> None:
    """Write the codes [1 + cells, items] and lengths [cells, items] of a strip's cells."""
    batch, where = strip.batch, strip.where
    for n, cell in enumerate(strip.cells):
        code = strip.path.steps[cell.end - 1].kind.id << 32
        side = cell.step.side
        if side is None:
            codes[n + 1, where] = code
            lengths[n, where] = len(cell.tail)
            continue
        rows = batch.rows if cell.step.ours else batch.partners
        assert rows is not None
        texts = side.column.lengths
        _fill_column(codes[n + 1], lengths[n], strip.begin, code + 1, len(cell.tail), side.slots, rows, texts)
    if strip.cells and strip.parted:
        lengths[0, where] -= tree.offset[batch.nodes]


@kernel
def _runs(nodes: Ints, levels: Ints, offsets: Ints) -> tuple[Ints, Ints, bool]:
    """Runs of nodes of one level: it and where each begins; whether some node is part of a segment."""
    found, begins, count, parted = np.empty(len(nodes), np.int64), np.empty(len(nodes), np.int64), 0, False
    for n in range(len(nodes)):
        if n and nodes[n] == nodes[n - 1]:
            continue
        level = levels[nodes[n]]
        if count == 0 or level != found[count - 1]:
            found[count], begins[count] = level, n
            count += 1
        parted = parted or offsets[nodes[n]] > 0
    return found[:count], begins[:count], parted


@kernel
def _fill_column(
    codes: IntsOut,
    lengths: TokensOut,
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
        codes[begin + n] = code + (slot if slot >= 0 else _LAST)
        lengths[begin + n] = tail + (texts[slot] if slot >= 0 else 0)
