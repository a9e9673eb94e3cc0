"""An ordinary predicate moves below a filter that needs the model."""

from __future__ import annotations

from covey_planner.logical import Filter, Node, is_cheap


def push_down_cheap(node: Node) -> Node | None:
    """Exchange an ordinary filter with the AI filter under it."""
    match node:
        case Filter(Filter(input, asked), cheap) if is_cheap(cheap) and not is_cheap(asked):
            return Filter(Filter(input, cheap), asked)
    return None
