"""The batches of a chunk go in; out comes the trie of what they must compute, as arrays in depth-first order.

Every prompt is a row of codes: the node it starts from, then one code a segment. Sorted, prompts that begin alike are
neighbours, and a new node of the trie stands wherever a row differs from the one before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.batches import Batch
from covey_engine.prefill.groups import Ints
from covey_engine.prefill.tree import Tree

_NO_STEP = -1


@dataclass(eq=False)
class Strip:
    """Items of one batch whose prompts start equally deep.

    first: the first step that is not in the arena; where: the items' rows in the outline.
    """

    batch: Batch
    first: int
    where: Ints | slice

    @property
    def depth(self) -> int:
        """Steps to go."""
        return len(self.batch.job.paths[self.batch.ask].steps) - self.first


@dataclass(eq=False)
class Outline:
    """A forest of nodes to compute (int64 [nodes], in depth-first order) under the prompts' start nodes.

    length, position: tokens of each node and position of the first in the prompt; slot: -1 for a literal; strip,
    level: which strip's step `first + level` it is; item: its first prompt; parent: index of the node above, -1 where
    that is the prompt's start; begin: its first row in the chunk, with one row a token; until: the prompt after its
    last one; end: the row after its last descendant's. By prompt (int64 [prompts]): start: its start node; row: its
    last row in the chunk, -1 for none; tokens: its length; place: where the strips, one after another, have it, None
    where that is the same; strip_of: its strip. current: int64 [prompts, depth], the node of a prompt at each level,
    plus one.
    """

    strips: list[Strip]
    length: Ints
    position: Ints
    slot: NDArray[np.int32]
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

    @property
    def size(self) -> int:
        """Rows of all nodes together."""
        return int(self.length.sum())

    def over(self, reduce: np.ufunc, values: Ints) -> Ints:
        """For each node, the values of its prompts reduced to one."""
        result = np.empty(len(self.length), np.int64)
        for level in range(self.current.shape[1]):
            nodes = np.flatnonzero(self.level == level)
            if len(nodes):
                edges = np.stack([self.item[nodes], self.until[nodes]], 1).ravel()
                padded = np.append(values, values[-1])
                result[nodes] = reduce.reduceat(padded, edges)[::2]
        return result

    def nodes_at(self, strip: Strip, level: int) -> tuple[Ints, Ints]:
        """The nodes that a strip's items are the first to need at one level: indices into the batch, and nodes."""
        nodes = self.current[strip.where, level] - 1
        rows = np.arange(len(self.start))[strip.where]
        own = np.flatnonzero(self.item[nodes] == rows)
        return own, nodes[own]


def outline(batches: Sequence[Batch], tree: Tree) -> Outline:
    """Lay out the prompts of some batches as a trie."""
    strips = _strips(batches, tree)
    codes, lengths, slots = _fill(strips, tree)
    source = _sorted(codes)
    if source is not None:
        codes, lengths, slots = codes[source], lengths[source], slots[source]
        place = np.empty(len(source), np.int64)
        place[source] = np.arange(len(source))
        for strip in strips:
            strip.where = place[strip.where]
    return _trie(strips, codes, lengths, slots, source, tree)


def _strips(batches: Sequence[Batch], tree: Tree) -> list[Strip]:
    strips, at = [], 0
    for batch in batches:
        levels = tree.level[batch.nodes]
        low = int(levels.min())
        if (levels == low).all():
            strips.append(Strip(batch, low, slice(at, at + len(batch))))
            at += len(batch)
            continue
        for level in np.unique(levels).tolist():
            part = batch.part(levels == level)
            strips.append(Strip(part, level, slice(at, at + len(part))))
            at += len(part)
    return strips


