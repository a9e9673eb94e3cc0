"""SEMI and ANTI joins as predicates: a join of a syntax tree in, `[NOT] EXISTS (…)` out; runs nothing.

An answered ON holds subqueries, and DuckDB 2.0.1 gives wrong rows, or fails, where that of a SEMI or ANTI join does.
Such a join only drops rows of its left side, which a predicate on the joined rows does as well; before a RIGHT or FULL
join, a predicate on the rows so far: the ON of an inner join with a single row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from covey_planner.binding.clauses import own_nodes
from covey_planner.language.render import render
from covey_planner.logical import Attached

Write = Callable[[exp.Expr], str]
"""The SQL of a part of the tree, its calls answered."""


def attached_sql(join: Attached, write: Write, beside: Sequence[str] = ()) -> str:
    """A LEFT join as SQL for FROM, any other one as a predicate. beside: what is joined to its right side."""
    if join.kind == "LEFT":
        table = f"({' '.join([write(join.table), *beside])})" if beside else write(join.table)
        return f"LEFT JOIN {table} ON {write(join.on)}"
    return _exists(join.kind, write(join.table), write(join.on))


def to_be_predicates(joins: Sequence[Attached]) -> list[Attached]:
    """The joins that must not stay as they are written, as answers are looked up by subqueries beside them."""
    return [join for join in joins if join.kind != "LEFT"]


def in_place(join: exp.Expr, number: int) -> str:
    """Turn an answered join of a copied tree into an inner join with one row of one column; the column's name."""
    alias = f"__covey_s{number}"
    exists = _exists(str(join.args["kind"]).upper(), render(join.this), render(join.args["on"]))
    join.set("kind", None)
    join.set("this", exp.Var(this=f"(SELECT 1) AS {alias}({alias}_1)"))
    join.set("on", exp.Var(this=exists))
    return f"{alias}_1"


def as_predicates(select: exp.Select, joins: Sequence[tuple[exp.Expr, Attached]], write: Write) -> None:
    """Turn joins of a copied SELECT, each with what it was bound to, into predicates of its WHERE."""
    gone = {id(node) for node, _ in joins}
    for node, join in joins:
        _name_merged(select, node, join)
    select.set("joins", [node for node in select.args["joins"] if id(node) not in gone])
    found: list[exp.Expr] = [exp.Var(this=attached_sql(join, write)) for _, join in joins]
    where = select.args.get("where")
    if where is not None:
        found.insert(0, exp.Paren(this=where.this))
    select.set("where", exp.Where(this=exp.and_(*found, copy=False)))


def _name_merged(select: exp.Select, node: exp.Expr, join: Attached) -> None:
    """Say of which table a column is that USING or NATURAL makes the only one of its name; it would be ambiguous."""
    if not (node.args.get("using") or str(node.args.get("method") or "").upper() == "NATURAL"):
        return
    merged = {pair.this.name.lower(): pair.this for pair in join.on.find_all(exp.EQ)}
    aliases = {item.alias.lower() for item in select.expressions}
    for key, value in select.args.items():
        parts = [
            part for part in (value if isinstance(value, list) else [value]) if isinstance(part, exp.Expr)
        ]
        for column in [own for part in parts for own in own_nodes(part, calls=True)]:
            name = column.name.lower() if isinstance(column, exp.Column) and not column.table else ""
            if name in merged and not (key == "order" and name in aliases):
                column.replace(merged[name].copy())


def _exists(kind: str, table: str, on: str) -> str:
    return f"{'' if kind == 'SEMI' else 'NOT '}EXISTS (SELECT 1 FROM {table} WHERE {on})"
