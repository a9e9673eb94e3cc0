"""Items of a job go in; out comes what they cost in tokens and memory, and how many of them fit into a chunk."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from covey_engine.prefill.scheduling.batches import Batch
from covey_engine.prefill.scheduling.compiled import Ints, IntsOut, kernel
from covey_engine.prefill.scheduling.descend import descend
from covey_engine.prefill.scheduling.paths import Path
from covey_engine.prefill.scheduling.sides import HOLLOW
from covey_engine.prefill.scheduling.tree import Tree

_NONE = np.empty(0, np.int64)


@dataclass(eq=False)
class Draft:
    """What is chosen for a chunk so far.

    room: tokens that still fit; memory: tokens that may still be kept for items which go on, beyond the first item if
    `force`. alone: only one order's items are wanted. starved: memory kept something out; long: an item whose prompt is
    longer than a chunk, taken from its job.
    """

    room: int
    memory: int
    force: bool = False
    alone: bool = False
    batches: list[Batch] = field(default_factory=list)
    starved: bool = False
    long: Batch | None = None


@dataclass(eq=False)
class Offer:
    """Items with their prompts' lengths, what each costs in tokens, and how many it asks to keep."""

    batch: Batch
    lengths: Ints
    costs: Ints
    kept: Ints | None

    def fitting(self, draft: Draft, want: int) -> int:
        """How many of the first items fit; one more than `want` allows, so that a slice is never empty."""
        count = _within(self.costs, draft.room)
        if want < draft.room:
            count = min(count, _within(self.costs, want) + 1)
        if self.kept is not None:
            able = _within(self.kept, max(draft.memory, 0))
            if draft.force and not draft.batches:
                able = max(able, 1)
            draft.starved |= able < count
            count = min(count, able)
        return count


@dataclass(eq=False)
class Meeting:
    """Fresh rows of another job that meet rows which are drawn: with which of those, and their cost beside them."""

    offer: Offer
    drivers: Ints


def make_offer(tree: Tree, batch: Batch) -> Offer:
    """Find the items' nodes and what they cost; items of one row share what comes before the partner."""
    path, rows, held = batch.job.paths[batch.ask], batch.rows, batch.held
    if batch.partners is None:
        batch.nodes = descend(tree, path, rows, held)
        base = _ends(batch.nodes, tree.end)
        lengths = path.start.lengths(rows, None)
    else:
        base, lengths = _share(tree, batch)
        if batch.job.prepared.trie is not None:
            again = _repeated(path, batch)
            shared = again + path.start.lengths(rows[1:], None)
            base[1:] = np.where(again > 0, np.maximum(base[1:], shared), base[1:])
    costs = _price(lengths, base, path.leading)
    kept = None
    if path.after:
        kept = np.maximum(path.held.lengths(rows, batch.partners) - base, 0)
    ending = batch.job.ending
    if ending is not None and ending.waves is not None:
        # What comes before the partner stays until the row's next wave.
        more = ending.waves.next[rows] < ending.waves.end[rows]
        ours = np.maximum(path.start.lengths(rows, None) - base, 0) * more
        kept = ours if kept is None else np.maximum(kept, ours)
    return Offer(batch, lengths, costs, kept)


def _share(tree: Tree, batch: Batch) -> tuple[Ints, Ints]:
    """Of pairs, find the nodes; how much of each is there once those before it are, and their lengths."""
    path, rows, held = batch.job.paths[batch.ask], batch.rows, batch.held
    heads = _heads(rows, _NONE if held is None else held)
    nodes = descend(tree, path, rows[heads], None if held is None else held[heads])
    fixed, lengths = path.start.lengths(rows[heads], None), path.rest.lengths(rows, batch.partners)
    batch.nodes, base = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    _spread(heads, nodes, tree.end[nodes], fixed, batch.nodes, base, lengths)
    return base, lengths


@kernel
def _ends(nodes: Ints, end: Ints) -> Ints:
    """The end of each node."""
    ends = np.empty(len(nodes), np.int64)
    for n in range(len(nodes)):
        ends[n] = end[nodes[n]]
    return ends


@kernel
def _price(lengths: Ints, base: IntsOut, leading: int) -> Ints:
    """What prompts cost of which the base is there: a token at least.

    What all of them begin with is computed once: for all but the first it is there, and written so.
    """
    costs = np.empty(len(lengths), np.int64)
    for n in range(len(lengths)):
        if n:
            base[n] = max(base[n], leading)
        costs[n] = max(lengths[n] - base[n], 1)
    return costs


@kernel
def _within(amounts: Ints, most: int) -> int:
    """How many of the first amounts are `most` at most together."""
    total = 0
    for n in range(len(amounts)):
        total += amounts[n]
        if total > most:
            return n
    return len(amounts)


@kernel
def _heads(rows: Ints, held: Ints) -> Ints:
    """The first pair of each run of one row and, unless `held` is empty, one node."""
    heads, count = np.empty(len(rows), np.int64), 0
    for n in range(len(rows)):
        if n == 0 or rows[n] != rows[n - 1] or (len(held) and held[n] != held[n - 1]):
            heads[count] = n
            count += 1
    return heads[:count]


@kernel
def _spread(
    heads: Ints, nodes: Ints, resident: Ints, fixed: Ints, found: IntsOut, base: IntsOut, lengths: IntsOut
) -> None:
    """Write each pair's node and base, by what its head has: the node, its end, the length before the partner.

    lengths: from the partner on, before; of the whole prompts, after.
    """
    for head in range(len(heads)):
        end = heads[head + 1] if head + 1 < len(heads) else len(base)
        for n in range(heads[head], end):
            found[n], base[n] = nodes[head], max(resident[head], fixed[head])
            lengths[n] += fixed[head]
        base[heads[head]] = resident[head]


def _repeated(path: Path, batch: Batch) -> Ints:
    """How many of the partner's tokens each pair but the first begins with like the one before it."""
    rows, partners = batch.rows, batch.partners
    assert partners is not None
    alike = rows[1:] == rows[:-1]
    if batch.held is not None:
        alike &= batch.held[1:] == batch.held[:-1]
    total = np.zeros(len(alike), np.int64)
    for step in path.steps[path.fixed :]:
        if step.side is None:
            assert step.kind.tokens is not None
            total += alike * len(step.kind.tokens)
            continue
        slots = step.side.slots[rows if step.ours else partners]
        alike = alike & (slots[1:] == slots[:-1])
        total += alike * np.where(slots[1:] == HOLLOW, 0, step.side.column.lengths[slots[1:]])
    return total
