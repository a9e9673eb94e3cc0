"""Rows of an order and nodes go in; out come the deepest nodes of their prompts that are in the arena."""

from __future__ import annotations

import numpy as np

from covey_engine.prefill.scheduling.groups import Ints
from covey_engine.prefill.scheduling.paths import Path
from covey_engine.prefill.scheduling.sides import HOLLOW
from covey_engine.prefill.scheduling.tree import Nodes, Tree


def descend(tree: Tree, path: Path, rows: Ints, nodes: Nodes | None) -> Nodes:
    """Follow each row's prompt from its node (None: from the top), as far as it does not depend on the partner."""
    found = np.zeros(len(rows), np.int64) if nodes is None else nodes.copy()
    slots = np.empty((len(path.sides), len(rows)), np.int32)
    for number, side in enumerate(path.sides):
        side.slots.take(rows, out=slots[number], mode="clip")
    tree.names.descend(path.kinds, path.columns, slots, HOLLOW, found, tree.level, tree.offset)
    return found
