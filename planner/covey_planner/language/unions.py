"""`EXISTS (a UNION b)` becomes `EXISTS a OR EXISTS b`, of which the second is asked where the first finds nothing; the
tree is changed in place.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from covey_planner.language.parse import site_number

_ALONE = frozenset({"this", "expression", "distinct"})


def exists_of_each_branch(tree: exp.Expr) -> None:
    """Rewrite the statement's EXISTS over UNION and UNION ALL that ask."""
    for exists in list(tree.find_all(exp.Exists)):
        branches = list(_branches(exists.this))
        if len(branches) > 1 and any(site_number(node) is not None for node in exists.walk()):
            exists.replace(
                exp.Paren(this=exp.or_(*(exp.Exists(this=branch) for branch in branches), copy=False))
            )


def _branches(query: exp.Expr) -> Iterator[exp.Expr]:
    """The queries of a UNION, or the query itself."""
    inner = query.unnest() if isinstance(query, exp.Subquery) else query
    if isinstance(inner, exp.Union) and {name for name, value in inner.args.items() if value} <= _ALONE:
        yield from _branches(inner.this)
        yield from _branches(inner.expression)
    else:
        yield query
