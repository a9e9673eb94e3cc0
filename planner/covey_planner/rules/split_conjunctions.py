"""A filter by `a AND b` becomes a filter by a under a filter by b."""

from __future__ import annotations

from covey_planner.logical import All, Filter, Node


def split_conjunctions(node: Node) -> Node | None:
    """Split a conjunction into a chain of filters; its first part is applied first."""
    match node:
        case Filter(input, All(parts)):
            for part in parts:
                input = Filter(input, part)
            return input
    return None
