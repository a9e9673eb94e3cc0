"""Of a SELECT whose first rows alone come out: which rows each of its answers is wanted for; asks nothing.

Below `ORDER BY … LIMIT`, or by `QUALIFY rank() OVER (…) <= k`, a row does not come out once so many others stand before
it by the first keys of the order. An answer in a later key, or in the SELECT list, is wanted of the others alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from covey_planner.binding.volatile import volatile
from covey_planner.language.parse import site_number, sites_of
from covey_planner.logical import Block, Source, Value, filters
from covey_planner.lowering.asked import same_calls
from covey_planner.lowering.first_rows import (
    NO_ORDER,
    Order,
    as_order,
    key_of,
    key_relations,
    may_change_rows,
    whole_number,
)
from covey_planner.rules.share_documents import same_documents

_CLAUSES = frozenset({"expressions", "from_", "joins", "where", "kind", "with_", "order", "qualify"})
_LIMITS = frozenset({"limit", "offset", "distinct"})
_WINDOW = frozenset({"this", "partition_by", "order", "over"})
_RANKS = {exp.RowNumber: "rank", exp.Rank: "rank", exp.DenseRank: "dense_rank"}


@dataclass(frozen=True)
class First:
    """The rows before which fewer than `count` stand, by keys, in their part.

    function: what counts them; relations: those that keys and parts read.
    """

    keys: tuple[exp.Expr, ...]
    count: int
    relations: frozenset[str]
    function: str = "rank"
    parts: tuple[exp.Expr, ...] = ()


@dataclass(frozen=True)
class Stage:
    """Values that are wanted of some rows, None for all; those before it are answered first.

    wanted: of a condition that is a key of its own, the answer that comes first; then `enough` rows of that answer, in
    the order of the other keys, are all that come out.
    """

    values: tuple[Value, ...]
    first: First | None = None
    wanted: bool | None = None
    enough: int = 0
    order: Order = NO_ORDER


@dataclass(frozen=True)
class _Ranking:
    """What puts a SELECT's rows in order. keys: as far as they can be told; whole: whether those are all."""

    keys: tuple[exp.Expr, ...]
    whole: bool
    count: int
    function: str
    parts: tuple[exp.Expr, ...] = ()
    window: exp.Expr | None = None


def stages(block: Block, values: Sequence[Value]) -> list[Stage]:
    """A block's values, none of them about groups, in the order in which they are to be asked."""
    source = filters(block.plan)[0]
    ranking = _ranking(block.select, source)
    if ranking is None:
        return [Stage(tuple(values))] if values else []
    at = _places(block.select, ranking)
    found: dict[int, list[Value]] = {}
    for group in same_calls(values):
        found.setdefault(min(at.get(value.call.site, 0) for value in group), []).extend(group)
    for number in sorted(found, reverse=True):
        _ask_with_the_one_before(found, number)
    return [_stage(number, wanted, ranking, source) for number, wanted in sorted(found.items())]


def _ask_with_the_one_before(found: dict[int, list[Value]], number: int) -> None:
    """Ask what is about the documents of a condition in the key before while they are there: two answers tell few rows
    apart, so that most documents would be computed again.
    """
    earlier = found.get(number - 1)
    if earlier is None or any(value.call.kind != "boolean" for value in earlier):
        return
    together = [
        value
        for value in found[number]
        if any(same_documents(value.call, other.call) and not value.guards for other in earlier)
    ]
    earlier += together
    found[number] = [value for value in found[number] if value not in together]
    if not found[number]:
        del found[number]


def later(block: Block) -> frozenset[int]:
    """The sites of values that are wanted of some rows alone."""
    found = stages(block, [value for value in block.values if not value.grouped])
    some = [stage for stage in found if stage.first is not None or stage.wanted is not None]
    return frozenset(value.call.site for stage in some for value in stage.values)


def _stage(number: int, wanted: list[Value], ranking: _Ranking, source: Source) -> Stage:
    before = ranking.keys[:number]
    stage = Stage(tuple(wanted))
    if before:
        relations = key_relations([*before, *ranking.parts], source)
        if relations is not None:
            first = First(before, ranking.count, relations, ranking.function, ranking.parts)
            stage = replace(stage, first=first)
    if ranking.window is not None or not ranking.whole or number >= len(ranking.keys):
        return stage
    others = [key for at, key in enumerate(ranking.keys) if at != number]
    order = as_order(others, source)
    sense = _first_answer(ranking.keys[number])
    groups = same_calls(wanted)
    if sense is None or len(groups) > 1 or order is None or any(map(sites_of, others)):
        return stage
    if wanted[0].call.kind != "boolean" or ranking.function != "rank":
        return stage
    return replace(stage, wanted=sense, enough=ranking.count, order=order)


