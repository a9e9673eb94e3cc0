"""A SELECT's groups and aggregates in, the aggregate of a plan and what stands over it out; leaves the rest alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp
from substrait.algebra_pb2 import AggregateRel, Rel

from covey_planner.substrait.scope import Field, Scope, Typed, refuse
from covey_planner.substrait.write_aggregates import aggregates, grouping_sets, measure
from covey_planner.substrait.write_expressions import Expressions
from covey_planner.substrait.write_sorts import ordinal, sort_keys


def grouped(
    writer: Expressions, relation: Any, scope: Scope, node: exp.Select, items: Sequence[exp.Expr]
) -> tuple[Any, Scope]:
    """The aggregate of a SELECT, and the scope over it; as they were where it has none.

    items: what it selects. Raises BindError and Unsupported.
    """
    parts = [*items, *sort_keys(node)] + (
        [node.args["having"].this] if node.args.get("having") is not None else []
    )
    called = [call for part in [*parts, *scope.aliases.values()] for call in aggregates(part)]
    group = node.args.get("group")
    if not called and group is None and node.args.get("having") is None:
        return relation, scope
    sets = _groups(writer, group, scope, items)
    unique = {one.key: one for one in (key for numbers in sets for key in numbers)}
    order = {key: at for at, key in enumerate(unique)}
    made = AggregateRel(input=relation, grouping_expressions=[one.node for one in unique.values()])
    for keys in sets:
        made.groupings.add(
            expression_references=[order[key] for key in dict.fromkeys(one.key for one in keys)]
        )
    measures: dict[bytes, int] = {}
    fields = [_field_of(one, scope) for one in unique.values()]
    for call in called:
        one, kind = measure(writer, call, scope)
        key = one.SerializeToString(deterministic=True)
        if key not in measures:
            measures[key] = len(fields)
            made.measures.append(one)
            fields.append(Field("", "", kind))
    if len(sets) > 1:
        fields.append(Field("", "", "INTEGER", hidden=True))
    over = Scope(fields, scope.parent, scope.aliases, order, measures, scope)
    return Rel(aggregate=made), over


def _groups(
    writer: Expressions, group: exp.Expr | None, scope: Scope, items: Sequence[exp.Expr]
) -> list[list[Typed]]:
    if group is None:
        return []
    assert isinstance(group, exp.Group)
    refuse(group, ("expressions", "all"), "GROUP BY")
    every = group.args.get("all") or [part.name.upper() for part in group.expressions] == ["ALL"]
    if every:
        plain = [item for item in items if not any(aggregates(item))]
        return [[writer.write(item, scope) for item in plain]]
    return [[_group(writer, part, scope, items) for part in numbers] for numbers in grouping_sets(group)]


def _group(writer: Expressions, part: exp.Expr, scope: Scope, items: Sequence[exp.Expr]) -> Typed:
    if isinstance(part, exp.Literal) and part.is_int:
        part = items[ordinal(part, items)]
    return writer.write(part, scope)


def _field_of(value: Typed, scope: Scope) -> Field:
    """The column that a group is; one without a name where it is an expression."""
    node = value.node
    own = (
        node.WhichOneof("rex_type") == "selection"
        and node.selection.WhichOneof("root_type") == "root_reference"
    )
    found = scope.fields[node.selection.direct_reference.struct_field.field] if own else None
    return (
        Field(found.relation, found.name, value.kind, found.hidden)
        if found is not None
        else Field("", "", value.kind)
    )
