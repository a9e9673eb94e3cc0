"""The room that is needed goes in; what costs least to compute again leaves the arena."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from covey_engine.prefill.scheduling.batches import Batch
from covey_engine.prefill.scheduling.tree import Nodes, Tree


def make_room(tree: Tree, tokens: int, pinned: Nodes, batches: Iterable[Batch]) -> None:
    """Evict until `tokens` are free or nothing is left but the pinned nodes and those above them.

    batches: all items that hold nodes; they hold what is left of their prompts afterwards.
    """
    holders = [batch for batch in batches if batch.held is not None]
    safe = np.zeros(len(tree.parent), np.bool_)
    while pinned.any():
        safe[pinned] = True
        pinned = tree.parent[pinned]
    while tree.arena.free < tokens:
        nodes = tree.used()
        nodes = nodes[(tree.children[nodes] == 0) & ~safe[nodes]]
        if len(nodes) == 0:
            return
        # Those that one item holds first, and of them the ones with the least before them to attend to.
        order = np.lexsort((tree.end[nodes], tree.holds[nodes] != 1))
        freed = np.cumsum(tree.length[nodes[order]])
        count = int(np.searchsorted(freed, tokens - tree.arena.free)) + 1
        _evict(tree, nodes[order[:count]], holders)


def _evict(tree: Tree, nodes: Nodes, holders: Iterable[Batch]) -> None:
    gone = np.zeros(len(tree.parent), np.bool_)
    gone[nodes] = True
    tree.evict(nodes)
    for batch in holders:
        assert batch.held is not None
        dead = gone[batch.held]
        if dead.any():
            before = np.zeros(len(batch), np.int64) if batch.lost is None else batch.lost
            batch.lost = np.maximum(before, np.where(dead, tree.end[batch.held], 0))
            batch.held = np.where(dead, tree.parent[batch.held], batch.held)