def _first_answer(key: exp.Expr) -> bool | None:
    """Which answer of a call comes first by a key that is nothing but the call; None for any other key."""
    if not isinstance(key, exp.Ordered) or key.args.get("nulls_first"):
        return None
    sense, node = bool(key.args.get("desc")), key.this
    while isinstance(node, exp.Paren | exp.Not):
        sense ^= isinstance(node, exp.Not)
        node = node.this
    return sense if site_number(node) is not None else None


def _ranking(select: exp.Select, source: Source) -> _Ranking | None:
    """The order of which the first rows come out; None where there is none, or it cannot be told."""
    used = {name for name, value in select.args.items() if value}
    if select.args.get("qualify") is not None:
        shown = (node for item in select.expressions for node in _outside_windows(item))
        if not used <= _CLAUSES | _LIMITS or any(map(may_change_rows, shown)):
            return None
        conditions = _conjuncts(select.args["qualify"].this)
        return next((found for each in conditions if (found := _window(each, select)) is not None), None)
    order = select.args.get("order")
    if order is None or not used <= _CLAUSES | _LIMITS:
        return None
    count = _limit(select)
    distinct = select.args.get("distinct")
    if count is None or (distinct is not None and distinct.args.get("on") is not None):
        return None
    if any(may_change_rows(node) for item in select.expressions for node in item.walk()):
        return None
    # Of rows that are kept once, different keys are different rows.
    function = "dense_rank" if distinct is not None else "rank"
    keys = _known(key_of(key, select, asking=True) for key in order.expressions)
    return _Ranking(keys, len(keys) == len(order.expressions), count, function)


def _limit(select: exp.Select) -> int | None:
    clauses = [select.args.get(name) for name in ("limit", "offset")]
    if not isinstance(clauses[0], exp.Limit):
        return None
    counts = [whole_number(clause) for clause in clauses if clause is not None]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _window(condition: exp.Expr, select: exp.Select) -> _Ranking | None:
    """`rank() OVER (…) <= k`, or another function that gives a row at least its rank."""
    if not isinstance(condition, exp.LTE | exp.LT | exp.EQ):
        return None
    window, bound = condition.this.unnest(), condition.expression.unnest()
    if not isinstance(window, exp.Window) or type(window.this) not in _RANKS:
        return None
    if not {name for name, value in window.args.items() if value} <= _WINDOW:
        return None
    if not (isinstance(bound, exp.Literal) and bound.is_int):
        return None
    count = int(bound.this) - isinstance(condition, exp.LT)
    parts = [part.copy() for part in window.args.get("partition_by") or []]
    order = window.args.get("order")
    names = {item.alias.lower() for item in select.expressions if item.alias}
    written = [*parts, *(order.expressions if order is not None else [])]
    if any(column.name.lower() in names for part in written for column in part.find_all(exp.Column)):
        return None
    if (
        order is None
        or any(volatile(part) is not None for part in parts)
        or any(part.find(exp.Query, exp.Window) for part in parts)
    ):
        return None
    keys = _known(key_of(key, None, asking=True) for key in order.expressions)
    return _Ranking(
        keys, len(keys) == len(order.expressions), count, _RANKS[type(window.this)], tuple(parts), window
    )


def _known(keys: Iterator[exp.Expr | None]) -> tuple[exp.Expr, ...]:
    """Keys up to the first that cannot be told."""
    found: list[exp.Expr] = []
    for key in keys:
        if key is None:
            break
        found.append(key)
    return tuple(found)


def _places(select: exp.Select, ranking: _Ranking) -> dict[int, int]:
    """The number of the key before which each site need not be answered; sites that are wanted of all rows: none."""
    places: dict[int, int] = {}
    last = len(ranking.keys)
    order = select.args.get("order")
    late = list(select.expressions)
    if ranking.window is not None and order is not None:
        late += order.expressions
    for node in (node for item in late for node in _outside_windows(item)):
        number = site_number(node)
        if number is not None:
            places[number] = last
    for at, key in reversed(list(enumerate(ranking.keys))):
        places.update(dict.fromkeys(sites_of(key), at))
    if ranking.window is None and not ranking.whole and order is not None:
        # Keys that cannot be told come after those that can.
        for key in order.expressions[last:]:
            for number in sites_of(key):
                places.setdefault(number, last)
    return places


def _outside_windows(node: exp.Expr) -> Iterator[exp.Expr]:
    """The nodes of an item that are evaluated row by row."""
    if isinstance(node, exp.Window | exp.Query):
        return
    yield node
    for child in node.iter_expressions():
        yield from _outside_windows(child)


def _conjuncts(condition: exp.Expr) -> list[exp.Expr]:
    inner = condition.unnest()
    return [part.unnest() for part in inner.flatten()] if isinstance(inner, exp.And) else [inner]
