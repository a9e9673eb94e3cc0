"""CASE, IF and IS of our SQL in, Substrait's conditions and tests out; knows no other expression."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp
from substrait.algebra_pb2 import Expression

from covey_planner.substrait.scope import Scope, Typed, shown, unsupported

if TYPE_CHECKING:
    from covey_planner.substrait.write_expressions import Expressions


def boolean_test(writer: Expressions, node: exp.Expr, scope: Scope) -> Typed:
    """IS [NOT] NULL, IS TRUE, IS FALSE. Raises BindError and Unsupported."""
    value = writer.write(node.this, scope)
    match node.expression:
        case exp.Null():
            words = "is_null"
        case exp.Not(this=exp.Null()):
            words = "is_not_null"
        case exp.Boolean(this=said):
            words = "is_true" if said else "is_false"
        case _:
            raise unsupported(shown(node), node)
    return writer.call(words, [value], "BOOLEAN")


def case(writer: Expressions, node: exp.Expr, scope: Scope) -> Typed:
    """CASE in both forms, and IF; the results as one type. Raises BindError and Unsupported."""
    branches = node.args["ifs"] if isinstance(node, exp.Case) else [node]
    last = node.args.get("default" if isinstance(node, exp.Case) else "false")
    results = [writer.write(branch.args["true"], scope) for branch in branches]
    results.append(writer.write(last if last is not None else exp.Null(), scope))
    results = writer.alike(results)
    value = node.this if isinstance(node, exp.Case) else None
    asked = [
        branch.this if value is None else exp.EQ(this=value, expression=branch.this) for branch in branches
    ]
    made = Expression.IfThen()
    for condition, result in zip(asked, results, strict=False):
        made.ifs.add(**{"if": writer.write(condition, scope).node, "then": result.node})
    getattr(made, "else").CopyFrom(results[-1].node)
    return Typed(Expression(if_then=made), results[0].kind)
