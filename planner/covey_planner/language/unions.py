"""`EXISTS (a UNION b)` becomes `EXISTS a OR EXISTS b`, of which the second is asked where the first finds nothing, and
`x IN (a UNION b)` becomes `x IN (a) OR x IN (b)`; the tree is changed in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from covey_planner.binding.ctes import with_clause, without_calls
from covey_planner.binding.scope import Catalog, describe, is_readable
from covey_planner.binding.volatile import volatile
from covey_planner.language.parse import site_number
from covey_planner.language.render import render

_ALONE = frozenset({"this", "expression", "distinct"})


def exists_of_each_branch(tree: exp.Expr) -> None:
    """Rewrite the statement's EXISTS over UNION and UNION ALL that ask."""
    for exists in list(tree.find_all(exp.Exists)):
        branches = list(_branches(exists.this))
        if len(branches) > 1 and _asks(exists):
            exists.replace(
                exp.Paren(this=exp.or_(*(exp.Exists(this=branch) for branch in branches), copy=False))
            )


def in_each_branch(tree: exp.Expr, catalog: Catalog) -> None:
    """Rewrite the statement's IN over UNION and UNION ALL that ask, where all branches have the same type.

    It is NULL where no branch holds the value and it is NULL for one of them, which OR is as well.
    """
    for tested in list(tree.find_all(exp.In)):
        query = tested.args.get("query")
        if not isinstance(query, exp.Subquery) or not _asks(query) or not _is_repeatable(tested.this):
            continue
        branches = list(_branches(query))
        types = {_types(branch, catalog) for branch in branches} if len(branches) > 1 else set()
        if len(types) == 1 and None not in types:
            each = (exp.In(this=tested.this.copy(), query=_in_brackets(branch)) for branch in branches)
            tested.replace(exp.Paren(this=exp.or_(*each, copy=False)))


def _asks(node: exp.Expr) -> bool:
    return any(site_number(part) is not None for part in node.walk())


def _is_repeatable(value: exp.Expr) -> bool:
    """Whether an expression is cheap, and the same at two places."""
    return not _asks(value) and value.find(exp.Query) is None and volatile(value) is None


def _in_brackets(branch: exp.Expr) -> exp.Expr:
    return branch if isinstance(branch, exp.Subquery) else exp.Subquery(this=branch)


def _types(branch: exp.Expr, catalog: Catalog) -> Sequence[str] | None:
    """The types of a query's columns; None where they are not known."""
    body = f"SELECT * FROM {render(without_calls(_in_brackets(branch.copy())), copy=False)}"
    body = with_clause(_ctes(branch), without_calls, body) + body
    if not is_readable(catalog, body):
        return _stored_types(branch, catalog)
    return tuple(kind for _, kind in describe(catalog, body))


def _stored_types(branch: exp.Expr, catalog: Catalog) -> tuple[str, ...] | None:
    """The types of a SELECT list of columns of stored tables, as that of a query that reads the one around may be."""
    if not isinstance(branch, exp.Select) or not branch.args.get("from_"):
        return None
    ctes = {cte.alias.lower() for cte in _ctes(branch)}
    stored = {
        name.lower(): columns for name, columns in catalog.columns().items() if name.lower() not in ctes
    }
    members = [branch.args["from_"].this, *(join.this for join in branch.args.get("joins") or [])]
    tables = {member.alias_or_name.lower(): stored.get(member.name.lower()) for member in members}
    found: list[str] = []
    for item in branch.expressions:
        column = item.unalias()
        if not isinstance(column, exp.Column) or len(column.parts) > 2 or None in tables.values():
            return None
        owners = [tables.get(column.table.lower())] if column.table else list(tables.values())
        kinds = [
            kind
            for owner in owners
            for name, kind in (owner or {}).items()
            if name.lower() == column.name.lower()
        ]
        if len(kinds) != 1:
            return None
        found.append(kinds[0])
    return tuple(found)


def _ctes(node: exp.Expr) -> list[exp.CTE]:
    """The CTEs that a node can see."""
    found: list[exp.CTE] = []
    above = node.parent
    while above is not None:
        with_ = above.args.get("with_")
        if with_ is not None:
            found[:0] = with_.expressions
        above = above.parent
    return found


def _branches(query: exp.Expr) -> Iterator[exp.Expr]:
    """The queries of a UNION, or the query itself."""
    inner = query.unnest() if isinstance(query, exp.Subquery) else query
    if isinstance(inner, exp.Union) and {name for name, value in inner.args.items() if value} <= _ALONE:
        yield from _branches(inner.this)
        yield from _branches(inner.expression)
    else:
        yield query
