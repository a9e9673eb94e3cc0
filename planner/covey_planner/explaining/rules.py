"""A logical plan as text, one line a filter, the last one applied first; for showing what a rule changed."""

from __future__ import annotations

from covey_planner.language.render import render
from covey_planner.logical import All, Any, Ask, Cheap, Condition, Mixed, Node, Not, filters


def logical_text(node: Node) -> str:
    """The filters of a block and what they filter."""
    source, conditions = filters(node)
    names = ", ".join(sorted(relation.partition("@")[0] for relation in source.relations))
    lines = [f"filter {_condition(condition)}" for condition in reversed(conditions)]
    return "\n".join([*lines, f"from {names or 'nothing'}"])


def _condition(condition: Condition) -> str:
    match condition:
        case Ask(call):
            return call.text
        case Cheap(expr):
            return render(expr)
        case Mixed(blocks=blocks):
            calls = [call.text for call in condition.calls] or ["AI calls"]
            return f"[{'a subquery' if blocks else 'an expression'} with {', '.join(calls)}]"
        case Not(part):
            return f"NOT ({_condition(part)})"
        case All(parts):
            return " AND ".join(f"({_condition(part)})" for part in parts)
        case Any(parts):
            return " OR ".join(f"({_condition(part)})" for part in parts)
