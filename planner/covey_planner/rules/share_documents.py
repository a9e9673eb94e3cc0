"""Questions on the same documents come together, so that the documents are computed once and the first answer
can end it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from covey_planner.call import Call
from covey_planner.logical import All, Any, Ask, Condition, Filter, Node, Not, filters, leaves


def share_documents(node: Node) -> Node | None:
    """Merge neighbouring filters on the same arguments into one, or group such parts inside one filter's
    tree.
    """
    match node:
        case Filter(Filter(input, first), second) if (shared := documents(second)) is not None:
            if documents(first) == shared:
                return Filter(input, All((*_parts(first), *_parts(second))))
            below = [documents(condition) for condition in filters(input)[1]]
            # What has company of its own further down goes there first, or the two would change places for ever.
            if shared in below and documents(first) not in below:
                return Filter(Filter(input, second), first)
    if isinstance(node, Filter):
        grouped = _group(node.condition)
        return None if grouped == node.condition else replace(node, condition=grouped)
    return None


def documents(condition: Condition) -> object:
    """What all calls of a tree ask about, and from which side, if it consists of calls about the same; else
    None. A question for labels is put to all that its step asks, so that none decides whether to ask another.
    """
    found = {_documents(leaf.call) if isinstance(leaf, Ask) else None for leaf in leaves(condition)}
    return found.pop() if len(found) == 1 else None


def same_documents(call: Call, other: Call) -> bool:
    """Whether two calls ask about the same arguments, from the same side, and one work order can hold both."""
    return _documents(call) == _documents(other)


def _documents(call: Call) -> object:
    kind: object = call.kind if call.kind in ("label", "count") else ""
    return call.arguments_identity, call.sides, kind if call.accepted is None else call.identity


def _parts(condition: Condition) -> tuple[Condition, ...]:
    return condition.parts if isinstance(condition, All) else (condition,)


def _group(condition: Condition) -> Condition:
    match condition:
        case Not(part):
            return Not(_group(part))
        case All(parts):
            return _grouped(All, tuple(map(_group, parts)))
        case Any(parts):
            return _grouped(Any, tuple(map(_group, parts)))
    return condition


def _grouped(node: Callable[[tuple[Condition, ...]], Condition], parts: Sequence[Condition]) -> Condition:
    """Parts on the same documents under a node of their own, unless all of the parts are on the same ones."""
    groups: dict[object, list[Condition]] = {}
    for number, part in enumerate(parts):
        shared = documents(part)
        groups.setdefault(number if shared is None else shared, []).append(part)
    if len(groups) == 1:
        return node(tuple(parts))
    return node(tuple(group[0] if len(group) == 1 else node(tuple(group)) for group in groups.values()))
