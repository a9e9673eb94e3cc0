"""AI calls in VALUES become scalar subqueries, so that each is bound like any other; the tree is changed in place."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from covey_planner.errors import Unsupported
from covey_planner.language.parse import Statement, site_number


def select_in_values(statement: Statement) -> None:
    """Put each AI call of a row of VALUES into a SELECT of its own. Raises Unsupported for a row with DEFAULT."""
    for values in list(statement.tree.find_all(exp.Values)):
        calls = [call for row in values.expressions for call in _outermost(row)]
        if not calls:
            continue
        number = site_number(calls[0])
        assert number is not None
        if any(isinstance(cell, exp.Var) and cell.name.upper() == "DEFAULT" for cell in values.walk()):
            raise Unsupported(
                "DEFAULT beside an AI call in VALUES is not supported: leave the column out, or write its value",
                statement.scan.sites[number].position,
            )
        for call in calls:
            subquery = exp.Subquery()
            call.replace(subquery)
            subquery.set("this", exp.Select(expressions=[call]))


def _outermost(node: exp.Expr) -> Iterator[exp.Expr]:
    """The AI calls of an expression that are not inside a query or another call."""
    if site_number(node) is not None:
        yield node
    elif not isinstance(node, exp.Query):
        for child in node.iter_expressions():
            yield from _outermost(child)
