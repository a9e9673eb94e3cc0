"""Whether a query may yield other rows each time that DuckDB runs it, as far as its text tells; changes nothing.

DuckDB keeps the order of a table's rows in a plain scan, so that LIMIT finds the same ones each time. Which rows come
first out of a join, a DISTINCT, a UNION or a GROUP BY, or among equal keys of an order, depends on its threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError

from covey_planner.binding.clauses import own_nodes

Resolve = Callable[[exp.Table], exp.Expr | None]
"""The query that a name in FROM stands for, None for a stored table."""

_OF_ORDER = frozenset(
    [
        *("any_value", "arbitrary", "arg_max", "arg_max_null", "arg_min", "arg_min_null", "array_agg"),
        *(
            "fill",
            "first",
            "first_value",
            "group_concat",
            "lag",
            "last",
            "last_value",
            "lead",
            "list",
            "mode",
        ),
        *("nth_value", "ntile", "row_number", "string_agg"),
    ]
)
"""Functions whose results depend on the order of rows, or of those that their order takes for equal."""

_PLAIN = frozenset({"expressions", "from_", "where", "limit", "offset", "with_", "kind"})


def varies(query: exp.Select | exp.SetOperation, resolve: Resolve) -> bool:
    """Whether it is the query itself that picks some of several possible results; what it reads is not looked at."""
    if picks_values(query):
        return True
    if not (query.args.get("limit") or query.args.get("offset")):
        return False
    return bool(query.args.get("order")) or not _is_plain(query, resolve)


def picks_values(query: exp.Expr) -> bool:
    """Whether it has a DISTINCT ON, or functions that depend on the order of rows."""
    if not isinstance(query, exp.Select):
        return False
    distinct = query.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        return True
    clauses = [query.args.get(key) for key in ("expressions", "having", "qualify", "order", "windows")]
    parts = [part for clause in clauses for part in (clause if isinstance(clause, list) else [clause])]
    return any(_of_order(node) for part in parts if part is not None for node in own_nodes(part))


def _of_order(node: exp.Expr) -> bool:
    if isinstance(node, exp.WindowSpec):
        return str(node.args.get("kind") or "").upper() == "ROWS"
    if not isinstance(node, exp.Func):
        return False
    name = str(node.this) if isinstance(node, exp.Anonymous) else node.sql_name()
    return name.lower() in _OF_ORDER


def _is_plain(query: exp.Expr | None, resolve: Resolve) -> bool:
    """Whether it shows rows of one stored table in their order."""
    while isinstance(query, exp.Subquery):
        if not {key for key, value in query.args.items() if value} <= {"this", "alias"}:
            return False
        query = query.this
    if isinstance(query, exp.Table):
        if any(query.args.get(key) for key in ("joins", "pivots", "sample")):
            return False
        meant = resolve(query)
        return isinstance(query.this, exp.Identifier) if meant is None else _is_plain(meant, resolve)
    if isinstance(query, exp.Values):
        return True
    if not isinstance(query, exp.Select) or not {key for key, value in query.args.items() if value} <= _PLAIN:
        return False
    parts = [*query.expressions, *([query.args["where"]] if query.args.get("where") is not None else [])]
    if any(part.find(exp.Query, exp.Window, exp.Explode, exp.Unnest) is not None for part in parts):
        return False
    source = query.args.get("from_")
    return source is None or _is_plain(source.this, resolve)


class Views:
    """Stored views. created: the statement that creates each, by its name."""

    def __init__(self, created: Mapping[str, str]) -> None:
        self._created = {name.lower(): sql for name, sql in created.items()}
        self._read: dict[str, exp.Expr | None] = {}
        self._varying: dict[str, bool] = {}

    def query(self, table: exp.Table) -> exp.Expr | None:
        """The query of the view that a name stands for; None where it is no view, or one that cannot be read."""
        name = table.name.lower()
        if name not in self._created or table.db.lower() not in {"", "main"}:
            return None
        if name not in self._read:
            try:
                (tree,) = Dialect.get_or_raise("duckdb").parse(self._created[name])
            except (SqlglotError, ValueError):
                tree = None
            self._read[name] = tree.expression if isinstance(tree, exp.Create) else None
        return self._read[name]

    def varies(self, table: exp.Table) -> bool:
        """Whether a name stands for a view that may show other rows each time, by itself or by a view in it."""
        query, name = self.query(table), table.name.lower()
        if query is None:
            return False
        if name not in self._varying:
            self._varying[name] = False
            self._varying[name] = any(map(self._part_varies, query.walk()))
        return self._varying[name]

    def _part_varies(self, node: exp.Expr) -> bool:
        if isinstance(node, exp.Select | exp.SetOperation):
            return varies(node, self.query)
        return isinstance(node, exp.Table) and self.varies(node)
