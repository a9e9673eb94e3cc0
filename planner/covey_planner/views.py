"""From a statement that reads views with AI calls to one that holds their queries in place; asks no catalog.

A query that takes a view's place stands in parentheses under the view's name, its columns under their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError

from covey_planner.errors import PlanError, Unsupported
from covey_planner.parse import quote, readable_tokens, splice
from covey_planner.writing import VIEW_MARK

_READING = (exp.From, exp.Join, exp.Subquery)


@dataclass(frozen=True)
class View:
    """A view with AI calls. columns: their names; query: its text, in dialect duckdb."""

    name: str
    columns: tuple[str, ...]
    query: str

    @staticmethod
    def of(name: str, columns: tuple[str, ...], comment: str) -> View:
        """The view that a comment describes."""
        return View(name, columns, comment.removeprefix(VIEW_MARK))


def expand(sql: str, views: Mapping[str, View], dialect: str = "duckdb") -> str:
    """The statement with views replaced by their queries; the same text where it reads none of them.

    views: by lower-case name. Raises PlanError.
    """
    tree = _tree(sql, dialect)
    changes = (
        [change for table in _tables(tree) for change in _replaced(table, views)] if tree is not None else []
    )
    if changes and dialect != "duckdb":
        raise Unsupported("a view with AI calls is read in dialect duckdb")
    return splice(sql, changes)


def _tree(sql: str, dialect: str) -> exp.Expr | None:
    """The statement as a tree; None where nobody can read it, or it reads no rows."""
    try:
        trees = Dialect.get_or_raise(dialect).parser().parse(readable_tokens(sql, dialect), sql)
    except (SqlglotError, PlanError):
        return None
    return trees[0] if len(trees) == 1 else None


def _tables(tree: exp.Expr) -> Iterator[exp.Table]:
    """The tables that a statement reads from and does not define itself."""
    for table in tree.find_all(exp.Table):
        reads = isinstance(table.parent, _READING) or table.arg_key == "using"
        if reads and isinstance(table.this, exp.Identifier) and table.db.lower() in {"", "main", "temp"}:
            yield table


def _replaced(table: exp.Table, views: Mapping[str, View]) -> Iterator[tuple[int, int, str]]:
    view = views.get(table.name.lower())
    names = set(_ctes(table))
    if view is None or (table.name.lower() in names and not table.db):
        return
    hidden = names & {inner.name.lower() for inner in _inner(view)}
    if hidden:
        raise Unsupported(f"{min(hidden)!r} hides what the view {view.name} reads: give the CTE another name")
    parts = [
        part for part in (table.args.get("catalog"), table.args.get("db"), table.this) if part is not None
    ]
    start, end = parts[0].meta["start"], parts[-1].meta["end"] + 1
    columns = ", ".join(map(quote, view.columns))
    text = f"(SELECT * FROM ({view.query}) AS {quote(view.name)}({columns}))"
    yield start, end, text if table.alias else f"{text} AS {quote(table.name)}"


def _inner(view: View) -> Iterator[exp.Table]:
    tree = _tree(view.query, "duckdb")
    return tree.find_all(exp.Table) if tree is not None else iter(())


def _ctes(node: exp.Expr) -> Iterator[str]:
    """The names of the CTEs that a node can see."""
    above = node.parent
    while above is not None:
        with_ = above.args.get("with_")
        if with_ is not None:
            yield from (cte.alias.lower() for cte in with_.expressions)
        above = above.parent
