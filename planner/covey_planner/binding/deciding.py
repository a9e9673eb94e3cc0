"""What a SELECT makes of a subquery's rows: of how many the truth depends on, whatever others there are; binds names of
`x IN (SELECT y …)`, asks nothing.

`EXISTS`, `IN` and a count compared with a number are settled by so many rows. Which ones does not matter, so a subquery
that ends with a question need not ask it of all.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from covey_planner.binding.columns import qualify
from covey_planner.binding.scope import Scope
from covey_planner.binding.volatile import volatile
from covey_planner.errors import BindError
from covey_planner.language.calls import is_aggregate
from covey_planner.language.parse import site_number

_CLAUSES = frozenset({"expressions", "from_", "joins", "where", "kind"})
_BY_VALUE = _CLAUSES | {"distinct", "order", "group", "having"}
"""Clauses that make of the rows with one value what they would make of them without all others."""
_TURNED = {
    exp.GT: exp.LT,
    exp.LT: exp.GT,
    exp.GTE: exp.LTE,
    exp.LTE: exp.GTE,
    exp.EQ: exp.EQ,
    exp.NEQ: exp.NEQ,
}
_WHOLE = frozenset(
    f"{sign}{name}" for sign in ("", "U") for name in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
)


@dataclass(frozen=True)
class Probe:
    """`left IN (SELECT right …)`: columns of the SELECT around and of the subquery, with the relations they are of."""

    left: exp.Expr
    outer: frozenset[str]
    right: exp.Expr
    inner: frozenset[str]


@dataclass(frozen=True)
class Test:
    """An expression over a subquery's rows. needed: so many settle it; sense: what it is then, and is not for fewer;
    None where fewer may give the same.
    """

    node: exp.Expr
    needed: int
    sense: bool | None = None


def test_of(select: exp.Select) -> Test | None:
    """What is made of a SELECT's rows where a number of them settles it."""
    used = {name for name, value in select.args.items() if value}
    node = _around(select)
    if used - _CLAUSES - {"distinct", "order", "limit"}:
        return None
    if "limit" in used and not (isinstance(node.parent, exp.Exists) and _at_least_one(select.args["limit"])):
        return None
    counted = _counted(select)
    if counted is not None:
        return counted if used <= _CLAUSES else None
    distinct = select.args.get("distinct")
    if any(_bars(part) for item in select.expressions for part in item.walk()):
        return None
    if isinstance(distinct, exp.Distinct) and distinct.args.get("on") is not None:
        return None
    parent = node.parent
    if isinstance(parent, exp.Exists):
        return Test(parent, 1, True)
    tested = membership(select)
    if tested is None or len(select.expressions) != 1:
        return None
    return Test(tested[0], 1, None if isinstance(parent, exp.All) else True)


def membership(select: exp.Select) -> tuple[exp.Expr, exp.Expr] | None:
    """`x IN`, `= ANY` or `<> ALL` over a SELECT: the whole expression and x."""
    node = _around(select)
    parent = node.parent
    if isinstance(parent, exp.In) and parent.args.get("query") is node:
        return parent, parent.this
    if isinstance(parent, exp.Any | exp.All):
        compared = parent.parent
        kind = exp.EQ if isinstance(parent, exp.Any) else exp.NEQ
        if isinstance(compared, kind) and compared.expression is parent:
            return compared, compared.this
    return None


def probe_of(select: exp.Select, scope: Scope) -> Probe | None:
    """The columns that `x IN (SELECT y …)` compares, of one type; None for anything else, and where rows with another y
    decide which of them come out. scope: the subquery's.
    """
    tested = membership(select)
    if tested is None or scope.parent is None or len(select.expressions) != 1:
        return None
    distinct = select.args.get("distinct")
    if not {name for name, value in select.args.items() if value} <= _BY_VALUE or (
        distinct is not None and distinct.args.get("on") is not None
    ):
        return None
    left = _typed(tested[1], scope.parent)
    right = _typed(select.expressions[0].unalias(), scope)
    if left is None or right is None or not _alike(left[2], right[2]):
        return None
    return Probe(left[0], left[1], right[0], right[1])


