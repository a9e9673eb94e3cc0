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
from covey_planner.language.parse import quote, readable_tokens, scan, splice
from covey_planner.language.writing import VIEW_MARK, find_writing, view

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

    views: by lower-case name; their queries may read each other. Raises PlanError.
    """
    return _expand(sql, views, dialect, ())


def as_written(sql: str, expanded: str) -> str:
    """The statements that create a view whose text reads other views: it goes on to read what these become.

    sql: CREATE VIEW as written, in dialect duckdb; expanded: the same for DuckDB, without AI calls. Raises PlanError.
    """
    tokens = readable_tokens(sql)
    writing = find_writing(tokens, sql)
    assert writing is not None
    assert writing.kind == "view"
    query = sql[tokens[writing.first].start : tokens[writing.last - 1].end + 1]
    # Where only the other views have AI calls, DuckDB can read the text itself once they have none.
    text = sql[tokens[0].start : tokens[-1].end + 1] if scan(sql) is None else expanded
    return view(text, writing.name, query)


def _expand(sql: str, views: Mapping[str, View], dialect: str, within: tuple[str, ...]) -> str:
    """within: the names of the views that the text belongs to, the outermost first."""
    tree = _tree(sql, dialect)
    changes = (
        [change for table in _tables(tree) for change in _replaced(table, views, within)]
        if tree is not None
        else []
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


def _replaced(
    table: exp.Table, views: Mapping[str, View], within: tuple[str, ...]
) -> Iterator[tuple[int, int, str]]:
    found = views.get(table.name.lower())
    names = set(_ctes(table))
    if found is None or (table.name.lower() in names and not table.db):
        return
    if found.name.lower() in within:
        raise PlanError(f"the view {found.name} reads itself")
    query = _expand(found.query, views, "duckdb", (*within, found.name.lower()))
    hidden = names & {inner.name.lower() for inner in _inner(query)}
    if hidden:
        raise Unsupported(
            f"{min(hidden)!r} hides what the view {found.name} reads: give the CTE another name"
        )
    parts = [
        part for part in (table.args.get("catalog"), table.args.get("db"), table.this) if part is not None
    ]
    start, end = parts[0].meta["start"], parts[-1].meta["end"] + 1
    columns = ", ".join(map(quote, found.columns))
    text = f"(SELECT * FROM ({query}) AS {quote(found.name)}({columns}))"
    yield start, end, text if table.alias else f"{text} AS {quote(table.name)}"


def _inner(query: str) -> Iterator[exp.Table]:
    tree = _tree(query, "duckdb")
    return tree.find_all(exp.Table) if tree is not None else iter(())


def _ctes(node: exp.Expr) -> Iterator[str]:
    """The names of the CTEs that a node can see."""
    above = node.parent
    while above is not None:
        with_ = above.args.get("with_")
        if with_ is not None:
            yield from (cte.alias.lower() for cte in with_.expressions)
        above = above.parent
