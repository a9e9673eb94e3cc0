"""Expressions of our SQL in, Substrait's out, with DuckDB's types. Subqueries go to the writer of relations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlglot import exp
from substrait.algebra_pb2 import DynamicParameter, Expression, FunctionArgument, FunctionOption

from covey_planner.binding.scope import position_of
from covey_planner.errors import BindError, PlanError
from covey_planner.language.calls import is_aggregate
from covey_planner.language.parse import Site, site_number
from covey_planner.substrait import literals
from covey_planner.substrait.extensions import Declaring
from covey_planner.substrait.functions import DUCKDB, FROM_DUCKDB, SCALAR, placed
from covey_planner.substrait.scope import NULL, Scope, Typed, Types, shown, unsupported
from covey_planner.substrait.types import to_substrait
from covey_planner.substrait.write_ai import ai_call
from covey_planner.substrait.write_conditions import boolean_test, case
from covey_planner.substrait.write_membership import membership
from covey_planner.substrait.write_operators import ARITHMETIC, COMPARISONS, arithmetic, comparison, extract
from covey_planner.substrait.write_values import fits, interval, reference, short_of

_TEXTS: Mapping[type[exp.Expr], tuple[str, tuple[str, ...]]] = {
    exp.Substring: ("substring", ("this", "start", "length")),
    exp.StrPosition: ("strpos", ("this", "substr")),
    exp.Pow: ("pow", ("this", "expression")),
    exp.Upper: ("upper", ("this",)),
    exp.Lower: ("lower", ("this",)),
    exp.CurrentDate: ("today", ()),
    exp.CurrentTimestamp: ("now", ()),
    exp.Coalesce: ("coalesce", ("this", "expressions")),
}
_ALIKE = frozenset({"coalesce", "nullif", "least_skip_null", "greatest_skip_null"})


class Expressions:
    """Writes the expressions of one plan. sites: the AI calls of the statement; subquery: writes a query whose columns
    can be those of a scope, as a relation and its columns' types; measure: writes an aggregate, with its type.
    """

    def __init__(
        self,
        types: Types,
        declaring: Declaring,
        sites: Sequence[Site],
        parameters: Mapping[int, str],
        subquery: Callable[[exp.Expr, Scope], tuple[Any, Sequence[str]]],
        measure: Callable[[Expressions, exp.Expr, Scope], tuple[Any, str]],
    ) -> None:
        self.types = types
        self.declaring = declaring
        self.sites = sites
        self._parameters = parameters
        self.subquery = subquery
        self._measure = measure
        self.left_out: dict[str, str] = {}

    def write(self, node: exp.Expr, scope: Scope) -> Typed:
        """An expression over the columns of a scope. Raises BindError and Unsupported with its place."""
        if scope.before is not None:
            found = self._over_groups(node, scope)
            if found is not None:
                return found
        if node.args.get("negate"):
            bare = node.copy()
            bare.set("negate", None)
            return self.call("not", [self.write(bare, scope)], "BOOLEAN")
        if type(node) in COMPARISONS:
            return comparison(self, node, scope)
        if type(node) in ARITHMETIC:
            return arithmetic(self, node, scope)
        if type(node) in _TEXTS:
            name, keys = _TEXTS[type(node)]
            return self._function(name, [part for key in keys for part in _parts(node, key)], node, scope)
        match node:
            case exp.Paren() | exp.Alias():
                return self.write(node.this, scope)
            case exp.Literal() | exp.Boolean() | exp.Null() | exp.Interval():
                return self._literal(node)
            case exp.Neg(this=exp.Literal(is_string=False)):
                return self._number(f"-{node.this.name}")
            case exp.Column():
                return self._column(node, scope)
            case exp.And() | exp.Or():
                parts = [self.write(part, scope) for part in _flat(node, type(node))]
                return self.call("and" if isinstance(node, exp.And) else "or", parts, "BOOLEAN")
            case exp.Not():
                return self.call("not", [self.write(node.this, scope)], "BOOLEAN")
            case exp.Neg():
                value = self.write(node.this, scope)
                return self.call("negate", [value], self.types.of(f"-({value.probe})"), "-")
            case exp.Is():
                return boolean_test(self, node, scope)
            case exp.Between():
                parts = [self.write(node.args[key], scope) for key in ("this", "low", "high")]
                return self.call("between", self.alike(parts), "BOOLEAN")
            case exp.Cast():
                return self._cast(node, scope)
            case exp.Case() | exp.If():
                return case(self, node, scope)
            case exp.Extract():
                return extract(self, node, scope)
            case exp.In() | exp.Exists() | exp.Subquery() | exp.Select() | exp.SetOperation():
                return membership(self, node, scope)
            case exp.Array():
                return self._array(node, scope)
            case exp.Trim() if not node.args.get("position") or node.args.get("position") == "BOTH":
                return self._function(
                    "trim", [*_parts(node, "this"), *_parts(node, "expression")], node, scope
                )
            case exp.Anonymous():
                return self._named(node, scope)
        raise unsupported(shown(node), node)

    def call(
        self,
        name: str,
        arguments: Sequence[Typed],
        kind: str,
        own: str | None = None,
        option: str | None = None,
    ) -> Typed:
        """A function of Substrait's; `own`, one of DuckDB's, where Substrait has none for such arguments."""
        words = [short_of(argument) for argument in arguments]
        found = placed(SCALAR[name], words) if name in SCALAR else None
        if found is not None and found.extension == "string" and words[:1] != ["str"]:
            found = None
        if found is None:
            urn, signature = DUCKDB, f"{own or name}:{'_'.join(words)}"
        else:
            words = words[:1] if found.sql.startswith("* ") else words
            words = ["any"] * len(words) if found.any else words
            urn, signature = found.urn, f"{found.name}:{'_'.join(words)}"
        options = [FunctionOption(name="case_sensitivity", preference=[option])] if option is not None else []
        return self.apply(urn, signature, [_value(argument) for argument in arguments], kind, options)

    def apply(
        self, urn: str, signature: str, arguments: Sequence[Any], kind: str, options: Sequence[Any] = ()
    ) -> Typed:
        """A declared function's call."""
        made = Expression.ScalarFunction(
            function_reference=self.declaring.anchor(urn, signature),
            arguments=arguments,
            options=options,
            output_type=to_substrait(kind) if kind else None,
        )
        return Typed(Expression(scalar_function=made), kind)

    def alike(self, parts: Sequence[Typed]) -> list[Typed]:
        """The same values, all of the type that they have in each other's place."""
        kinds = [part.kind for part in parts if part.literal is None and part.kind != NULL]
        settled = len(set(kinds)) == 1 and all(
            part.literal is None or fits(part.literal, kinds[0]) for part in parts
        )
        kind = kinds[0] if settled else self.types.common(parts)
        return [self.cast(part, "INTEGER" if kind == NULL else kind) for part in parts]

    def cast(self, value: Typed, kind: str) -> Typed:
        """A value as a type; a literal becomes one of that type."""
        if value.kind == kind:
            return value
        if value.kind == NULL:
            return Typed(Expression(literal=literals.null(kind)), kind)
        if value.literal is not None and not value.literal.startswith("'") and fits(value.literal, kind):
            return Typed(Expression(literal=literals.number(value.literal, kind)), kind)
        if value.literal is not None and value.literal.startswith("'") and kind == "DATE":
            day = literals.day(value.node.literal.string)
            if day is not None:
                return Typed(Expression(literal=day), kind)
        made = Expression.Cast(type=to_substrait(kind), input=value.node, failure_behavior=2)
        return Typed(Expression(cast=made), kind)

    def _over_groups(self, node: exp.Expr, scope: Scope) -> Typed | None:
        """A column of an aggregate, where the node is what a group or a measure of it is; None elsewhere."""
        assert scope.before is not None
        if is_aggregate(node) or (isinstance(node, exp.Filter) and is_aggregate(node.this)):
            made, kind = self._measure(self, node, scope.before)
            return reference(scope.measures[made.SerializeToString(deterministic=True)], kind)
        if any(is_aggregate(part) for part in node.walk()):
            return None
        if not scope.groups or isinstance(node, exp.Literal | exp.Null | exp.Boolean):
            return None
        try:
            key = self.write(node, scope.before).key
        except PlanError:
            return None
        at = scope.groups.get(key)
        return reference(at, scope.fields[at].kind) if at is not None else None

    def _column(self, node: exp.Column, scope: Scope) -> Typed:
        if isinstance(node.this, exp.Star) or node.args.get("catalog"):
            raise unsupported(shown(node), node)
        found = scope.find(node)
        if found is None and not node.table and node.name.lower() in scope.aliases:
            return self.write(scope.aliases[node.name.lower()], scope)
        if found is None and node.name.lower() in self.left_out:
            raise unsupported(f"column {node.name} of type {self.left_out[node.name.lower()]}", node)
        if found is None:
            raise BindError(f"no column {node.sql()!r} that a Substrait plan can refer to", position_of(node))
        steps, at = found
        return reference(at, scope.at(steps).fields[at].kind, steps)

    def _literal(self, node: exp.Expr) -> Typed:
        match node:
            case exp.Null():
                return Typed(Expression(literal=literals.null("INTEGER")), NULL)
            case exp.Boolean():
                return Typed(Expression(literal=Expression.Literal(boolean=bool(node.this))), "BOOLEAN")
            case exp.Interval():
                return interval(node)
        if node.is_string:
            made = Expression.Literal(string=node.name)
            return Typed(Expression(literal=made), "VARCHAR", literals.string(node.name))
        return self._number(node.name)

    def _number(self, text: str) -> Typed:
        kind = self.types.of(text)
        return Typed(Expression(literal=literals.number(text, kind)), kind, text)

    def _cast(self, node: exp.Expr, scope: Scope) -> Typed:
        value = self.write(node.this, scope)
        kind = self.types.of(f"CAST(NULL AS {node.args['to'].sql('duckdb')})")
        if not isinstance(node, exp.TryCast) or value.kind == kind:
            made = self.cast(value, kind)
            return Typed(made.node, made.kind)
        cast = Expression.Cast(type=to_substrait(kind), input=value.node, failure_behavior=1)
        return Typed(Expression(cast=cast), kind)

    def _array(self, node: exp.Expr, scope: Scope) -> Typed:
        parts = self.alike([self.write(part, scope) for part in node.expressions])
        if not parts:
            raise unsupported("an empty list", node)
        made = Expression.Nested(list=Expression.Nested.List(values=[part.node for part in parts]))
        return Typed(Expression(nested=made), f"{parts[0].kind}[]")

    def _named(self, node: exp.Anonymous, scope: Scope) -> Typed:
        """A function by its name: an AI call, a parameter, or one of DuckDB's."""
        if site_number(node) is not None:
            return ai_call(self, node, scope)
        name = str(node.this).lower()
        if name == PARAMETER:
            number = int(node.expressions[0].name)
            kind = self._parameters[number]
            made = DynamicParameter(type=to_substrait(kind), parameter_reference=number)
            return Typed(Expression(dynamic_parameter=made), kind)
        return self._function(name, node.expressions, node, scope)

    def _function(self, name: str, given: Sequence[exp.Expr], node: exp.Expr, scope: Scope) -> Typed:
        if is_aggregate(node) or isinstance(node.parent, exp.Window):
            raise unsupported(shown(node), node)
        arguments = [self.write(part, scope) for part in given]
        known = FROM_DUCKDB.get(name, "")
        if known in _ALIKE:
            arguments = self.alike(arguments)
        if known == "round" and len(arguments) != 2:
            known = ""
        kind = self.types.of(f"{name}({', '.join(argument.probe for argument in arguments)})")
        return self.call(known, arguments, kind, name)


PARAMETER = "covey_parameter"
"""What parameters are called, with their numbers, in the text that is parsed."""


def _value(argument: Typed) -> Any:
    return FunctionArgument(value=argument.node)


def _parts(node: exp.Expr, key: str) -> list[exp.Expr]:
    part = node.args.get(key)
    return part if isinstance(part, list) else [part] if part is not None else []


def _flat(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """The operands of a chain of one connective, also across parentheses."""
    bare = node.unnest() if isinstance(node, exp.Paren) else node
    if not isinstance(bare, kind):
        return [node]
    return [*_flat(bare.this, kind), *_flat(bare.expression, kind)]
