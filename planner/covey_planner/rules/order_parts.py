"""Inside AND and OR, what is cheap to decide comes first: ordinary predicates, then documents, then pairs."""

from __future__ import annotations

from dataclasses import replace

from covey_planner.logical import All, Any, Ask, Cheap, Condition, Filter, Mixed, Node, Not, leaves


def order_parts(node: Node) -> Node | None:
    """Order the parts of the boolean trees in a filter's condition."""
    if not isinstance(node, Filter):
        return None
    ordered = _order(node.condition)
    return None if ordered == node.condition else replace(node, condition=ordered)


def rank(condition: Condition) -> int:
    """0: no model needed; 1: documents; 2: subqueries with AI calls; 3: pairs."""
    return max(_rank(leaf) for leaf in leaves(condition))


def _rank(leaf: Cheap | Ask | Mixed) -> int:
    match leaf:
        case Cheap():
            return 0
        case Ask(call):
            return 3 if call.is_join else 1
        case Mixed(values=values, blocks=()) if all(value.call.kind == "count" for value in values):
            return 0
        case Mixed(blocks=blocks):
            return 3 if any(call.is_join for call in leaf.calls) else 2 if blocks else 1


def _order(condition: Condition) -> Condition:
    match condition:
        case Not(part):
            return Not(_order(part))
        case All(parts):
            return All(tuple(sorted(map(_order, parts), key=rank)))
        case Any(parts):
            return Any(tuple(sorted(map(_order, parts), key=rank)))
    return condition
