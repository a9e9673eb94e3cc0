"""IN, EXISTS, ANY, ALL and subqueries of our SQL in, Substrait's lists of options and subqueries out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp
from substrait.algebra_pb2 import Expression

from covey_planner.substrait.scope import Scope, Typed, shown, unsupported

if TYPE_CHECKING:
    from covey_planner.substrait.write_expressions import Expressions


def membership(writer: Expressions, node: exp.Expr, scope: Scope) -> Typed:
    """IN, EXISTS, or a subquery as a value. Raises BindError and Unsupported."""
    made = Expression.Subquery()
    match node:
        case exp.In(this=exp.Tuple(), expressions=[_, *_]):
            return _rows(writer, node, scope)
        case exp.In(expressions=[_, *_]):
            parts = writer.alike([writer.write(part, scope) for part in (node.this, *node.expressions)])
            options = [part.node for part in parts[1:]]
            chosen = Expression.SingularOrList(value=parts[0].node, options=options)
            return Typed(Expression(singular_or_list=chosen), "BOOLEAN")
        case exp.In() if node.args.get("query") is not None:
            tree, _ = writer.subquery(node.args["query"], scope)
            given = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
            needles = [writer.write(part, scope).node for part in given]
            made.in_predicate.MergeFrom(Expression.Subquery.InPredicate(needles=needles, haystack=tree))
            return Typed(Expression(subquery=made), "BOOLEAN")
        case exp.Exists():
            tree, _ = writer.subquery(node.this, scope)
            made.set_predicate.MergeFrom(Expression.Subquery.SetPredicate(predicate_op=1, tuples=tree))
            return Typed(Expression(subquery=made), "BOOLEAN")
        case exp.Subquery() | exp.Select() | exp.SetOperation():
            tree, kinds = writer.subquery(node, scope)
            made.scalar.MergeFrom(Expression.Subquery.Scalar(input=tree))
            return Typed(Expression(subquery=made), kinds[0])
    raise unsupported(shown(node), node)


def _rows(writer: Expressions, node: exp.In, scope: Scope) -> Typed:
    """Whether a row of values is among others."""
    width = len(node.this.expressions)
    if any(not isinstance(row, exp.Tuple) or len(row.expressions) != width for row in node.expressions):
        raise unsupported(shown(node), node)
    rows = [[writer.write(part, scope) for part in row.expressions] for row in (node.this, *node.expressions)]
    columns = [writer.alike(column) for column in zip(*rows, strict=True)]
    made = Expression.MultiOrList(value=[column[0].node for column in columns])
    for at in range(1, len(rows)):
        made.options.add(fields=[column[at].node for column in columns])
    return Typed(Expression(multi_or_list=made), "BOOLEAN")


def set_comparison(writer: Expressions, node: exp.Expr, sign: str, scope: Scope) -> Typed:
    """A comparison, by its sign, with ANY or ALL rows of a subquery. Raises BindError and Unsupported."""
    signs = ("", "=", "<>", "<", ">", "<=", ">=")
    if sign not in signs or not isinstance(node.expression.this, exp.Query):
        raise unsupported(shown(node), node)
    tree, _ = writer.subquery(node.expression.this, scope)
    said = Expression.Subquery.SetComparison(
        reduction_op=1 if isinstance(node.expression, exp.Any) else 2,
        comparison_op=signs.index(sign),
        left=writer.write(node.this, scope).node,
        right=tree,
    )
    return Typed(Expression(subquery=Expression.Subquery(set_comparison=said)), "BOOLEAN")
