"""Which relations an expression reads, and qualifying its columns; changes only the copy it is given."""

from __future__ import annotations

from sqlglot import exp

from covey_planner.binding.scope import Relation, Scope


def qualify(expr: exp.Expr, scope: Scope) -> frozenset[str]:
    """Qualify the columns of `expr`, a copy whose names belong to `scope`; keys of the relations it reads.

    Columns inside subqueries belong to those first. Raises BindError for a name that is no column.
    """
    found: set[str] = set()
    _visit(expr, scope, frozenset(), found)
    return frozenset(found)


def names_read(member: exp.Expr, scope: Scope) -> frozenset[str]:
    """Keys of the relations of a scope, and of those around it, that a member of FROM may read, by the names alone."""
    found: set[str] = set()
    _Nested(scope, found).query(member)
    return frozenset(found)


def _visit(node: exp.Expr, scope: Scope, hidden: frozenset[str], found: set[str]) -> None:
    """hidden: names of lambda parameters."""
    if isinstance(node, exp.Column):
        _column(node, scope, hidden, found)
    elif isinstance(node, exp.Query) and not isinstance(node, exp.Subquery):
        _Nested(scope, found).query(node)
    elif isinstance(node, exp.Lambda):
        names = hidden | {item.name.lower() for item in node.expressions}
        _visit(node.this, scope, names, found)
    elif not isinstance(node, exp.Star):
        for child in list(node.iter_expressions()):
            _visit(child, scope, hidden, found)


def _column(column: exp.Column, scope: Scope, hidden: frozenset[str], found: set[str]) -> None:
    if column.parts[0].name.lower() in hidden:
        return
    owner = scope.find(column)
    if owner is None:
        raise scope.unknown(column)
    relation = owner[1]
    found.add(relation.key)
    attach(column, relation)


def qualifiers(column: exp.Column) -> frozenset[str]:
    """Names that may be the relation's, in lower case: a column may be of a schema's table, or have fields."""
    return frozenset(part.name.lower() for part in column.parts[:-1])


def attach(column: exp.Column, relation: Relation) -> None:
    """Qualify a plain column by its relation's alias."""
    plain = not column.table and column.name.lower() in relation.columns
    if plain and relation.alias is not None:
        column.set("table", relation.alias.copy())


class _Nested:
    """Finds what an ordinary subquery reads of the relations around it, by the names alone.

    A name that the subquery's own FROM may provide is left to DuckDB; only names it cannot provide are looked
    up.
    """

    def __init__(self, scope: Scope, found: set[str]) -> None:
        self._scope = scope
        self._found = found

    def query(self, query: exp.Expr) -> None:
        own: set[str] = set()
        for table in query.find_all(exp.Table, exp.Subquery, exp.Unnest, exp.Lateral, exp.Values, exp.CTE):
            if table is not query:
                own.add(table.alias_or_name.lower())
        for column in query.find_all(exp.Column):
            if own.isdisjoint(qualifiers(column)):
                self._look_up(column)

    def _look_up(self, column: exp.Column) -> None:
        names, outermost = qualifiers(column), column.parts[0].name
        for scope in self._scope.enclosing():
            named = [relation for name, relation in scope.relations.items() if name in names]
            # A field of a column of theirs, or a column.
            owners = named or [relation for relation in scope.relations.values() if relation.has(outermost)]
            self._found.update(relation.key for relation in owners)
            if owners:
                return
