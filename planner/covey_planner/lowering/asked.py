"""Which calls conditions, values and blocks hold, and where in a SELECT their answers are wanted; asks nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from covey_planner.call import Call
from covey_planner.language.parse import site_number
from covey_planner.logical import All, Any, Ask, Block, Condition, Mixed, Not, Value, filters, leaves
from covey_planner.lowering.frame import Frame


def literals(condition: Condition, positive: bool) -> Iterator[tuple[Call, bool]]:
    """The calls of a tree and whether each is asked for being true or, under NOT, false."""
    match condition:
        case Ask(call):
            yield call, positive
        case Not(part):
            yield from literals(part, not positive)
        case All(parts) | Any(parts):
            for part in parts:
                yield from literals(part, positive)


def same_calls(wanted: Sequence[Value]) -> list[list[Value]]:
    """Values by the question they ask, in the order of the first."""
    groups: dict[object, list[Value]] = {}
    for value in wanted:
        groups.setdefault(value.call.identity, []).append(value)
    return list(groups.values())


def required(condition: Condition) -> Iterator[tuple[Call, bool]]:
    """Calls whose answer is the same for every row that passes a filter."""
    match condition:
        case Ask(call):
            yield call, True
        case Not(Ask(call)):
            yield call, False
        case All(parts):
            for part in parts:
                yield from required(part)


def all_calls(block: Block) -> Iterator[Call]:
    """All calls of a block and of those inside its expressions."""
    for condition in filters(block.plan)[1]:
        for leaf in leaves(condition):
            if isinstance(leaf, Ask):
                yield leaf.call
            elif isinstance(leaf, Mixed):
                yield from leaf.calls
                for inner in leaf.blocks:
                    yield from all_calls(inner)
    yield from (value.call for value in block.values)
    for inner in block.nested:
        yield from all_calls(inner)
    for join in block.joins:
        yield from all_calls(Block(block.number, block.select, block.ctes, join.plan))


def place(frame: Frame, call: Call) -> int:
    """Before which join of the SELECT an answer table is joined in.

    Before the ON that holds the call, if one does; else as soon as all is there that the call is about.
    """
    at = join_of(frame, call)
    if at is not None:
        return at
    items = [item.position for item in frame.source.items if item.relations & call.relations]
    attached = [join.position for join in frame.source.attached if join.relation in call.relations]
    return max([*items, *attached, -1]) + 1


def join_of(frame: Frame, call: Call) -> int | None:
    """Which join of the SELECT holds the call in its ON."""
    joins: list[exp.Join] = frame.block.select.args.get("joins") or []
    for at, join in enumerate(joins):
        on = join.args.get("on")
        if on is not None and any(site_number(part) == call.site for part in on.walk()):
            return at
    return None
