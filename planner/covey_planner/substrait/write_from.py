"""FROM of our SQL in, relations of a plan with their columns out: tables, derived tables, values, joins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlglot import exp
from substrait.algebra_pb2 import CrossRel, Expression, JoinRel, ReadRel, Rel
from substrait.type_pb2 import NamedStruct, Type

from covey_planner.binding.scope import position_of
from covey_planner.errors import BindError, PlanError
from covey_planner.substrait.scope import Field, Scope, Typed, refuse, shown, unsupported
from covey_planner.substrait.types import to_substrait
from covey_planner.substrait.write_expressions import Expressions
from covey_planner.substrait.write_values import reference

Made = tuple[Any, list[Field]]
"""A relation and its columns."""

Query = Callable[[exp.Expr, Scope | None, Mapping[str, Any]], Made]

_JOINS = {"": 1, "INNER": 1, "FULL": 2, "LEFT": 3, "RIGHT": 4, "SEMI": 5, "ANTI": 6}


class Sources:
    """Writes what stands in FROM. stored: the columns of every table and view; query: writes a derived table.

    left_out: columns by lower-case name whose DuckDB types Substrait does not have.
    """

    def __init__(
        self, stored: Mapping[str, Mapping[str, str]], expressions: Expressions, query: Query
    ) -> None:
        self._stored = {name.lower(): (name, columns) for name, columns in stored.items()}
        self._expressions = expressions
        self._query = query
        self.left_out: dict[str, str] = expressions.left_out

    def write(self, select: exp.Select, parent: Scope | None, ctes: Mapping[str, Any]) -> Made:
        """What a SELECT reads: one row without columns where it has no FROM. Raises BindError and Unsupported."""
        start = select.args.get("from_")
        joins = list(select.args.get("joins") or ())
        if start is None:
            table = ReadRel.VirtualTable(expressions=[Expression.Nested.Struct()])
            return Rel(read=ReadRel(base_schema=NamedStruct(struct=Type.Struct()), virtual_table=table)), []
        made = self._source(start.this, parent, ctes)
        first, *others = _groups(joins)
        for join in first:
            made = self._join(made, join, parent, ctes)
        for group in others:
            if any(str(join.args.get("side") or "").upper() in ("RIGHT", "FULL") for join in group):
                # The rows that such a join adds are of what stands behind its comma, beside each row before it.
                side = self._source(group[0].this, parent, ctes)
                for join in group[1:]:
                    side = self._join(side, join, parent, ctes)
                made = Rel(cross=CrossRel(left=made[0], right=side[0])), [*made[1], *side[1]]
                continue
            for join in group:
                made = self._join(made, join, parent, ctes)
        return made

    def _source(self, node: exp.Expr, parent: Scope | None, ctes: Mapping[str, Any]) -> Made:
        match node:
            case exp.Table(this=exp.Identifier()):
                refuse(node, ("this", "db", "catalog", "alias", "joins"), "a table")
                made = self._table(node, ctes)
            case exp.Subquery() if isinstance(node.this, exp.Query):
                refuse(node, ("this", "alias", "joins"), "a derived table")
                made = self._named(self._query(node.this, parent, ctes), node)
            case exp.Subquery(this=exp.Table() as inner):
                refuse(node, ("this", "alias", "joins"), "a table in parentheses")
                made = self._source(inner, parent, ctes)
                made = self._named(made, node) if node.alias else made
            case exp.Paren():
                made = self._source(node.this, parent, ctes)
            case exp.Values():
                made = self._named(self.values(node), node)
            case _:
                raise unsupported(f"{shown(node)} in FROM", node)
        for join in node.args.get("joins") or ():
            made = self._join(made, join, parent, ctes)
        return made

    def _table(self, node: exp.Table, ctes: Mapping[str, Any]) -> Made:
        name, names = node.name.lower(), [part.name for part in node.parts]
        if len(names) == 1 and name in ctes:
            return self._named(ctes[name](), node, node.name)
        found = self._stored.get(".".join(names[-2:]).lower()) or (
            self._stored.get(name) if len(names) == 1 or names[-2].lower() in ("main", "temp") else None
        )
        if found is None:
            raise BindError(f"no table {'.'.join(names)!r}", position_of(node))
        schema, fields = NamedStruct(struct=Type.Struct(nullability=Type.NULLABILITY_REQUIRED)), []
        for column, kind in found[1].items():
            try:
                schema.struct.types.append(to_substrait(kind))
            except PlanError:
                # A column that no plan can name is left out, so that the others can be read.
                self.left_out.setdefault(column.lower(), kind)
                continue
            schema.names.append(column)
            fields.append(Field("", column, kind))
        read = ReadRel(base_schema=schema, named_table=ReadRel.NamedTable(names=names))
        return self._named((Rel(read=read), fields), node, node.name)

    def _named(self, made: Made, node: exp.Expr, name: str = "") -> Made:
        """The columns of a relation under its alias, and under the names that the alias gives them."""
        relation, fields = made
        alias = node.args.get("alias")
        given = [column.name for column in alias.args.get("columns") or ()] if alias is not None else []
        named = (node.alias or name).lower()
        shown = [field for field in fields if not field.hidden]
        names = given + [field.name for field in shown[len(given) :]]
        if len(shown) == len(fields):
            return relation, [Field(named, n, field.kind) for n, field in zip(names, fields, strict=True)]
        return relation, [Field(named, field.name, field.kind, field.hidden) for field in fields]

    def values(self, node: exp.Values) -> Made:
        """VALUES as a relation with columns col0, col1, …"""
        rows = [
            [
                self._expressions.write(part, Scope(()))
                for part in (row.expressions if isinstance(row, exp.Tuple) else [row])
            ]
            for row in node.expressions
        ]
        columns = [self._expressions.alike(column) for column in zip(*rows, strict=True)]
        table = ReadRel.VirtualTable()
        for at in range(len(rows)):
            table.expressions.add(fields=[column[at].node for column in columns])
        schema = NamedStruct(struct=Type.Struct(nullability=Type.NULLABILITY_REQUIRED))
        for number, column in enumerate(columns):
            schema.names.append(f"col{number}")
            schema.struct.types.append(to_substrait(column[0].kind))
        fields = [Field("", f"col{number}", column[0].kind) for number, column in enumerate(columns)]
        return Rel(read=ReadRel(base_schema=schema, virtual_table=table)), fields

    def _join(self, left: Made, join: exp.Join, parent: Scope | None, ctes: Mapping[str, Any]) -> Made:
        refuse(join, ("this", "side", "kind", "on", "using", "method"), "a join")
        method, side, kind = (str(join.args.get(key) or "").upper() for key in ("method", "side", "kind"))
        word = kind if kind in ("SEMI", "ANTI") else side
        if method not in ("", "NATURAL") or kind not in ("", "INNER", "OUTER", "CROSS", "SEMI", "ANTI"):
            raise unsupported(f"{method or kind} JOIN", join)
        right = self._source(join.this, parent, ctes)
        using = [part.name.lower() for part in join.args.get("using") or ()]
        if method == "NATURAL":
            there = {field.name.lower() for field in right[1]}
            using = [
                field.name.lower() for field in left[1] if field.name.lower() in there and not field.hidden
            ]
        if using and word == "FULL":
            raise unsupported("FULL JOIN with USING", join)
        fields = [*left[1], *right[1]]
        if using:
            condition, fields = self._using(left[1], right[1], using, word)
        elif join.args.get("on") is not None:
            condition = self._expressions.write(join.args["on"], Scope(fields, parent)).node
        else:
            condition = None
        if condition is None and word == "":
            return Rel(cross=CrossRel(left=left[0], right=right[0])), fields
        made = JoinRel(left=left[0], right=right[0], expression=condition, type=_JOINS[word])
        return Rel(join=made), fields[: len(left[1])] if word in ("SEMI", "ANTI") else fields

    def _using(
        self, left: Sequence[Field], right: Sequence[Field], names: Sequence[str], word: str
    ) -> tuple[Any, list[Field]]:
        """The condition of USING, and the columns: an unqualified name means that of the side that is kept whole."""
        both = Scope([*left, *right])
        pairs = [(_place(left, name), _place(right, name)) for name in names]
        writer = self._expressions
        parts: list[Typed] = []
        for at, other in pairs:
            sides = writer.alike([_read(both, at), _read(both, len(left) + other)])
            parts.append(writer.call("equal", sides, "BOOLEAN"))
        condition = parts[0] if len(parts) == 1 else writer.call("and", parts, "BOOLEAN")
        lost = {at if word == "RIGHT" else len(left) + other for at, other in pairs}
        fields = [
            Field(field.relation, field.name, field.kind, field.hidden or at in lost)
            for at, field in enumerate([*left, *right])
        ]
        return condition.node, fields


def _groups(joins: Sequence[exp.Join]) -> list[list[exp.Join]]:
    """Joins, a new group beginning with each comma: it binds less than any other join."""
    groups: list[list[exp.Join]] = [[]]
    for join in joins:
        if not any(join.args.get(key) for key in ("side", "kind", "on", "using", "method")):
            groups.append([])
        groups[-1].append(join)
    return groups


def _read(scope: Scope, at: int) -> Typed:
    return reference(at, scope.fields[at].kind)


def _place(fields: Sequence[Field], name: str) -> int:
    found = [at for at, field in enumerate(fields) if field.name.lower() == name and not field.hidden]
    if len(found) != 1:
        raise BindError(f"USING: column {name!r} is not in both relations once")
    return found[0]
