"""NOT moves inwards by De Morgan's laws (valid in three-valued logic) until it stands before a single AI
call.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from covey_planner.logical import All, Any, Ask, Cheap, Condition, Filter, Mixed, Node, Not


def push_down_negations(node: Node) -> Node | None:
    """Move the negations of a filter's condition to its leaves."""
    if not isinstance(node, Filter):
        return None
    pushed = _push(node.condition, negate=False)
    return None if pushed == node.condition else replace(node, condition=pushed)


def _push(condition: Condition, negate: bool) -> Condition:
    match condition:
        case Not(part):
            return _push(part, not negate)
        case All(parts):
            pushed = tuple(_push(part, negate) for part in parts)
            return Any(pushed) if negate else All(pushed)
        case Any(parts):
            pushed = tuple(_push(part, negate) for part in parts)
            return All(pushed) if negate else Any(pushed)
        case Cheap() | Mixed() if negate:
            return replace(condition, expr=exp.Not(this=exp.Paren(this=condition.expr.copy())))
        case Ask() if negate:
            return Not(condition)
    return condition
