"""What a member of FROM in a subquery reads of the queries around: their relations; qualifies its names in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from covey_planner.binding.columns import attach, names_read
from covey_planner.binding.ctes import stands_alone
from covey_planner.binding.scope import Catalog, Columns, Relation, Scope, position_of
from covey_planner.errors import Unsupported


class Around:
    """The queries around a SELECT whose FROM is bound. parent: the scope of the next one, None where there is none."""

    def __init__(
        self,
        catalog: Catalog,
        stored: Mapping[str, tuple[str, Columns]],
        ctes: tuple[exp.CTE, ...],
        parent: Scope | None,
    ) -> None:
        self._catalog = catalog
        self._stored = stored
        self._ctes = ctes
        self._parent = parent

    def read_by(self, member: exp.Expr) -> frozenset[str]:
        """Keys of the relations that a member reads. Names of theirs that it does not qualify are qualified."""
        if self._parent is None or (
            isinstance(member, exp.Table) and isinstance(member.this, exp.Identifier)
        ):
            return frozenset()
        read = names_read(member, self._parent)
        if not read or stands_alone(self._catalog, self._ctes, member):
            return frozenset()
        for column in list(member.find_all(exp.Column)):
            self._qualify(column, member)
        return read

    def reads_none_of(self, member: exp.Expr, beside: Sequence[exp.Expr]) -> bool:
        """Whether a member that does not stand alone reads the queries around, and no members beside it."""
        if self._parent is None:
            return False
        names = {other.alias_or_name.lower() for other in beside}
        inside = member.this if isinstance(member, exp.Subquery) else member
        own = {
            each.alias_or_name.lower()
            for each in inside.find_all(exp.Table, exp.Subquery, exp.Unnest, exp.Lateral)
        }
        for column in inside.find_all(exp.Column):
            if column.table and column.table.lower() in own:
                continue
            if column.table.lower() in names:
                return False
            shown = not column.table and any(self._may_have(each, column.name.lower()) for each in beside)
            if shown and not self._provided(column, member):
                return False
        return stands_alone(self._catalog, self._ctes, member, self._parent)

    def _qualify(self, column: exp.Column, member: exp.Expr) -> None:
        """Qualify a column that nothing in the member can be meant by."""
        assert self._parent is not None
        if column.table or self._provided(column, member):
            return
        for scope in self._parent.enclosing():
            owners = [relation for relation in scope.relations.values() if relation.has(column.name)]
            if owners:
                if len(owners) == 1:
                    attach(column, owners[0])
                return

    def _provided(self, column: exp.Column, member: exp.Expr) -> bool:
        """Whether a query inside the member may provide a name."""
        name, node = column.name.lower(), column.parent
        while node is not None:
            if isinstance(node, exp.Lambda | exp.Comprehension | exp.SetOperation):
                return True
            if isinstance(node, exp.Select):
                aliases = {item.alias.lower() for item in node.expressions if isinstance(item, exp.Alias)}
                if name in aliases or any(self._may_have(table, name) for table in _members(node)):
                    return True
            if node is member:
                return False
            node = node.parent
        return True

    def _may_have(self, member: exp.Expr, name: str) -> bool:
        alias = member.args.get("alias")
        known = (
            self._stored.get(member.name.lower())
            if isinstance(member, exp.Table)
            and isinstance(member.this, exp.Identifier)
            and not (isinstance(alias, exp.TableAlias) and alias.args.get("columns"))
            and not any(cte.alias.lower() == member.name.lower() for cte in self._ctes)
            else None
        )
        return known is None or name in known[1] or name == member.alias_or_name.lower()


def before(select: exp.Select, member: exp.Expr) -> list[exp.Expr]:
    """The members of a SELECT's FROM before one of them."""
    found: list[exp.Expr] = []
    for other in _members(select):
        if other is member:
            break
        found.append(other)
    return found


def _members(select: exp.Select) -> list[exp.Expr]:
    clause = select.args.get("from_")
    joins: list[exp.Join] = select.args.get("joins") or []
    return [*([clause.this] if clause is not None else []), *(join.this for join in joins)]


def check_visible(read: frozenset[str], own: Sequence[Relation], member: exp.Expr) -> None:
    """Refuse a member that reads a relation around whose name one in its SELECT has, too: a domain query sees both."""
    taken = {relation.name for relation in own} & {key.partition("@")[0] for key in read}
    if taken:
        name = min(taken)
        raise Unsupported(
            f"{name!r} is read by a derived table beside another {name!r}: give one of them another alias",
            position_of(member),
        )
