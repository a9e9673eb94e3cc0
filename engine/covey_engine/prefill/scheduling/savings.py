"""A chunk's trie goes in; out comes what sharing whole segments only would have computed on top of it.

A text that is cut into pieces is new where its last piece is: as a whole segment it would then be computed from its
first token on, whatever other texts left there. What the chunk computes of it instead is the new ones of its pieces.
"""

from __future__ import annotations

from dataclasses import replace

from covey_engine.prefill.api import Figures
from covey_engine.prefill.scheduling.batches import Batch
from covey_engine.prefill.scheduling.jobs import Job
from covey_engine.prefill.scheduling.outline import Outline
from covey_engine.prefill.scheduling.strips import Strip
from covey_engine.prefill.scheduling.tree import Tree


def add_savings(costs: dict[Job, Figures], plan: Outline, tree: Tree) -> dict[Job, Figures]:
    """Add the tokens that pieces saved to what each job pays for a chunk."""
    for strip in plan.strips:
        saved = 0
        for first, last in strip.path.texts:
            saved += _saved(plan, tree, strip, first, last)
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
            return int((tree.end[node] - tree.end[tree.climb(node, first)])[0])
    return 0


def _begun(batch: Batch, tree: Tree, step: int) -> bool:
    """Whether items hold some of the text that begins at a step: they were counted when they first came to it.

    What another pair left for them is not theirs yet.
    """
    if batch.held is None or batch.follows:
        return False
    level, offset = tree.level[batch.held], tree.offset[batch.held]
    return bool(((level > step) | ((level == step) & (offset > 0))).any())


def _saved(plan: Outline, tree: Tree, strip: Strip, first: int, last: int) -> int:
    """What one text's pieces saved in the nodes that a strip was the first to need."""
    inside = strip.first > first or (strip.first == first and bool(tree.offset[strip.batch.nodes].any()))
    if strip.first > last or (inside and _begun(strip.batch, tree, first)):
        return 0
    path = strip.path.steps
    numbers = [n for n, cell in enumerate(strip.cells, strip.number) if cell.step in path[first : last + 1]]
    ends = (plan.cell == numbers[-1]).nonzero()[0]
    if len(ends) == 0:
        return 0
    computed = int(plan.length[(plan.cell >= numbers[0]) & (plan.cell <= numbers[-1])].sum())
    stops = plan.position[ends] + plan.length[ends]
    begins = ends
    for _ in numbers[1:]:
        begins = plan.parent[begins]
    starts = plan.position[begins]
    if inside:
        starts = tree.end[tree.climb(plan.root[ends], first)]
    # Literals in the last piece's cell are in both.
    return int((stops - starts).sum()) - computed
