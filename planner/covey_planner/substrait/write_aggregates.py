"""Aggregates of our SQL in, measures of a plan out; and which expressions of a SELECT are groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

from sqlglot import exp
from substrait.algebra_pb2 import AggregateFunction, AggregateRel, FunctionArgument

from covey_planner.language.calls import is_aggregate
from covey_planner.substrait.functions import AGGREGATE, DUCKDB, FROM_DUCKDB, placed
from covey_planner.substrait.scope import Scope, Typed, shown, unsupported
from covey_planner.substrait.types import to_substrait
from covey_planner.substrait.write_expressions import Expressions
from covey_planner.substrait.write_sorts import sort_field
from covey_planner.substrait.write_values import short_of


def aggregates(node: exp.Expr) -> Iterator[exp.Expr]:
    """The aggregates in an expression, with their FILTER, that are its SELECT's own."""
    if isinstance(node, exp.Query):
        return
    if is_aggregate(node) or (isinstance(node, exp.Filter) and is_aggregate(node.this)):
        yield node
        return
    for child in node.iter_expressions():
        yield from aggregates(child)


def measure(writer: Expressions, node: exp.Expr, scope: Scope) -> tuple[Any, str]:
    """A measure over the columns of a scope, and its DuckDB type. Raises BindError and Unsupported."""
    made = AggregateRel.Measure()
    if isinstance(node, exp.Filter):
        made.filter.CopyFrom(writer.write(node.expression.this, scope).node)
        node = node.this
    name, given = _call(node)
    keys: list[exp.Expr] = []
    unique = any(isinstance(part, exp.Distinct) for part in given)
    given = [
        inner for part in given for inner in (part.expressions if isinstance(part, exp.Distinct) else [part])
    ]
    for at, part in enumerate(given):
        if isinstance(part, exp.Order):
            keys = part.expressions
            given[at] = part.this
    given = [part for part in given if not isinstance(part, exp.Star)]
    if any(
        isinstance(part, exp.Limit | exp.HavingMax | exp.IgnoreNulls | exp.RespectNulls) for part in given
    ):
        raise unsupported(shown(node), node)
    arguments = [writer.write(part, scope) for part in given]
    inside = ", ".join(argument.probe for argument in arguments)
    kind = writer.types.of(f"{name}({inside or ('*' if name in ('count', 'count_star') else '')})")
    urn, signature = _signature(name, arguments)
    call = AggregateFunction(
        function_reference=writer.declaring.anchor(urn, signature),
        arguments=[FunctionArgument(value=argument.node) for argument in arguments],
        sorts=[sort_field(key, writer.write(key.this, scope)) for key in keys],
        output_type=to_substrait(kind),
        phase=3,
        invocation=2 if unique else 1,
    )
    made.measure.CopyFrom(call)
    return made, kind


def _call(node: exp.Expr) -> tuple[str, list[exp.Expr]]:
    """An aggregate's name and arguments."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower(), list(node.expressions)
    raise unsupported(shown(node), node)


def _signature(name: str, arguments: Sequence[Typed]) -> tuple[str, str]:
    known = AGGREGATE.get(FROM_DUCKDB.get(name, ""))
    words = [short_of(argument) for argument in arguments]
    found = placed(known, words) if known is not None else None
    if found is None or (found.extension == "string" and words[:1] != ["str"]):
        return DUCKDB, f"{name}:{'_'.join(words)}"
    return found.urn, f"{found.name}:{'_'.join(['any'] * len(words) if found.any else words)}"


def grouping_sets(group: exp.Group) -> list[list[exp.Expr]]:
    """The grouping sets of a GROUP BY, each as its expressions."""
    sets: list[list[exp.Expr]] = [[]]
    for part in group.expressions:
        sets = [[*one, *more] for one in sets for more in _sets(part)]
    return sets


def _sets(part: exp.Expr) -> list[list[exp.Expr]]:
    items = [_items(item) for item in part.expressions]
    match part:
        case exp.GroupingSets():
            return items
        case exp.Rollup():
            return [[one for item in items[:width] for one in item] for width in range(len(items), -1, -1)]
        case exp.Cube():
            chosen = [some for width in range(len(items), -1, -1) for some in combinations(items, width)]
            return [[one for item in some for one in item] for some in chosen]
    return [_items(part)]


def _items(item: exp.Expr) -> list[exp.Expr]:
    return (
        list(item.expressions)
        if isinstance(item, exp.Tuple)
        else [item.unnest() if isinstance(item, exp.Paren) else item]
    )
