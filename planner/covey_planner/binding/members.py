"""Members of FROM in, relations with their columns out: tables, CTEs, derived tables, functions; joins nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from covey_planner.binding.ctes import with_clause, without_calls
from covey_planner.binding.scope import (
    Catalog,
    Columns,
    Relation,
    Scope,
    describe,
    is_readable,
    position_of,
    seen_from,
)
from covey_planner.binding.volatile import shown, volatile
from covey_planner.errors import BindError, Unsupported
from covey_planner.language.parse import quote
from covey_planner.language.render import render


class Members:
    """The relations of a FROM clause so far, in order."""

    def __init__(
        self,
        catalog: Catalog,
        stored: dict[str, tuple[str, Columns]],
        ctes: tuple[exp.CTE, ...],
        parent: Scope | None,
    ) -> None:
        self.relations: list[Relation] = []
        self._catalog = catalog
        self._stored = stored
        self._ctes = ctes
        self._parent = parent
        self._texts: list[str] = []

    def add(self, node: exp.Expr) -> Relation:
        """Register a member. Raises BindError for an unknown table or a name that is taken, Unsupported for rows
        that change from one query to the next.
        """
        self._check_stable(node)
        relation = self._relation(node)
        if any(other.name == relation.name for other in self.relations):
            raise BindError(
                f"two members of FROM are called {relation.name!r}: give one an alias", position_of(node)
            )
        self.relations.append(relation)
        self._texts.append(render(without_calls(node), copy=False))
        return relation

    @property
    def text(self) -> str:
        """All members, cross-joined, with every AI call a typed NULL; for asking DuckDB about types."""
        return " CROSS JOIN ".join(self._texts)

    def _check_stable(self, node: exp.Expr) -> None:
        """Refuse members whose rows change from one query to the next: answers would belong to other rows."""
        names = {table.name.lower() for table in node.find_all(exp.Table)}
        for part in [node, *(cte.this for cte in self._ctes if cte.alias.lower() in names)]:
            check_steady(part, node)

    def _relation(self, node: exp.Expr) -> Relation:
        inner = node.this if isinstance(node, exp.Lateral) else node
        alias = node.args.get("alias")
        identifier = alias.this if isinstance(alias, exp.TableAlias) and alias.this else None
        names = (
            [column.name for column in alias.args.get("columns") or []]
            if isinstance(alias, exp.TableAlias)
            else []
        )
        if isinstance(inner, exp.Table) and isinstance(inner.this, exp.Identifier):
            identifier = identifier or inner.this
            name = inner.name.lower()
            is_cte = not inner.db and any(cte.alias.lower() == name for cte in self._ctes)
            if not is_cte and not inner.args.get("pivots"):
                stored, columns = self._table(inner)
                return self._named(identifier, stored, lambda: _rename(columns, names) if names else columns)
        before, text = list(self._texts), render(without_calls(node), copy=False)
        shown = f"{quote(identifier.name)}.*" if identifier is not None else "*"
        return self._named(identifier, None, lambda: self._describe(before, text, shown))

    def _named(
        self, identifier: exp.Identifier | None, table: str | None, load: Callable[[], Columns]
    ) -> Relation:
        name = identifier.name.lower() if identifier is not None else f"unnamed_subquery{len(self.relations)}"
        depth, scope = 0, self._parent
        while scope is not None:
            depth, scope = depth + 1, scope.parent
        return Relation(name, f"{name}@{depth}" if depth else name, identifier, table, load)

    def _describe(self, before: list[str], text: str, shown: str) -> Columns:
        """Columns of a member that is no stored table: alone, or behind the members and queries it may refer to."""
        query = f"SELECT * FROM {text}"
        if (before or self._parent is not None) and not is_readable(self._catalog, self._with_ctes(query)):
            query = f"SELECT {shown} FROM {' CROSS JOIN '.join([*before, text])}"
            query = seen_from(self._parent, query)
        found = describe(self._catalog, self._with_ctes(query))
        return {name.lower(): (name, kind) for name, kind in found}

    def _with_ctes(self, body: str) -> str:
        return with_clause(self._ctes, without_calls, body) + body

    def _table(self, node: exp.Table) -> tuple[str, Columns]:
        for key in (
            f"{node.db}.{node.name}".lower(),
            node.name.lower() if node.db.lower() in {"", "main"} else "",
        ):
            if key in self._stored:
                return self._stored[key]
        shown = f"{node.db}.{node.name}" if node.db else node.name
        raise BindError(f"no table {shown!r}", position_of(node))


def check_steady(part: exp.Expr, member: exp.Expr | None = None) -> None:
    """Refuse a part of FROM that gives other rows in the next query. member: where it is read, if not in place."""
    found = volatile(part)
    if found is not None:
        raise Unsupported(
            f"{shown(found)} in what an AI call reads is not supported: store the rows in a table first",
            position_of(found) or position_of(member or part),
        )


def _rename(columns: Columns, names: Sequence[str]) -> Columns:
    renamed = [*names, *(stored for stored, _ in list(columns.values())[len(names) :])]
    return {
        new.lower(): (stored, kind) for new, (stored, kind) in zip(renamed, columns.values(), strict=False)
    }
