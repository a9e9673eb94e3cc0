"""Expressions of our SQL in, Substrait's out, with DuckDB's types. Subqueries go to the writer of relations."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlglot import exp
from substrait.algebra_pb2 import DynamicParameter, Expression, FunctionArgument, FunctionOption

from covey_planner.binding.scope import position_of
from covey_planner.errors import BindError
from covey_planner.language.calls import is_aggregate
from covey_planner.language.parse import Site, site_number
from covey_planner.substrait import literals
from covey_planner.substrait.extensions import Declaring
from covey_planner.substrait.functions import DUCKDB, FROM_DUCKDB, SCALAR, placed
from covey_planner.substrait.scope import NULL, Scope, Typed, Types, shown, unsupported
from covey_planner.substrait.types import INTEGERS, is_decimal, short, to_substrait
from covey_planner.substrait.write_ai import ai_call

COMPARISONS: Mapping[type[exp.Expr], tuple[str, str]] = {
    exp.EQ: ("equal", "="),
    exp.NEQ: ("not_equal", "<>"),
    exp.LT: ("lt", "<"),
    exp.LTE: ("lte", "<="),
    exp.GT: ("gt", ">"),
    exp.GTE: ("gte", ">="),
    exp.NullSafeEQ: ("is_not_distinct_from", "IS NOT DISTINCT FROM"),
    exp.NullSafeNEQ: ("is_distinct_from", "IS DISTINCT FROM"),
}
_ARITHMETIC: Mapping[type[exp.Expr], tuple[str, str]] = {
    exp.Add: ("add", "+"),
    exp.Sub: ("subtract", "-"),
    exp.Mul: ("multiply", "*"),
    exp.Div: ("divide", "/"),
    exp.IntDiv: ("divide", "//"),
    exp.Mod: ("modulus", "%"),
    exp.DPipe: ("concat", "||"),
    exp.Like: ("like", "LIKE"),
    exp.ILike: ("like", "ILIKE"),
}
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
_NUMBERS = (*INTEGERS, "FLOAT", "DOUBLE")
_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19, "HUGEINT": 38}
_ALIKE = frozenset({"coalesce", "nullif", "least_skip_null", "greatest_skip_null"})
_INDEXED = frozenset({"MONTH", "QUARTER", "DAY"})
_PART = frozenset({"YEAR", "HOUR", "MINUTE", "SECOND", *_INDEXED})
_INTERVAL = re.compile(r"\s*([+-]?\d+)\s*([a-z]+?)s?\s*", re.IGNORECASE)


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
        self._subquery = subquery
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
            return self._comparison(node, scope)
        if type(node) in _ARITHMETIC:
            return self._arithmetic(node, scope)
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
                return self._is(node, scope)
            case exp.Between():
                parts = [self.write(node.args[key], scope) for key in ("this", "low", "high")]
                return self.call("between", self.alike(parts), "BOOLEAN")
            case exp.Cast():
                return self._cast(node, scope)
            case exp.Case() | exp.If():
                return self._case(node, scope)
            case exp.Extract():
                return self._extract(node, scope)
            case exp.In() | exp.Exists() | exp.Subquery() | exp.Select() | exp.SetOperation():
                return self._membership(node, scope)
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
        fits = len(set(kinds)) == 1 and all(
            part.literal is None or _fits(part.literal, kinds[0]) for part in parts
        )
        kind = kinds[0] if fits else self.types.common(parts)
        return [self.cast(part, "INTEGER" if kind == NULL else kind) for part in parts]

    def cast(self, value: Typed, kind: str) -> Typed:
        """A value as a type; a literal becomes one of that type."""
        if value.kind == kind:
            return value
        if value.kind == NULL:
            return Typed(Expression(literal=literals.null(kind)), kind)
        if value.literal is not None and not value.literal.startswith("'") and _fits(value.literal, kind):
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
        except BindError:
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
                return _interval(node)
        if node.is_string:
            made = Expression.Literal(string=node.name)
            return Typed(Expression(literal=made), "VARCHAR", literals.string(node.name))
        return self._number(node.name)

    def _number(self, text: str) -> Typed:
        kind = self.types.of(text)
        return Typed(Expression(literal=literals.number(text, kind)), kind, text)

    def _comparison(self, node: exp.Expr, scope: Scope) -> Typed:
        name, sign = COMPARISONS[type(node)]
        if isinstance(node.expression, exp.Any | exp.All):
            return self._set_comparison(node, sign, scope)
        if isinstance(node.this, exp.Tuple) or isinstance(node.expression, exp.Tuple):
            raise unsupported("a comparison of rows", node)
        parts = [self.write(node.this, scope), self.write(node.expression, scope)]
        return self.call(name, self.alike(parts), "BOOLEAN")

    def _arithmetic(self, node: exp.Expr, scope: Scope) -> Typed:
        name, sign = _ARITHMETIC[type(node)]
        left, right = self.write(node.this, scope), self.write(node.expression, scope)
        if name in ("concat", "like"):
            if {left.kind, right.kind} - {"VARCHAR", NULL} and name == "concat":
                kind = self.types.of(f"{left.probe} || {right.probe}")
                if kind != "VARCHAR":
                    return self.call("", [left, right], kind, "||")
            parts = [self.cast(left, "VARCHAR"), self.cast(right, "VARCHAR")]
            option = "CASE_INSENSITIVE" if sign == "ILIKE" else None
            return self.call(name, parts, "VARCHAR" if name == "concat" else "BOOLEAN", option=option)
        kind = self.types.of(f"{left.probe} {sign} {right.probe}")
        if sign == "/" and kind == "DOUBLE":
            return self.call(name, [self.cast(left, kind), self.cast(right, kind)], kind)
        if kind in _NUMBERS and left.kind in _NUMBERS and right.kind in _NUMBERS:
            return self.call(name, [self.cast(left, kind), self.cast(right, kind)], kind, sign)
        if is_decimal(kind) and sign != "//":
            left, right = self._as_decimal(left), self._as_decimal(right)
            now = self.types.of(f"{left.probe} {sign} {right.probe}")
            return self.cast(self.call(name, [left, right], now, sign), kind)
        known = name if sign != "//" and sign != "/" else ""
        return self.call(known, [left, right], kind, sign)

    def _as_decimal(self, value: Typed) -> Typed:
        if is_decimal(value.kind) or value.kind not in _DIGITS:
            return value
        digits = _DIGITS[value.kind] if value.literal is None else len(value.literal.lstrip("-"))
        made = self.cast(value, f"DECIMAL({digits},0)")
        return Typed(made.node, made.kind)

    def _is(self, node: exp.Expr, scope: Scope) -> Typed:
        value = self.write(node.this, scope)
        match node.expression:
            case exp.Null():
                words = "is_null"
            case exp.Not(this=exp.Null()):
                words = "is_not_null"
            case exp.Boolean(this=said):
                words = "is_true" if said else "is_false"
            case _:
                raise unsupported(shown(node), node)
        return self.call(words, [value], "BOOLEAN")

    def _cast(self, node: exp.Expr, scope: Scope) -> Typed:
        value = self.write(node.this, scope)
        kind = self.types.of(f"CAST(NULL AS {node.args['to'].sql('duckdb')})")
        if not isinstance(node, exp.TryCast) or value.kind == kind:
            made = self.cast(value, kind)
            return Typed(made.node, made.kind)
        cast = Expression.Cast(type=to_substrait(kind), input=value.node, failure_behavior=1)
        return Typed(Expression(cast=cast), kind)

    def _case(self, node: exp.Expr, scope: Scope) -> Typed:
        branches = node.args["ifs"] if isinstance(node, exp.Case) else [node]
        last = node.args.get("default" if isinstance(node, exp.Case) else "false")
        results = [self.write(branch.args["true"], scope) for branch in branches]
        results.append(self.write(last if last is not None else exp.Null(), scope))
        results = self.alike(results)
        value = node.this if isinstance(node, exp.Case) else None
        asked = [
            branch.this if value is None else exp.EQ(this=value, expression=branch.this)
            for branch in branches
        ]
        made = Expression.IfThen()
        for condition, result in zip(asked, results, strict=False):
            made.ifs.add(**{"if": self.write(condition, scope).node, "then": result.node})
        getattr(made, "else").CopyFrom(results[-1].node)
        return Typed(Expression(if_then=made), results[0].kind)

    def _extract(self, node: exp.Expr, scope: Scope) -> Typed:
        part, value = node.this.name.upper(), self.write(node.expression, scope)
        kind = self.types.of(f"extract({part} FROM {value.probe})")
        if part not in _PART or not (value.kind == "DATE" or value.kind.startswith("TIMESTAMP")):
            part_of = Typed(Expression(literal=Expression.Literal(string=part.lower())), "VARCHAR")
            return self.call("", [part_of, value], kind, "date_part")
        words = [FunctionArgument(enum=part)] + [FunctionArgument(enum="ONE")] * (part in _INDEXED)
        signature = f"extract:{'_'.join(['req'] * len(words))}_{short_of(value)}"
        return self.apply(SCALAR["extract"].urn, signature, [*words, _value(value)], kind)

    def _array(self, node: exp.Expr, scope: Scope) -> Typed:
        parts = self.alike([self.write(part, scope) for part in node.expressions])
        if not parts:
            raise unsupported("an empty list", node)
        made = Expression.Nested(list=Expression.Nested.List(values=[part.node for part in parts]))
        return Typed(Expression(nested=made), f"{parts[0].kind}[]")

    def _membership(self, node: exp.Expr, scope: Scope) -> Typed:
        made = Expression.Subquery()
        match node:
            case exp.In(this=exp.Tuple(), expressions=[_, *_]):
                return self._rows(node, scope)
            case exp.In(expressions=[_, *_]):
                parts = self.alike([self.write(part, scope) for part in (node.this, *node.expressions)])
                options = [part.node for part in parts[1:]]
                chosen = Expression.SingularOrList(value=parts[0].node, options=options)
                return Typed(Expression(singular_or_list=chosen), "BOOLEAN")
            case exp.In() if node.args.get("query") is not None:
                tree, _ = self._subquery(node.args["query"], scope)
                given = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
                needles = [self.write(part, scope).node for part in given]
                made.in_predicate.MergeFrom(Expression.Subquery.InPredicate(needles=needles, haystack=tree))
                return Typed(Expression(subquery=made), "BOOLEAN")
            case exp.Exists():
                tree, _ = self._subquery(node.this, scope)
                made.set_predicate.MergeFrom(Expression.Subquery.SetPredicate(predicate_op=1, tuples=tree))
                return Typed(Expression(subquery=made), "BOOLEAN")
            case exp.Subquery() | exp.Select() | exp.SetOperation():
                tree, kinds = self._subquery(node, scope)
                made.scalar.MergeFrom(Expression.Subquery.Scalar(input=tree))
                return Typed(Expression(subquery=made), kinds[0])
        raise unsupported(shown(node), node)

    def _rows(self, node: exp.In, scope: Scope) -> Typed:
        """Whether a row of values is among others."""
        width = len(node.this.expressions)
        if any(not isinstance(row, exp.Tuple) or len(row.expressions) != width for row in node.expressions):
            raise unsupported(shown(node), node)
        rows = [
            [self.write(part, scope) for part in row.expressions] for row in (node.this, *node.expressions)
        ]
        columns = [self.alike(column) for column in zip(*rows, strict=True)]
        made = Expression.MultiOrList(value=[column[0].node for column in columns])
        for at in range(1, len(rows)):
            made.options.add(fields=[column[at].node for column in columns])
        return Typed(Expression(multi_or_list=made), "BOOLEAN")

    def _set_comparison(self, node: exp.Expr, sign: str, scope: Scope) -> Typed:
        signs = ("", "=", "<>", "<", ">", "<=", ">=")
        if sign not in signs or not isinstance(node.expression.this, exp.Query):
            raise unsupported(shown(node), node)
        tree, _ = self._subquery(node.expression.this, scope)
        said = Expression.Subquery.SetComparison(
            reduction_op=1 if isinstance(node.expression, exp.Any) else 2,
            comparison_op=signs.index(sign),
            left=self.write(node.this, scope).node,
            right=tree,
        )
        return Typed(Expression(subquery=Expression.Subquery(set_comparison=said)), "BOOLEAN")

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


def reference(at: int, kind: str, steps: int = 0) -> Typed:
    """The column at a place of the relation, or of that of a query so many steps out."""
    made = Expression.FieldReference()
    made.direct_reference.struct_field.field = at
    if steps:
        made.outer_reference.steps_out = steps
    else:
        made.root_reference.SetInParent()
    return Typed(Expression(selection=made), kind)


def short_of(value: Typed) -> str:
    """The short type of an argument; a literal interval's is its own."""
    if value.kind == "INTERVAL" and value.node.WhichOneof("rex_type") == "literal":
        field = value.node.literal.WhichOneof("literal_type")
        return {"interval_year_to_month": "iyear", "interval_day_to_second": "iday"}.get(field, "icompound")
    return short(to_substrait("INTEGER" if value.kind == NULL else value.kind))


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


