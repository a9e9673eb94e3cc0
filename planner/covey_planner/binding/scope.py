"""From names to relations: which relation of which SELECT a column belongs to, and its type; never changes a
tree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Protocol, runtime_checkable

from sqlglot import exp

from covey_planner.errors import BindError, PlanError, Position


class Catalog(Protocol):
    """What the planner asks about stored data."""

    def columns(self) -> Mapping[str, Mapping[str, str]]:
        """DuckDB type of each column of each table and view."""
        ...

    def describe(self, sql: str) -> Sequence[tuple[str, str]]:
        """Name and DuckDB type of each column of an AI-free query; raises with DuckDB's message where it has
        none.
        """
        ...


@runtime_checkable
class Aside(Protocol):
    """A catalog of a transaction, which a query that cannot be read would end."""

    def describe_aside(self, sql: str) -> Sequence[tuple[str, str]]:
        """As `describe`; a failure leaves the transaction as it is, but for tables that nobody else sees."""
        ...


@runtime_checkable
class Viewing(Protocol):
    """A catalog that tells what its views are."""

    def views(self) -> Mapping[str, str]:
        """The statement that creates each view, in DuckDB's SQL, by the view's name."""
        ...


_CATEGORY = re.compile(r"^[A-Z][A-Za-z ]* Error: ")
"""How DuckDB's messages begin."""

Columns = Mapping[str, tuple[str, str]]
"""By lower-case name: the name as stored, and the DuckDB type."""


class Relation:
    """A named member of FROM.

    name: lower case, unique in its SELECT. key: unique among all SELECTs around. alias: the identifier that
    qualifies its columns, None where there is none. table: the stored table or view it reads, None for
    anything else.
    """

    def __init__(
        self,
        name: str,
        key: str,
        alias: exp.Identifier | None,
        table: str | None,
        load: Callable[[], Columns],
    ) -> None:
        self.name = name
        self.key = key
        self.alias = alias
        self.table = table
        self._load = load

    @cached_property
    def columns(self) -> Columns:
        """Its columns, asked for once and only if needed."""
        return self._load()

    def has(self, name: str) -> bool:
        """Whether a column of that name can be read from it."""
        return name.lower() in self.columns or (name.lower() == "rowid" and self.table is not None)


class Scope:
    """The relations of one SELECT, inside those of the SELECT around it."""

    def __init__(
        self, relations: Sequence[Relation], parent: Scope | None, select: exp.Select, text: str = ""
    ) -> None:
        """text: the relations as SQL, without AI calls."""
        self.text = text
        self.relations: dict[str, Relation] = {relation.name: relation for relation in relations}
        self.parent = parent
        self.select = select
        self.merged: dict[str, str] = {}

    @cached_property
    def aliases(self) -> dict[str, exp.Expr]:
        """The expressions of the SELECT list that have an alias, by lower-case alias."""
        return {
            item.alias.lower(): item.this for item in self.select.expressions if isinstance(item, exp.Alias)
        }

    def enclosing(self) -> Iterator[Scope]:
        """This scope, then those around it."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def find(self, column: exp.Column) -> tuple[Scope, Relation] | None:
        """The relation a column belongs to and the scope it is in; None where the name is no column.

        Raises BindError where a qualified column does not exist or an unqualified one is ambiguous.
        """
        for scope in self.enclosing():
            relation = scope._find_here(column)
            if relation is not None:
                return scope, relation
        return None

    def _find_here(self, column: exp.Column) -> Relation | None:
        name, qualifier = column.name, column.table
        if qualifier:
            relation = self.relations.get(qualifier.lower())
            if relation is None:
                return self._struct_column(column)
            if isinstance(column.this, exp.Star) or relation.has(name):
                return relation
            raise BindError(
                f"{qualifier} has no column {name!r}{_near(name, [relation])}", position_of(column)
            )
        found = [relation for relation in self.relations.values() if relation.has(name)]
        if len(found) > 1 and name.lower() in self.merged:
            return self.relations[self.merged[name.lower()]]
        if len(found) > 1 and name.lower() != "rowid":
            owners = " and ".join(relation.name for relation in found[:2])
            raise BindError(f"column {name!r} is ambiguous: {owners} both have it", position_of(column))
        return found[0] if found else self.relations.get(name.lower())

    def _struct_column(self, column: exp.Column) -> Relation | None:
        """`s.field` or `t.s.field`, where s is a column."""
        outermost = column.parts[0].name
        for relation in self.relations.values():
            if relation.name == outermost.lower() or relation.has(outermost):
                return relation
        return None

    def unknown(self, column: exp.Column) -> BindError:
        """The error for a name that is no column here."""
        relations = [relation for scope in self.enclosing() for relation in scope.relations.values()]
        if column.table and column.table.lower() not in {relation.name for relation in relations}:
            known = ", ".join(sorted(relation.name for relation in relations)) or "no table"
            return BindError(f"no table {column.table!r} in FROM (there is {known})", position_of(column))
        return BindError(f"no column {column.name!r}{_near(column.name, relations)}", position_of(column))


def seen_from(scope: Scope | None, query: str) -> str:
    """An AI-free query that reads the relations of a scope and of those around it, as one that stands alone."""
    while scope is not None:
        if scope.text:
            lateral = f"CROSS JOIN LATERAL ({query}) AS __covey_q"
            query = f"SELECT __covey_q.* FROM {scope.text} {lateral}"
        scope = scope.parent
    return query


def position_of(node: exp.Expr) -> Position | None:
    """Where a node stands in the statement, by the first token that is known."""
    for part in node.walk(bfs=False):
        line, column = part.meta_get("line"), part.meta_get("col")
        if line and column:
            return Position(line, column - (part.meta_get("end", 0) - part.meta_get("start", 0)))
    return None


def _near(name: str, relations: Sequence[Relation]) -> str:
    """The names that could have been meant."""
    names = [stored for relation in relations for stored, _ in relation.columns.values()]
    close = [other for other in names if _distance(name.lower(), other.lower()) <= max(1, len(name) // 3)]
    shown = close[:3] or names[:8]
    return f" (there is {', '.join(shown)})" if shown else ""


def _distance(left: str, right: str) -> int:
    """Edit distance."""
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        previous, row[0] = row[0], i
        for j, b in enumerate(right, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (a != b))
    return row[-1]


def is_readable(catalog: Catalog, sql: str) -> bool:
    """Whether DuckDB can read an AI-free query as it stands."""
    try:
        if isinstance(catalog, Aside):
            catalog.describe_aside(sql)
        else:
            catalog.describe(sql)
    except PlanError:
        raise
    except Exception:
        return False
    return True


def describe(catalog: Catalog, sql: str) -> Sequence[tuple[str, str]]:
    """Columns of an AI-free query, any failure of DuckDB's as a BindError of one line."""
    try:
        return catalog.describe(sql)
    except PlanError:
        raise
    except Exception as error:  # DuckDB's own message, whatever its class
        message = str(error).strip().splitlines() or [type(error).__name__]
        raise BindError(_CATEGORY.sub("", message[0])) from None
