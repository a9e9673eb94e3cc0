"""From the joins of a SELECT to those whose ON holds AI calls and is no filter; binds nothing, asks no catalog.

The ON of an inner join is a filter on all rows, unless a RIGHT or FULL join comes after it. The ON of any other join
decides where NULLs are filled in, so its calls are answered in their place: about pairs of a left and a right row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from covey_planner.binding.scope import Scope, position_of
from covey_planner.errors import Unsupported
from covey_planner.language.parse import site_number
from covey_planner.logical import Item, Source


@dataclass(frozen=True)
class Written:
    """A join as written. kind: INNER, LEFT, RIGHT, FULL, SEMI or ANTI; keys: the relations on its right; left: those on
    its left.
    """

    join: exp.Join
    kind: str
    keys: frozenset[str]
    left: frozenset[str]


@dataclass(frozen=True)
class Asking:
    """A join whose ON is to be bound with the names of `scope`.

    sides: the members of FROM that it joins, without the left one where that is all that the block has before it.
    reduces: relations on which the block's filters may leave out pairs, as no other row depends on those pairs.
    """

    on: exp.Expr
    scope: Scope
    position: int
    sides: tuple[Item, ...]
    reduces: frozenset[str] = frozenset()


def holds_call(node: exp.Expr) -> bool:
    """Whether an expression holds an AI call."""
    return any(site_number(part) is not None for part in node.walk())


def asks_or_queries(on: exp.Expr) -> bool:
    """Whether an ON holds an AI call or a subquery."""
    return holds_call(on) or on.find(exp.Query) is not None


def fragile(node: exp.Expr) -> bool:
    """Whether a node is a SEMI or ANTI join that must not stay as it is written: DuckDB mistakes subqueries there."""
    if not isinstance(node, exp.Join) or str(node.args.get("kind") or "").upper() not in ("SEMI", "ANTI"):
        return False
    on = node.args.get("on")
    return on is not None and asks_or_queries(on)


def check_columns(select: exp.Select, joins: Sequence[exp.Join]) -> None:
    """Refuse COLUMNS(…) where such a join becomes an inner join, which has a column of its own."""
    join = next((join for join in joins if fragile(join)), None)
    if join is not None and any(item.find(exp.Columns) is not None for item in select.expressions):
        kind = str(join.args["kind"]).upper()
        raise Unsupported(
            f"COLUMNS(…) over an ON of a {kind} join that asks, before a RIGHT or FULL join, is not supported:"
            " name the columns",
            position_of(join.args["on"]),
        )


def asking(
    select: exp.Select, written: Sequence[Written], scopes: Sequence[Scope], source: Source
) -> list[Asking]:
    """The joins of a SELECT that ask, in the order of the text."""
    whole = max((item.position for item in source.items if item.joins), default=-1)
    attached = {join.position: join for join in source.attached}
    found: list[Asking] = []
    for at, join in enumerate(written):
        on = join.join.args.get("on")
        if on is None or not holds_call(on):
            continue
        if at in attached:
            right = Item(frozenset({attached[at].relation}), attached[at].table)
            found.append(Asking(on, scopes[at], at, (right,)))
        elif at <= whole:
            reduces = _reducible(join, written[at + 1 : whole + 1])
            found.append(Asking(on, scopes[at], at, _sides(select, join, at), reduces))
    return found


def _sides(select: exp.Select, join: Written, at: int) -> tuple[Item, ...]:
    first: exp.Expr = select.args["from_"].this
    joins: list[exp.Join] = select.args["joins"][:at]
    return Item(join.left, first, tuple(joins)), Item(join.keys, join.join.this)


def _reducible(join: Written, later: Sequence[Written]) -> frozenset[str]:
    """Relations whose rows, where a filter drops them, may be dropped before the join: it gives their rows, if any, and
    no later join lets other rows appear for lack of them.
    """
    if any(other.kind in {"RIGHT", "FULL"} or other.join.args.get("method") for other in later):
        return frozenset()
    match join.kind:
        case "INNER":
            return join.left | join.keys
        case "RIGHT":
            return join.keys
        case "FULL":
            return frozenset()
    return join.left
