"""Comparisons, arithmetic and EXTRACT of our SQL in, Substrait's functions out, with the casts that SQL leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlglot import exp
from substrait.algebra_pb2 import Expression, FunctionArgument

from covey_planner.substrait.functions import SCALAR
from covey_planner.substrait.scope import NULL, Scope, Typed, unsupported
from covey_planner.substrait.types import INTEGERS, is_decimal
from covey_planner.substrait.write_membership import set_comparison
from covey_planner.substrait.write_values import DIGITS, short_of

if TYPE_CHECKING:
    from covey_planner.substrait.write_expressions import Expressions

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
ARITHMETIC: Mapping[type[exp.Expr], tuple[str, str]] = {
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
_NUMBERS = (*INTEGERS, "FLOAT", "DOUBLE")
_INDEXED = frozenset({"MONTH", "QUARTER", "DAY"})
_PART = frozenset({"YEAR", "HOUR", "MINUTE", "SECOND", *_INDEXED})


def comparison(writer: Expressions, node: exp.Expr, scope: Scope) -> Typed:
    """One of COMPARISONS, both sides as one type. Raises BindError and Unsupported."""
    name, sign = COMPARISONS[type(node)]
    if isinstance(node.expression, exp.Any | exp.All):
        return set_comparison(writer, node, sign, scope)
    if isinstance(node.this, exp.Tuple) or isinstance(node.expression, exp.Tuple):
        raise unsupported("a comparison of rows", node)
    parts = [writer.write(node.this, scope), writer.write(node.expression, scope)]
    return writer.call(name, writer.alike(parts), "BOOLEAN")


def arithmetic(writer: Expressions, node: exp.Expr, scope: Scope) -> Typed:
    """One of ARITHMETIC, of the type that DuckDB gives it. Raises BindError and Unsupported."""
    name, sign = ARITHMETIC[type(node)]
    left, right = writer.write(node.this, scope), writer.write(node.expression, scope)
    if name in ("concat", "like"):
        if {left.kind, right.kind} - {"VARCHAR", NULL} and name == "concat":
            kind = writer.types.of(f"{left.probe} || {right.probe}")
            if kind != "VARCHAR":
                return writer.call("", [left, right], kind, "||")
        parts = [writer.cast(left, "VARCHAR"), writer.cast(right, "VARCHAR")]
        option = "CASE_INSENSITIVE" if sign == "ILIKE" else None
        return writer.call(name, parts, "VARCHAR" if name == "concat" else "BOOLEAN", option=option)
    kind = writer.types.of(f"{left.probe} {sign} {right.probe}")
    if sign == "/" and kind == "DOUBLE":
        return writer.call(name, [writer.cast(left, kind), writer.cast(right, kind)], kind)
    if kind in _NUMBERS and left.kind in _NUMBERS and right.kind in _NUMBERS:
        return writer.call(name, [writer.cast(left, kind), writer.cast(right, kind)], kind, sign)
    if is_decimal(kind) and sign != "//":
        left, right = _as_decimal(writer, left), _as_decimal(writer, right)
        now = writer.types.of(f"{left.probe} {sign} {right.probe}")
        return writer.cast(writer.call(name, [left, right], now, sign), kind)
    known = name if sign != "//" and sign != "/" else ""
    return writer.call(known, [left, right], kind, sign)


def _as_decimal(writer: Expressions, value: Typed) -> Typed:
    if is_decimal(value.kind) or value.kind not in DIGITS:
        return value
    digits = DIGITS[value.kind] if value.literal is None else len(value.literal.lstrip("-"))
    made = writer.cast(value, f"DECIMAL({digits},0)")
    return Typed(made.node, made.kind)


def extract(writer: Expressions, node: exp.Expr, scope: Scope) -> Typed:
    """EXTRACT of a part that Substrait has, or DuckDB's date_part. Raises BindError and Unsupported."""
    part, value = node.this.name.upper(), writer.write(node.expression, scope)
    kind = writer.types.of(f"extract({part} FROM {value.probe})")
    if part not in _PART or not (value.kind == "DATE" or value.kind.startswith("TIMESTAMP")):
        part_of = Typed(Expression(literal=Expression.Literal(string=part.lower())), "VARCHAR")
        return writer.call("", [part_of, value], kind, "date_part")
    words = [FunctionArgument(enum=part)] + [FunctionArgument(enum="ONE")] * (part in _INDEXED)
    signature = f"extract:{'_'.join(['req'] * len(words))}_{short_of(value)}"
    return writer.apply(SCALAR["extract"].urn, signature, [*words, FunctionArgument(value=value.node)], kind)