def _fits(text: str, kind: str) -> bool:
    """Whether a number can be written as a type without loss."""
    whole, _, rest = text.lstrip("-").partition(".")
    if not (whole + rest).isdigit():
        return False
    if kind in _DIGITS:
        return not rest and len(whole) < _DIGITS[kind]
    if is_decimal(kind):
        width, scale = map(int, kind[8:-1].split(","))
        return len(rest) <= scale and len(whole.lstrip("0")) <= width - scale
    return kind in ("DOUBLE", "FLOAT") and len(whole + rest) < (16 if kind == "DOUBLE" else 7)


def _interval(node: exp.Interval) -> Typed:
    """INTERVAL '3' month, INTERVAL 3 months, INTERVAL '3 months'."""
    text = f"{node.name} {node.args['unit'].name if node.args.get('unit') is not None else ''}"
    found = _INTERVAL.fullmatch(text)
    per = {"year": (12, 0, 0), "quarter": (3, 0, 0), "month": (1, 0, 0), "week": (0, 7, 0), "day": (0, 1, 0)}
    seconds = {"hour": 3600, "minute": 60, "second": 1}
    unit = found[2].lower() if found is not None else ""
    if found is None or unit not in {*per, *seconds}:
        raise unsupported(f"the interval {text.strip()}", node)
    micros = int(datetime.timedelta(seconds=seconds.get(unit, 0)) / datetime.timedelta(microseconds=1))
    made = literals.interval(*(int(found[1]) * part for part in per.get(unit, (0, 0, micros))))
    return Typed(Expression(literal=made), "INTERVAL")
