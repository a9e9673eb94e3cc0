"""`call = TRUE` and `call IS TRUE` become the call, `call = FALSE` its negation; what is under NOT keeps IS
TRUE.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from covey_planner.language.parse import site_number
from covey_planner.logical import All, Any, Ask, Condition, Filter, Mixed, Node, Not


def fold_comparisons(node: Node) -> Node | None:
    """Fold comparisons of a call with a boolean literal in a filter's condition."""
    if not isinstance(node, Filter):
        return None
    folded = _fold(node.condition, required=True)
    return None if folded == node.condition else replace(node, condition=folded)


def _fold(condition: Condition, required: bool) -> Condition:
    """required: only whether the condition is true matters, so that false and NULL may be exchanged."""
    match condition:
        case Not(part):
            return Not(_fold(part, required=False))
        case All(parts):
            return All(tuple(_fold(part, required) for part in parts))
        case Any(parts):
            return Any(tuple(_fold(part, required) for part in parts))
        case Mixed(expr=(exp.EQ() | exp.Is()) as comparison, values=(value,), blocks=()):
            sides = [side.unnest() for side in (comparison.this, comparison.expression)]
            flag = next((bool(side.this) for side in sides if isinstance(side, exp.Boolean)), None)
            plain = any(site_number(side) is not None for side in sides)
            if (
                flag is None
                or not plain
                or value.call.kind != "boolean"
                or (isinstance(comparison, exp.Is) and not required)
            ):
                return condition
            return Ask(value.call) if flag else Not(Ask(value.call))
    return condition