def _fill(strips: Sequence[Strip], tree: Tree) -> tuple[Ints, Ints, NDArray[np.int32]]:
    prompts = sum(len(strip.batch) for strip in strips)
    depth = max(1, *(strip.depth for strip in strips)) if strips else 1
    codes = np.full((prompts, depth + 1), _NO_STEP, np.int64)
    lengths = np.zeros((prompts, depth), np.int64)
    slots = np.full((prompts, depth), -1, np.int32)
    for strip in strips:
        batch, where = strip.batch, strip.where
        codes[where, 0] = batch.nodes
        steps = batch.job.paths[batch.ask].steps[strip.first :]
        for level, step in enumerate(steps):
            if step.side is None:
                assert step.kind.tokens is not None
                codes[where, level + 1] = step.kind.id << 32
                lengths[where, level] = len(step.kind.tokens)
                continue
            rows = batch.rows if step.ours else batch.partners
            assert rows is not None
            theirs = step.side.slots[rows]
            slots[where, level] = theirs
            codes[where, level + 1] = (step.kind.id << 32) + 1 + theirs.astype(np.int64)
            lengths[where, level] = step.side.lengths(rows)
        if steps:
            lengths[where, 0] -= tree.offset[batch.nodes]
    return codes, lengths, slots


def _sorted(codes: Ints) -> Ints | None:
    """The order that sorts prompts by their codes; None where they are sorted."""
    if len(codes) < 2:
        return None
    steps = codes[1:] - codes[:-1]
    first = steps[np.arange(len(steps)), (steps != 0).argmax(axis=1)]
    return None if (first >= 0).all() else np.lexsort(codes.T[::-1])


def _trie(
    strips: list[Strip],
    codes: Ints,
    lengths: Ints,
    slots: NDArray[np.int32],
    source: Ints | None,
    tree: Tree,
) -> Outline:
    prompts, depth = lengths.shape
    differs = np.ones((prompts, depth + 1), np.bool_)
    np.not_equal(codes[1:], codes[:-1], out=differs[1:])
    np.logical_or.accumulate(differs, axis=1, out=differs)
    differs = differs[:, 1:]
    new = differs & (codes[:, 1:] != _NO_STEP)
    flat = np.flatnonzero(new)
    item, level = np.divmod(flat, depth)
    length = lengths.ravel()[flat]
    ends = np.cumsum(length)
    begin = ends - length
    begins = np.append(begin, ends[-1] if len(ends) else 0)
    counts = np.count_nonzero(new, axis=1)
    first_row = begins[np.cumsum(counts) - counts]
    current = np.zeros((prompts, depth), np.int64)
    current.ravel()[flat] = np.arange(1, len(flat) + 1)
    np.maximum.accumulate(current, axis=0, out=current)
    above = np.where(level > 0, current[item, level - 1] - 1, -1)
    # A node reaches up to the next prompt that differs from it at its level or above.
    following = np.where(differs, np.arange(prompts)[:, None], prompts)
    following = np.minimum.accumulate(following[::-1], axis=0)[::-1]
    following = np.concatenate([following[1:], np.full((1, depth), prompts)])
    until = following.ravel()[flat]
    end = np.append(first_row, begins[-1])[until]
    steps = np.count_nonzero(codes[:, 1:] != _NO_STEP, axis=1)
    start = codes[:, 0]
    leaf = np.where(steps > 0, current[np.arange(prompts), steps - 1] - 1, -1)
    position = np.cumsum(lengths, axis=1) - lengths
    position += tree.end[start][:, None]
    which = np.repeat(np.arange(len(strips)), [len(strip.batch) for strip in strips])
    if source is not None:
        which = which[source]
    return Outline(
        strips=strips,
        length=length,
        position=position.ravel()[flat],
        slot=slots.ravel()[flat],
        strip=which[item],
        level=level,
        item=item,
        parent=above,
        begin=begin,
        until=until,
        end=end,
        start=start,
        row=_last_rows(leaf, above, ends, length),
        tokens=position[:, -1] + lengths[:, -1],
        place=source,
        strip_of=which,
        current=current,
    )


def _last_rows(leaf: Ints, parent: Ints, ends: Ints, length: Ints) -> Ints:
    """The last row of each prompt: that of its last node with tokens."""
    leaf = leaf.copy()
    while True:
        hollow = (leaf >= 0) & (length[leaf] == 0) if len(length) else np.zeros(len(leaf), np.bool_)
        if not hollow.any():
            return np.where(leaf >= 0, ends[leaf] - 1, -1) if len(ends) else np.full(len(leaf), -1)
        leaf[hollow] = parent[leaf[hollow]]
