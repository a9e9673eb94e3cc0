"""Queries of our SQL in, relations of a plan out: what SELECT, ORDER BY, LIMIT and set operations are. Runs nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from sqlglot import exp
from substrait.algebra_pb2 import (
    AggregateRel,
    Expression,
    FetchRel,
    FilterRel,
    ProjectRel,
    Rel,
    SetRel,
    SortRel,
)

from covey_planner.binding.scope import position_of
from covey_planner.binding.volatile import volatile
from covey_planner.errors import BindError
from covey_planner.language.parse import Site
from covey_planner.substrait.extensions import Declaring
from covey_planner.substrait.scope import Field, Scope, Typed, Types, refuse, shown, unsupported
from covey_planner.substrait.write_aggregates import measure
from covey_planner.substrait.write_expressions import Expressions
from covey_planner.substrait.write_from import Made, Sources
from covey_planner.substrait.write_groups import grouped
from covey_planner.substrait.write_sorts import ordinal, sort_field, sort_keys
from covey_planner.substrait.write_values import reference

_CLAUSES = (
    "with_",
    "expressions",
    "from_",
    "joins",
    "where",
    "group",
    "having",
    "distinct",
    "order",
    "limit",
    "offset",
)
_SETS = {exp.Union: (5, 6), exp.Except: (1, 7), exp.Intersect: (4, 8)}


class Relations:
    """Writes the queries of one statement. stored: the columns of every table and view, with their DuckDB types."""

    def __init__(
        self,
        stored: Mapping[str, Mapping[str, str]],
        types: Types,
        declaring: Declaring,
        sites: Sequence[Site],
        parameters: Mapping[int, str],
    ) -> None:
        self._types = types
        self._ctes: list[Mapping[str, Any]] = [{}]
        self._expressions = Expressions(types, declaring, sites, parameters, self._subquery, measure)
        self._sources = Sources(stored, self._expressions, self.query)
        self.left_out = self._sources.left_out

    def query(self, node: exp.Expr, parent: Scope | None, ctes: Mapping[str, Any]) -> Made:
        """A query of any kind, its columns named as its own. Raises BindError and Unsupported."""
        known = dict(ctes)
        if node.args.get("with_") is not None:
            self._define(node.args["with_"], parent, known)
        self._ctes.append(known)
        try:
            match node:
                case exp.Select():
                    return self._select(node, parent, known)
                case exp.SetOperation():
                    return self._set(node, parent, known)
                case exp.Subquery():
                    refuse(
                        node, ("this", "with_", "alias", "order", "limit", "offset"), "a query in parentheses"
                    )
                    relation, fields = self.query(node.this, parent, known)
                    return self._ended(relation, fields, node)
                case exp.Values():
                    return self._sources.values(node)
                case exp.Table():
                    return self.query(exp.select("*").from_(node), parent, known)
        finally:
            self._ctes.pop()
        raise unsupported(shown(node), node)

    def _subquery(self, node: exp.Expr, scope: Scope) -> tuple[Any, Sequence[str]]:
        while isinstance(node, exp.Subquery) and not node.args.get("limit"):
            node = node.this
        relation, fields = self.query(node, scope, self._ctes[-1])
        return relation, [field.kind for field in fields]

    def _define(self, node: exp.With, parent: Scope | None, known: dict[str, Any]) -> None:
        """CTEs are written where they are read, each time anew."""
        if node.args.get("recursive"):
            raise unsupported("WITH RECURSIVE", node)
        for cte in node.expressions:
            part = volatile(cte.this)
            if part is not None:
                raise unsupported(f"a CTE with {part.sql('duckdb').lower()}", cte)
            refuse(cte, ("this", "alias", "materialized", "scalar"), "a CTE")
            columns = [column.name for column in cte.args["alias"].args.get("columns") or ()]
            known[cte.alias.lower()] = partial(self._cte, cte.this, parent, dict(known), columns)

    def _cte(
        self, tree: exp.Expr, parent: Scope | None, known: Mapping[str, Any], names: Sequence[str]
    ) -> Made:
        relation, fields = self.query(tree, parent, known)
        named = [*names, *(field.name for field in fields[len(names) :])]
        return relation, [Field("", n, field.kind) for n, field in zip(named, fields, strict=True)]

    def _select(self, node: exp.Select, parent: Scope | None, ctes: Mapping[str, Any]) -> Made:
        refuse(node, _CLAUSES, "a SELECT")
        relation, fields = self._sources.write(node, parent, ctes)
        items = _items(node, fields)
        aliases = {item.alias.lower(): item.this for item in items if isinstance(item, exp.Alias)}
        scope = Scope(fields, parent, aliases)
        if node.args.get("where") is not None:
            condition = self._expressions.write(node.args["where"].this, scope)
            relation = Rel(filter=FilterRel(input=relation, condition=condition.node))
        relation, scope = grouped(self._expressions, relation, scope, node, items)
        if node.args.get("having") is not None:
            condition = self._expressions.write(node.args["having"].this, scope)
            relation = Rel(filter=FilterRel(input=relation, condition=condition.node))
        outputs = [self._expressions.write(item, scope) for item in items]
        named = [Field("", _name(item), one.kind) for item, one in zip(items, outputs, strict=True)]
        keys = self._keys(node, items, outputs, scope)
        extra = [value for _, value in keys if value.key not in {one.key for one in outputs}]
        shown = [*outputs, *{value.key: value for value in extra}.values()]
        relation = _project(relation, len(scope.fields), shown)
        if node.args.get("distinct") is not None:
            if node.args["distinct"].args.get("on") is not None:
                raise unsupported("DISTINCT ON", node.args["distinct"])
            if extra:
                raise BindError(
                    "ORDER BY of a SELECT DISTINCT sorts by what is not selected", position_of(node)
                )
            relation = _distinct(relation, outputs)
        places = {one.key: at for at, one in reversed(list(enumerate(shown)))}
        sorts = [sort_field(key, reference(places[value.key], value.kind)) for key, value in keys]
        relation = _sorted(relation, sorts)
        relation = self._fetched(relation, node)
        return _cut(relation, len(outputs), len(shown)), named

    def _keys(
        self, node: exp.Expr, items: Sequence[exp.Expr], outputs: Sequence[Typed], scope: Scope
    ) -> list[tuple[exp.Expr, Typed]]:
        """What to sort by: an output by its number or name, or any expression."""
        found: list[tuple[exp.Expr, Typed]] = []
        names = [_name(item).lower() for item in items]
        for key in sort_keys(node):
            value = key.this
            if isinstance(value, exp.Literal) and value.is_int:
                found.append((key, outputs[ordinal(value, outputs)]))
            elif isinstance(value, exp.Column) and not value.table and names.count(value.name.lower()) == 1:
                found.append((key, outputs[names.index(value.name.lower())]))
            elif isinstance(value, exp.Var | exp.Column) and value.name.upper() == "ALL":
                found += [(key, one) for one in outputs]
            else:
                found.append((key, self._expressions.write(value, scope)))
        return found

    def _set(self, node: exp.SetOperation, parent: Scope | None, ctes: Mapping[str, Any]) -> Made:
        refuse(
            node, ("with_", "this", "expression", "distinct", "order", "limit", "offset"), "a set operation"
        )
        sides = [self.query(side, parent, ctes) for side in (node.this, node.expression)]
        widths = [len(fields) for _, fields in sides]
        if widths[0] != widths[1]:
            raise BindError(f"a set operation has {widths[0]} and {widths[1]} columns", position_of(node))
        kinds = [self._union(*(fields[at].kind for _, fields in sides)) for at in range(widths[0])]
        inputs = [self._as(relation, fields, kinds) for relation, fields in sides]
        distinct, every = _SETS[type(node)]
        made = Rel(set=SetRel(inputs=inputs, op=distinct if node.args.get("distinct") else every))
        fields = [Field("", field.name, kind) for field, kind in zip(sides[0][1], kinds, strict=True)]
        return self._ended(made, fields, node)

    def _union(self, one: str, other: str) -> str:
        """The type of a column of a set operation."""
        return one if one == other else self._types.common([Typed(None, one), Typed(None, other)])

    def _as(self, relation: Any, fields: Sequence[Field], kinds: Sequence[str]) -> Any:
        if [field.kind for field in fields] == list(kinds):
            return relation
        values = [reference(at, field.kind) for at, field in enumerate(fields)]
        casts = [self._expressions.cast(value, kind) for value, kind in zip(values, kinds, strict=True)]
        return _project(relation, len(fields), casts)

    def _ended(self, relation: Any, fields: list[Field], node: exp.Expr) -> Made:
        """With the ORDER BY and LIMIT that stand behind a query of any kind."""
        outputs = [reference(at, field.kind) for at, field in enumerate(fields)]
        items = [exp.column(field.name) for field in fields]
        keys = self._keys(node, items, outputs, Scope(fields))
        relation = _sorted(relation, [sort_field(key, value) for key, value in keys])
        return self._fetched(relation, node), fields

    def _fetched(self, relation: Any, node: exp.Expr) -> Any:
        limit, offset = node.args.get("limit"), node.args.get("offset")
        if limit is None and offset is None:
            return relation
        made = FetchRel(input=relation)
        for part, field in ((limit, made.count_expr), (offset, made.offset_expr)):
            if part is not None:
                if part.args.get("limit_options") is not None:
                    raise unsupported("LIMIT of a share of the rows", part)
                refuse(part, ("expression",), "LIMIT")
                field.CopyFrom(self._count(part.expression))
        return Rel(fetch=made)

    def _count(self, node: exp.Expr) -> Any:
        if isinstance(node, exp.Literal) and node.is_int:
            return Expression(literal=Expression.Literal(i64=int(node.name)))
        return self._expressions.cast(self._expressions.write(node, Scope(())), "BIGINT").node


def _items(node: exp.Select, fields: Sequence[Field]) -> list[exp.Expr]:
    """The items of a SELECT list, `*` as the columns that it means."""
    items: list[exp.Expr] = []
    for item in node.expressions:
        if item.find(exp.Columns) is not None:
            raise unsupported(shown(item), item)
        star = item if isinstance(item, exp.Star) else item.this if isinstance(item, exp.Column) else None
        if not isinstance(star, exp.Star):
            items.append(item)
            continue
        refuse(star, ("except_",), "*")
        left_out = {part.name.lower() for part in star.args.get("except_") or ()}
        owner = item.table.lower() if isinstance(item, exp.Column) else ""
        chosen = [
            field
            for field in fields
            if (field.relation == owner if owner else not field.hidden) and field.name.lower() not in left_out
        ]
        if not chosen:
            raise BindError(f"{item.sql('duckdb')} means no column", position_of(item))
        items += [exp.column(field.name, table=field.relation or None, quoted=True) for field in chosen]
    return items


def _name(item: exp.Expr) -> str:
    return item.alias_or_name or item.sql("duckdb").lower()


def _project(relation: Any, width: int, values: Sequence[Typed]) -> Any:
    """A relation of these values alone. width: how many columns it is made from."""
    made = ProjectRel(input=relation, expressions=[value.node for value in values])
    made.common.emit.output_mapping.extend(range(width, width + len(values)))
    return Rel(project=made)


def _distinct(relation: Any, outputs: Sequence[Typed]) -> Any:
    keys = [reference(at, value.kind).node for at, value in enumerate(outputs)]
    made = AggregateRel(input=relation, grouping_expressions=keys)
    made.groupings.add(expression_references=range(len(keys)))
    return Rel(aggregate=made)


def _sorted(relation: Any, sorts: Sequence[Any]) -> Any:
    return Rel(sort=SortRel(input=relation, sorts=sorts)) if sorts else relation


def _cut(relation: Any, width: int, made: int) -> Any:
    """Without the columns that were only sorted by."""
    if width < made:
        kind = relation.WhichOneof("rel_type")
        getattr(relation, kind).common.emit.output_mapping.extend(range(width))
    return relation
