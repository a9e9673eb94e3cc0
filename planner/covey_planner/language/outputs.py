"""A bound statement in; out, the same with its outputs named, and without what only messages need."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from covey_planner.language.parse import Statement, sites_of


def name_outputs(statement: Statement, names: Sequence[str]) -> None:
    """Give every computed output the name that DuckDB, or its own text, gives it."""
    select: exp.Expr = statement.tree
    while isinstance(select, exp.SetOperation | exp.Subquery):
        select = select.this
    if not isinstance(select, exp.Select):
        return
    items = select.expressions
    stars = [at for at, item in enumerate(items) if item.is_star or item.find(exp.Columns) is not None]
    for at, item in enumerate(items):
        if isinstance(item, exp.Alias | exp.Column) or at in stars:
            continue
        if not stars or at < stars[0]:
            name = names[at]
        elif at > stars[-1]:
            name = names[len(names) - (len(items) - at)]
        else:
            held = bool(sites_of(item))
            name = statement.names[at] if held and at < len(statement.names) else ""
        if name:
            items[at] = exp.alias_(item, name, quoted=True, copy=False)
    select.set("expressions", items)


def forget_positions(tree: exp.Query) -> None:
    """Drop what only messages need, so that copies are cheap; from here on a plan is made or the planner is
    wrong.
    """
    for node in tree.walk():
        if node.meta_get("line") is not None:
            node._meta = None
