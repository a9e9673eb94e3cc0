"""Parts of a statement as texts that DuckDB can read alone: without AI calls, with the CTEs that they mention."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from covey_planner.binding.scope import Catalog, Scope, is_readable, seen_from
from covey_planner.language.parse import site_null, site_number
from covey_planner.language.render import render


def without_calls(node: exp.Expr) -> exp.Expr:
    """A copy in which each AI call is a typed NULL."""
    return node.copy().transform(
        lambda n: exp.Var(this=site_null(n)) if site_number(n) is not None else n, copy=False
    )


def with_clause(ctes: Sequence[exp.CTE], rewrite: Callable[[exp.Expr], exp.Expr], used_by: str) -> str:
    """`WITH …` for the CTEs that a query's text mentions, directly or not; else an empty text."""
    kept: list[str] = []
    recursive = False
    text = used_by.lower()
    for cte in reversed(ctes):
        if cte.alias.lower() in text:
            written = render(rewrite(cte))
            kept.insert(0, written)
            text += written.lower()
            recursive |= bool(cte.parent and cte.parent.args.get("recursive"))
    return f"WITH {'RECURSIVE ' if recursive else ''}{', '.join(kept)} " if kept else ""


def stands_alone(
    catalog: Catalog, ctes: Sequence[exp.CTE], table: exp.Expr, around: Scope | None = None
) -> bool:
    """Whether a member of FROM can be read without others. around: the scope of the query around, if that may help."""
    body = seen_from(around, f"SELECT * FROM {render(without_calls(table), copy=False)}")
    return is_readable(catalog, with_clause(ctes, without_calls, body) + body)
