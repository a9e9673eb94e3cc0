"""A chunk's trie goes in; out comes what sharing whole segments only would have computed on top of it.

A text that is cut into pieces is new where its last piece is: as a whole segment it would then be computed from its
first token on, whatever other texts left there. What the chunk computes of it instead is the new ones of its pieces.
A text that ends within others has no last piece of its own: the tree notes where it ended, so that it is new but once.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from covey_engine.prefill.api import Figures
from covey_engine.prefill.scheduling.batches import Batch
from covey_engine.prefill.scheduling.compiled import Ints
from covey_engine.prefill.scheduling.jobs import Job
from covey_engine.prefill.scheduling.outline import Outline
from covey_engine.prefill.scheduling.retain import Retention
from covey_engine.prefill.scheduling.sides import HOLLOW
from covey_engine.prefill.scheduling.strips import Strip
from covey_engine.prefill.scheduling.tree import Tree


def add_savings(costs: dict[Job, Figures], plan: Outline, kept: Retention, tree: Tree) -> dict[Job, Figures]:
    """Add the tokens that pieces saved to what each job pays for a chunk."""
    for strip in plan.strips:
        saved = sum(_saved(plan, kept, tree, strip, first, last) for first, last in strip.path.texts)
        if saved:
            job = strip.batch.job
            costs[job] = replace(costs[job], prefix_tokens_saved=costs[job].prefix_tokens_saved + saved)
    return costs


def found_before(item: Batch, tree: Tree) -> int:
    """Of one item that is about to begin at its node, the tokens of a text there that other texts left."""
    node = item.nodes
    reached = int(tree.level[node[0]])
    for first, last in item.job.paths[item.ask].texts:
        if first <= reached <= last and not _begun(item, tree, first):
            if int(node[0]) in tree.ended and _ends(item, reached, last):
                return 0
            return int((tree.end[node] - tree.end[tree.climb(node, first)])[0])
    return 0


def note_end(item: Batch, level: int, node: int, tree: Tree) -> None:
    """Note that one item's prompt comes to a node whose next segment is one without tokens: a text may end there."""
    if any(level == last for _, last in item.job.paths[item.ask].texts):
        tree.ended.add(node)


def _ends(item: Batch, level: int, last: int) -> bool:
    """Whether nothing is left of one item's text from a step on."""
    for step in item.job.paths[item.ask].steps[level : last + 1]:
        rows = item.rows if step.ours else item.partners
        assert rows is not None
        assert step.side is not None
        if step.side.slots[rows[0]] != HOLLOW:
            return False
    return True


def _begun(batch: Batch, tree: Tree, step: int) -> bool:
    """Whether items hold some of the text that begins at a step: they were counted when they first came to it.

    What another pair left for them is not theirs yet.
    """
    if batch.held is None or batch.follows:
        return False
    level, offset = tree.level[batch.held], tree.offset[batch.held]
    return bool(((level > step) | ((level == step) & (offset > 0))).any())


def _saved(plan: Outline, kept: Retention, tree: Tree, strip: Strip, first: int, last: int) -> int:
    """What one text's pieces saved in the nodes that a strip was the first to need."""
    if strip.first > last:
        return 0
    path = strip.path.steps
    numbers = [n for n, cell in enumerate(strip.cells, strip.number) if cell.step in path[first : last + 1]]
    ends = _new_ends(plan, kept, tree, (plan.cell == numbers[-1]).nonzero()[0])
    inside = strip.first > first or (strip.first == first and bool(tree.offset[strip.batch.nodes].any()))
    if len(ends) == 0 or (inside and _begun(strip.batch, tree, first)):
        return 0
    before = (plan.cell >= numbers[0]) & (plan.cell < numbers[-1])
    computed = int(plan.length[before].sum()) + int(plan.length[ends].sum())
    stops = plan.position[ends] + plan.length[ends]
    begins = ends
    for _ in numbers[1:]:
        begins = plan.parent[begins]
    starts = plan.position[begins]
    if inside:
        starts = tree.end[tree.climb(plan.root[ends], first)]
    # Literals in the last piece's cell are in both.
    return int((stops - starts).sum()) - computed


def _new_ends(plan: Outline, kept: Retention, tree: Tree, ends: Ints) -> Ints:
    """Of nodes with the last pieces of texts, those whose text did not end there before; notes where it does."""
    hollow = (plan.slot[ends] == HOLLOW).nonzero()[0]
    if not len(hollow):
        return ends
    nodes = kept.above(ends[hollow])
    there = tree.end[nodes] == plan.position[ends[hollow]]
    known = np.zeros(len(ends), np.bool_)
    for n, node in zip(hollow[there].tolist(), nodes[there].tolist(), strict=True):
        known[n] = node in tree.ended
        tree.ended.add(node)
    return ends[~known]
