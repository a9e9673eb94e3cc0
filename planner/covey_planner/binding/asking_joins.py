"""From the joins of a SELECT to those whose ON holds AI calls and is no filter; binds nothing, asks no catalog.

The ON of an inner join is a filter on all rows, unless a RIGHT or FULL join comes after it. The ON of any other join
decides where NULLs are filled in, so its calls are answered in their place: about pairs of a left and a right row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from covey_planner.binding.scope import Scope, position_of
from covey_planner.errors import Unsupported
from covey_planner.language.parse import sites_of
from covey_planner.logical import JOIN, Ask, Item, Joined, Mixed, Source, filters, leaves


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
    flagged: the number of a join beside a RIGHT or FULL one, in whose ON no subquery may stand; right: the relations on
    its right.
    """

    on: exp.Expr
    scope: Scope
    position: int
    sides: tuple[Item, ...]
    reduces: frozenset[str] = frozenset()
    flagged: int | None = None
    right: frozenset[str] = frozenset()


OUTER = frozenset({"RIGHT", "FULL"})


def holds_call(node: exp.Expr) -> bool:
    """Whether an expression holds an AI call."""
    return bool(sites_of(node))


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


def asking(written: Sequence[Written], scopes: Sequence[Scope], source: Source) -> list[Asking]:
    """The joins of a SELECT that ask, in the order of the text."""
    attached = {join.position: join for join in source.attached}
    outer = any(join.kind in OUTER for join in written) or (
        len(written) > 1 and any(join.kind == "LEFT" for join in written)
    )
    found: list[Asking] = []
    for at, join in enumerate(written):
        on = join.join.args.get("on")
        if on is None or not holds_call(on):
            continue
        if at in attached:
            right = Item(frozenset({attached[at].relation}), attached[at].table)
            asked = Asking(on, scopes[at], at, (right,))
        else:
            item = next((item for item in source.items if item.joins and _inside(item, at)), None)
            if item is None:
                continue
            reduces = reducible(join, written[at + 1 : item.position + 1])
            asked = Asking(on, scopes[at], at, _sides(item, join, at), reduces)
        if outer and join.kind not in {"SEMI", "ANTI"}:
            join.join.meta[JOIN] = id(join.join)
            asked = replace(asked, flagged=id(join.join), right=join.keys)
        found.append(asked)
    return found


def _inside(item: Item, at: int) -> bool:
    """Whether a member of FROM holds the join at a position."""
    return item.position - len(item.joins) < at <= item.position


def _sides(item: Item, join: Written, at: int) -> tuple[Item, ...]:
    joins = item.joins[: at - 1 - (item.position - len(item.joins))]
    return Item(join.left, item.first, joins), Item(join.keys, join.join.this)


def reducible(join: Written, later: Sequence[Written]) -> frozenset[str]:
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


def checked(join: Joined, own: frozenset[str], select: exp.Select) -> Joined:
    """The join; asked in its ON as it is written, if it cannot be asked beside its sides and no RIGHT or FULL join is
    near. own: the relations of the SELECT. Raises Unsupported.
    """
    try:
        _check_flagged(join, own, select)
    except Unsupported:
        if any(str(other.args.get("side") or "").upper() in OUTER for other in select.args["joins"]):
            raise
        return replace(join, flagged=None)
    return join


def _check_flagged(join: Joined, own: frozenset[str], select: exp.Select) -> None:
    """Refuse what cannot be asked beside the sides of a join."""
    blocks = [
        leaf for condition in filters(join.plan)[1] for leaf in leaves(condition) if isinstance(leaf, Mixed)
    ]
    calls = [call for leaf in blocks for call in leaf.calls]
    calls += [
        leaf.call
        for condition in filters(join.plan)[1]
        for leaf in leaves(condition)
        if isinstance(leaf, Ask)
    ]
    for call in calls:
        for number, argument in enumerate(call.arguments):
            if not argument.relations <= own or (
                argument.relations & join.right and argument.relations - join.right
            ):
                raise Unsupported(
                    f"argument {number} of an AI call in ON beside a RIGHT or FULL join reads both sides, or a query "
                    "around: give each side an argument of its own, or compute it in a subquery of FROM",
                    call.position,
                )
        if any(item.find(exp.Columns) is not None for item in select.expressions):
            raise Unsupported(
                "an AI call in ON beside a RIGHT or FULL join does not go with COLUMNS(…): write the columns out",
                call.position,
            )
