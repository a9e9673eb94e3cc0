"""Finding joins on which DuckDB 2.0.1 may give up the whole database: a syntax tree in, a join out; changes nothing.

Its internal error invalidates the database for everybody. All that were found have several joins, an outer one among
them, and a subquery in an ON; which of these fail is not known, so all of them are refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError

from covey_planner.binding.scope import position_of
from covey_planner.errors import Unsupported

SAID = (
    "a subquery in ON, where an outer join is one of several joins, is not supported, as DuckDB may fail on it "
    "for good: compute it in a derived table of FROM"
)


def fragile_text(sql: str) -> bool:
    """Whether a statement without AI calls holds such a join; not where it cannot be read."""
    try:
        trees = Dialect.get_or_raise("duckdb").parse(sql)
    except SqlglotError:
        return False
    return any(tree is not None and fragile_on(tree) is not None for tree in trees)


def check_joins(tree: exp.Expr) -> None:
    """Refuse such a join in a statement with AI calls, whose SEMI and ANTI joins become predicates."""
    on = fragile_on(tree, ("LEFT", "RIGHT", "FULL"))
    if on is not None:
        raise Unsupported(SAID, position_of(on))


def fragile_on(
    tree: exp.Expr, kinds: Sequence[str] = ("LEFT", "RIGHT", "FULL", "SEMI", "ANTI")
) -> exp.Expr | None:
    """The ON of such a join, None where there is none. kinds: of joins that count besides inner ones."""
    together: dict[int, list[exp.Join]] = {}
    for join in tree.find_all(exp.Join):
        if _kind(join) in ("", *kinds):
            together.setdefault(id(join.find_ancestor(exp.Select)), []).append(join)
    for joins in together.values():
        if len(joins) > 1 and any(map(_kind, joins)):
            for join in joins:
                on = join.args.get("on")
                if on is not None and on.find(exp.Query) is not None:
                    found: exp.Expr = on
                    return found
    return None


def _kind(join: exp.Join) -> str:
    """LEFT, RIGHT, FULL, SEMI or ANTI; "" for any other join."""
    words = {str(join.args.get(key) or "").upper() for key in ("side", "kind")}
    return next(iter(words & {"LEFT", "RIGHT", "FULL", "SEMI", "ANTI"}), "")