def _typed(expr: exp.Expr, scope: Scope) -> tuple[exp.Expr, frozenset[str], str] | None:
    """A column, qualified, its relation and its type."""
    copy = expr.copy().unnest()
    if not isinstance(copy, exp.Column):
        return None
    try:
        relations = qualify(copy, scope)
        found = scope.find(copy)
    except BindError:
        return None
    known = found[1].columns.get(copy.name.lower()) if found is not None else None
    return (copy, relations, known[1]) if known is not None and copy.table else None


def _alike(left: str, right: str) -> bool:
    """Whether values of two types are compared as they are."""
    return left == right or {left, right} <= _WHOLE


def _around(select: exp.Select) -> exp.Expr:
    """A SELECT with the parentheses around it."""
    node: exp.Expr = select
    while isinstance(node.parent, exp.Paren | exp.Subquery) and not _modified(node.parent):
        node = node.parent
    return node


def _modified(node: exp.Expr) -> bool:
    return any(value for name, value in node.args.items() if name != "this")


def _bars(node: exp.Expr) -> bool:
    """Whether a part of the list may give another number of rows, or asks something itself."""
    barred = exp.Window | exp.UDTF | exp.Explode | exp.Query | exp.Columns
    if isinstance(node, barred) or is_aggregate(node) or site_number(node) is not None:
        return True
    return isinstance(node, exp.Anonymous) or volatile(node) is not None


def _counted(select: exp.Select) -> Test | None:
    """`(SELECT count(*) …) > 3` and `(SELECT count(*) > 3 …)`, with any comparison."""
    if len(select.expressions) != 1:
        return None
    item = select.expressions[0].unalias()
    if _counts_rows(item):
        return _compared(_around(select))
    for count in item.find_all(exp.Count):
        node: exp.Expr = count
        while isinstance(node.parent, exp.Paren):
            node = node.parent
        found = _compared(node) if _counts_rows(count) else None
        if found is not None and found.node is item.unnest():
            # The value is the subquery's, not the comparison's.
            return Test(_around(select), found.needed, found.sense)
    return None


def _counts_rows(node: exp.Expr) -> bool:
    if not isinstance(node, exp.Count) or node.expressions:
        return False
    return node.this is None or isinstance(node.this, exp.Star) or _number(node.this) is not None


def _at_least_one(limit: exp.Expr) -> bool:
    """Whether a LIMIT leaves a row where there is any."""
    others = [value for name, value in limit.args.items() if name != "expression" and value]
    return isinstance(limit, exp.Limit) and not others and (_number(limit.expression) or 0) > 0


def _compared(count: exp.Expr) -> Test | None:
    """What is made of a count. Of so many rows on the comparison is true, or false, for good."""
    parent = count.parent
    needed: int | None = None
    sense: bool | None = None
    if isinstance(parent, exp.Between) and parent.this is count:
        high = _number(parent.args["high"])
        low = _number(parent.args["low"])
        needed = None if high is None or low is None else high + 1
    elif isinstance(parent, exp.In) and parent.this is count and not parent.args.get("query"):
        numbers = [_number(each) for each in parent.expressions]
        known = [number for number in numbers if number is not None]
        needed = max(known) + 1 if known and len(known) == len(numbers) else None
    elif isinstance(parent, exp.Binary) and type(parent) in _TURNED:
        left = parent.this is count
        bound = _number(parent.expression if left else parent.this)
        if bound is not None:
            needed, sense = _bounded(type(parent) if left else _TURNED[type(parent)], bound)
    return None if needed is None or needed < 1 or parent is None else Test(parent, needed, sense)


def _bounded(kind: type[exp.Expr], bound: int) -> tuple[int, bool | None]:
    if kind is exp.GT:
        return bound + 1, True
    if kind is exp.GTE:
        return bound, True
    if kind is exp.LT:
        return bound, False
    if kind is exp.LTE:
        return bound + 1, False
    if bound == 0:
        return 1, kind is exp.NEQ
    return bound + 1, None


def _number(node: exp.Expr | None) -> int | None:
    """A whole number that is written out."""
    node = None if node is None else node.unnest()
    return int(node.this) if isinstance(node, exp.Literal) and node.is_int else None
