"""An AI filter on one document moves below filters that ask about pairs, or that hold subqueries with AI
calls.
"""

from __future__ import annotations

from covey_planner.logical import Filter, Node
from covey_planner.rules.order_parts import rank


def join_last(node: Node) -> Node | None:
    """Exchange two AI filters of which the upper one has the smaller rank."""
    match node:
        case Filter(Filter(input, lower), upper) if rank(upper) < rank(lower):
            return Filter(Filter(input, upper), lower)
    return None
