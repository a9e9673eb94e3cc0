"""When a block's last filter need not be asked in full: under EXISTS, and below LIMIT without ORDER BY; no SQL text.

Both hold only where a match decides by itself. Then whatever is not asked is as good as false: another match of the
same anchor makes EXISTS true, or other rows fill the LIMIT. Wherever that is not certain, the answer here is None.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from covey_planner.binding.volatile import volatile
from covey_planner.call import Call
from covey_planner.language.calls import is_aggregate
from covey_planner.language.parse import site_number
from covey_planner.language.render import render
from covey_planner.logical import Ask, Block, Cheap, Condition, Mixed, Source, filters, leaves
from covey_planner.rules.share_documents import documents

_PLAIN = frozenset({"expressions", "from_", "joins", "where", "kind"})
_VALUES = (exp.Literal, exp.Star, exp.Column, exp.Identifier, exp.Null, exp.Boolean, exp.Alias)


@dataclass(frozen=True)
class Ending:
    """What ends a step early. exists: an anchor's first match settles it; enough: so many matches end all of it.

    order: the keys by which the rows are wanted first, as SQL; the matches count from the first row on.
    """

    exists: bool = False
    enough: int | None = None
    order: str = ""


def ending_of(block: Block, tree: exp.Query) -> Ending | None:
    """How the last filter of a block may end early. tree: the whole statement."""
    source, conditions = filters(block.plan)
    if not conditions or documents(conditions[-1]) is None or not _decided(conditions[:-1]):
        return None
    calls = [leaf.call for leaf in leaves(conditions[-1]) if isinstance(leaf, Ask)]
    if isinstance(block.select.parent, exp.Exists):
        return Ending(exists=True) if _first_decides(block, source, conditions[:-1], calls[0]) else None
    if block.select is tree and all(call.relations <= source.relations for call in calls):
        enough = _rows_wanted(block.select, source)
        order = "" if enough is None else _order(block.select, source, calls)
        return None if enough is None or order is None else Ending(enough=enough, order=order)
    return None


def _order(select: exp.Select, source: Source, calls: Sequence[Call]) -> str | None:
    """ORDER BY as the keys of one relation's rows, "" without one; None where rows cannot be put in its order."""
    clause = select.args.get("order")
    if clause is None:
        return ""
    alone = len(source.relations) == 1 and not source.attached and not any(call.is_join for call in calls)
    if not alone or select.args.get("joins"):
        return None
    keys = [_key(key, select) for key in clause.expressions]
    return None if any(key is None for key in keys) else ", ".join(key for key in keys if key is not None)


def _key(ordered: exp.Expr, select: exp.Select) -> str | None:
    """A key of ORDER BY with names of FROM alone, not of the SELECT list; None where that cannot be said."""
    copy = ordered.copy()
    key = copy.this if isinstance(copy, exp.Ordered) else copy
    named = {item.alias.lower(): item.this for item in select.expressions if isinstance(item, exp.Alias)}
    if isinstance(key, exp.Literal):
        at = int(key.this) - 1 if key.is_int else -1
        if not 0 <= at < len(select.expressions) or any(item.is_star for item in select.expressions):
            return None
        key.replace(exp.Paren(this=select.expressions[at].unalias().copy()))
    for column in list(copy.find_all(exp.Column)):
        meant = named.get(column.name.lower()) if not column.table else None
        if meant is not None and meant != column:
            column.replace(exp.Paren(this=meant.copy()))
    barred = (exp.Query, exp.Window, exp.Star, exp.Var, exp.Columns)
    known = any(isinstance(node, exp.Column) for node in copy.walk())
    if not known or volatile(copy) is not None or any(isinstance(node, barred) for node in copy.walk()):
        return None
    return None if any(_may_change_rows(node) or _asks(node) for node in copy.walk()) else render(copy)


def _asks(node: exp.Expr) -> bool:
    return site_number(node) is not None


def _decided(conditions: Sequence[Condition]) -> bool:
    """Whether the domain of what comes next is exactly what the conditions leave: none changes between queries."""
    exprs = [leaf.expr for each in conditions for leaf in leaves(each) if isinstance(leaf, Cheap | Mixed)]
    return all(volatile(expr) is None for expr in exprs)


def _first_decides(block: Block, source: Source, others: Sequence[Condition], call: Call) -> bool:
    """Whether one match of an anchor makes `EXISTS (block)` true for every row around it that has this anchor.

    The anchor is of the SELECT around, the partner of the subquery, and nothing else is asked there. That nothing
    but the call links the two is seen when the step's pairs are formed.
    """
    select = block.select
    own = source.relations
    anchors, partners = (
        frozenset().union(*(call.arguments[number].relations for number in side)) for side in call.sides
    )
    simple = all(isinstance(node, _VALUES) for item in select.expressions for node in item.walk())
    subqueries = any(
        leaf.expr.find(exp.Query) is not None
        for each in others
        for leaf in leaves(each)
        if isinstance(leaf, Cheap | Mixed)
    )
    return (
        {name for name, value in select.args.items() if value} <= _PLAIN
        and simple
        and not (block.values or block.nested or source.attached or subqueries)
        and bool(partners)
        and partners <= own
        and not anchors & own
    )


def _rows_wanted(select: exp.Select, source: Source) -> int | None:
    """LIMIT plus OFFSET, where any rows that pass the filters will do and each match gives at least one."""
    limit, offset = select.args.get("limit"), select.args.get("offset")
    if not isinstance(limit, exp.Limit) or not {name for name, value in select.args.items() if value} <= {
        *_PLAIN,
        "limit",
        "offset",
        "order",
        "with_",
    }:
        return None
    clauses = [clause for clause in (limit, offset) if clause is not None]
    counts = [clause.expression for clause in clauses]
    if not all(isinstance(count, exp.Literal) and count.is_int for count in counts):
        return None
    if any(value for clause in clauses for name, value in clause.args.items() if name != "expression"):
        return None  # a percentage, or ties
    if any(join.kind != "LEFT" for join in source.attached):
        return None
    if any(_may_change_rows(node) for item in select.expressions for node in item.walk()):
        return None
    return sum(int(count.this) for count in counts)


def _may_change_rows(node: exp.Expr) -> bool:
    """Whether a part of a SELECT list may yield none or several rows for one, or look at several."""
    if isinstance(node, exp.Window | exp.UDTF | exp.Explode) or is_aggregate(node):
        return True
    return isinstance(node, exp.Anonymous) and site_number(node) is None
