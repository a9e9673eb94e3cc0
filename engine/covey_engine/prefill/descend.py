"""Rows of an order and nodes go in; out come the deepest nodes of their prompts that are in the arena."""

from __future__ import annotations

import numpy as np

from covey_engine.prefill.groups import Ints
from covey_engine.prefill.jobs import Path
from covey_engine.prefill.kinds import Kind, key
from covey_engine.prefill.prepare import HOLLOW
from covey_engine.prefill.tree import Nodes, Tree


def descend(tree: Tree, path: Path, rows: Ints, nodes: Nodes) -> Nodes:
    """Follow each row's prompt from its node on, as far as it does not depend on the partner."""
    passed = tree.level[nodes]
    for level, step in enumerate(path.steps[: path.fixed]):
        here = np.flatnonzero(passed == level)
        if len(here) == 0:
            continue
        if step.side is None:
            slots = np.full(len(here), -1)
            hollow = np.zeros(len(here), np.bool_)
        else:
            slots = step.side.slots[rows[here]]
            hollow = slots == HOLLOW
        passed[here[hollow]] += 1
        if not step.kind.live:
            if not hollow.any():
                break
            continue
        here, slots = here[~hollow], slots[~hollow]
        found, complete = _step(tree, step.kind, nodes[here], slots)
        nodes = nodes.copy()
        nodes[here] = found
        passed[here[complete]] += 1
    return nodes


def _step(tree: Tree, kind: Kind, nodes: Nodes, slots: Ints) -> tuple[Nodes, Ints]:
    """One segment further, over the parts of a long one; the nodes reached, and which rows have it whole."""
    live = kind.live
    reached, complete = [], []
    for node, slot in zip(nodes.tolist(), slots.tolist(), strict=True):
        child = live.get(key(node, slot))
        while child is not None and tree.offset[child]:
            node, child = child, live.get(key(child, slot))
        complete.append(child is not None)
        reached.append(node if child is None else child)
    return np.array(reached, np.int64), np.array(complete, np.bool_)
