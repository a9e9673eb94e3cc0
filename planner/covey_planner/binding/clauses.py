"""Parts of a SELECT's syntax tree: its clauses and their own nodes, those of subqueries left out; resolves no names."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from covey_planner.language.parse import site_number

VALUE_CLAUSES = ("distinct", "expressions", "group", "having", "windows", "qualify", "order")
"""The clauses that read what WHERE leaves."""


def clause_parts(select: exp.Select, key: str) -> list[exp.Expr]:
    """The expressions of a clause."""
    child = select.args.get(key)
    parts = child if isinstance(child, list) else [child]
    return [part for part in parts if isinstance(part, exp.Expr)]


def own_nodes(node: exp.Expr, calls: bool = False) -> Iterator[exp.Expr]:
    """Nodes in the order of the text; subqueries, and AI calls unless `calls`, are given, but not entered."""
    yield node
    if isinstance(node, exp.Query) or (site_number(node) is not None and not calls):
        return
    for child in node.iter_expressions():
        yield from own_nodes(child, calls)
