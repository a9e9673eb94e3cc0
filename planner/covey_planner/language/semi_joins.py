"""SEMI and ANTI joins that ask become `[NOT] EXISTS` in WHERE, where that is the same; all other joins stay.

A row is then settled by its first match, and what comes before in WHERE is asked before.
"""

from __future__ import annotations

from sqlglot import exp

from covey_planner.language.parse import sites_of

_KINDS = ("SEMI", "ANTI")


def semi_joins_to_exists(tree: exp.Expr) -> None:
    """Rewrite the joins of a statement's tree in place."""
    for select in list(tree.find_all(exp.Select)):
        joins: list[exp.Join] = select.args.get("joins") or []
        if any(_kind(join) in _KINDS for join in joins) and all(map(_only_adds_or_drops, joins)):
            for join in [join for join in joins if _may_move(join)]:
                _move(select, join)


def _kind(join: exp.Join) -> str:
    return str(join.args.get("kind") or "").upper()


def _only_adds_or_drops(join: exp.Join) -> bool:
    """Whether rows of the left side stay as they are, or go; a comma, for which ON sees fewer tables, does not do."""
    side, method = (str(join.args.get(key) or "").upper() for key in ("side", "method"))
    comma = not any(join.args.get(key) for key in ("kind", "side", "method", "on", "using"))
    return side in ("", "LEFT") and not method and not comma


def _may_move(join: exp.Join) -> bool:
    """Whether a join asks, and its ON reads the same columns inside a subquery."""
    on = join.args.get("on")
    if _kind(join) not in _KINDS or on is None or not sites_of(on):
        return False
    if not isinstance(join.this, exp.Table) or sites_of(join.this):
        return False
    return on.find(exp.Query, exp.Lambda) is None and all(column.table for column in on.find_all(exp.Column))


def _move(select: exp.Select, join: exp.Join) -> None:
    select.set("joins", [other for other in select.args["joins"] if other is not join])
    inner = exp.Select(expressions=[exp.Literal.number(1)], from_=exp.From(this=join.this))
    inner.set("where", exp.Where(this=join.args["on"]))
    exists: exp.Expr = exp.Exists(this=inner)
    if _kind(join) == "ANTI":
        exists = exp.Not(this=exists)
    where = select.args.get("where")
    parts = [exists] if where is None else [exp.Paren(this=where.this), exists]
    select.set("where", exp.Where(this=exp.and_(*parts, copy=False)))
