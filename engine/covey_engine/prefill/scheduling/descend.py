"""Rows of an order and nodes go in; out come the deepest nodes of their prompts that are in the arena."""

from __future__ import annotations

import numpy as np

from covey_engine.prefill.scheduling.groups import Ints
from covey_engine.prefill.scheduling.jobs import Path
from covey_engine.prefill.scheduling.kinds import Kind, key
from covey_engine.prefill.scheduling.prepare import HOLLOW
from covey_engine.prefill.scheduling.tree import Nodes, Tree


def descend(tree: Tree, path: Path, rows: Ints, nodes: Nodes | None) -> Nodes:
    """Follow each row's prompt from its node (None: from the top), as far as it does not depend on the partner."""
    if nodes is None:
        level, node = _through_literals(tree, path)
        nodes = np.full(len(rows), node)
        if level is None:
            return nodes
        passed = np.full(len(rows), level)
    else:
        passed = tree.level[nodes]
        nodes = nodes.copy()
        level = int(passed.min(initial=0))
    for here_level in range(level, path.fixed):
        step = path.steps[here_level]
        hollow = step.side is not None and step.side.hollow
        if not step.kind.live and not hollow:
            if (passed <= here_level).all():
                break
            continue
        here = (passed == here_level).nonzero()[0]
        if len(here):
            _advance(tree, path, here_level, rows, nodes, passed, here)
    return nodes


def _through_literals(tree: Tree, path: Path) -> tuple[int | None, int]:
    """The level and node at the first column segment; no level where the way ends before it."""
    node = 0
    for level, step in enumerate(path.steps[: path.fixed]):
        if step.side is not None:
            return (level, node) if step.kind.live or step.side.hollow else (None, node)
        node, complete = _step(tree, step.kind, node, -1)
        if not complete:
            return None, node
    return None, node


def _advance(tree: Tree, path: Path, level: int, rows: Ints, nodes: Nodes, passed: Ints, here: Ints) -> None:
    """Take one segment, in place."""
    step = path.steps[level]
    if step.side is None:
        slots = [-1] * len(here)
    else:
        theirs = step.side.slots[rows[here]]
        if step.side.hollow:
            passed[here[theirs == HOLLOW]] += 1
            here, theirs = here[theirs != HOLLOW], theirs[theirs != HOLLOW]
        slots = theirs.tolist()
    found = [
        _step(tree, step.kind, node, slot) for node, slot in zip(nodes[here].tolist(), slots, strict=True)
    ]
    if found:
        reached, complete = zip(*found, strict=True)
        nodes[here] = reached
        passed[here] += np.array(complete)


def _step(tree: Tree, kind: Kind, node: int, slot: int) -> tuple[int, bool]:
    """The node one segment further, over the parts of a long one, and whether all of it is there."""
    child = kind.live.get(key(node, slot))
    while child is not None and tree.offset[child]:
        node, child = child, kind.live.get(key(child, slot))
    return (node, False) if child is None else (child, True)
