"""From a SELECT's FROM clause to its relations and how they are joined; never looks at other clauses.

Inner and cross joins are taken apart into members and conditions. LEFT, SEMI and ANTI joins stay attached
behind them. What comes before a RIGHT, FULL, ASOF, POSITIONAL or lateral join, back to the last comma, is left together
with it as one member; only one relation RIGHT joined to another by an AI call is read as a LEFT join the other way
round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from covey_planner.binding.around import Around, before, check_visible
from covey_planner.binding.asking_joins import Asking, Written, asking, check_columns, holds_call, reducible
from covey_planner.binding.columns import qualifiers, qualify
from covey_planner.binding.ctes import stands_alone
from covey_planner.binding.members import Members, check_steady
from covey_planner.binding.scope import Catalog, Columns, Relation, Scope, position_of
from covey_planner.errors import BindError, Unsupported
from covey_planner.language.writing import WRITTEN
from covey_planner.logical import Attached, Item, Source


def _reads(on: exp.Expr, before: Sequence[Relation]) -> exp.Column | None:
    """The first column of these relations that an ON names."""
    names = {relation.name for relation in before}
    return next(
        (column for column in on.find_all(exp.Column) if not names.isdisjoint(qualifiers(column))), None
    )


def _check_group(on: exp.Expr, before: Sequence[Relation]) -> None:
    """Refuse an ON with AI calls that reads members before the last comma, as only DuckDB's lateral joins can."""
    found = _reads(on, before)
    if found is not None:
        raise Unsupported(
            f"an AI call in an ON that reads {found.table!r}, which stands before a comma, is not supported: "
            "join all members of FROM with JOIN",
            position_of(found),
        )


@dataclass
class FromClause:
    """What FROM gives: the scope, the source, the inner ON conditions that are to be filters, each with the scope of
    its names, and the joins whose ON holds AI calls and stays where it is.
    """

    scope: Scope
    source: Source
    conditions: list[tuple[exp.Expr, Scope]] = field(default_factory=list)
    asking: list[Asking] = field(default_factory=list)
    laterals: list[Lateral] = field(default_factory=list)


@dataclass(frozen=True)
class Lateral:
    """A derived table with AI calls that reads members of FROM before it. left: these, with the names of `scope`;
    reduces: as of a join that asks.
    """

    query: exp.Expr
    scope: Scope
    position: int
    left: Item
    reduces: frozenset[str]


class FromBinder:
    """Binds the FROM clause of one SELECT."""

    def __init__(
        self,
        catalog: Catalog,
        stored: dict[str, tuple[str, Columns]],
        ctes: tuple[exp.CTE, ...],
        parent: Scope | None,
        late: Sequence[exp.Expr] = (),
    ) -> None:
        """late: the members that are derived tables with AI calls and read others."""
        self._late = {id(table) for table in late}
        self._laterals: list[tuple[exp.Expr, Scope, int, Item]] = []
        self._catalog = catalog
        self._ctes = ctes
        self._parent = parent
        self._members = Members(catalog, stored, ctes, parent)
        self._around = Around(catalog, stored, ctes, parent)
        self._read: list[tuple[exp.Expr, frozenset[str], frozenset[str]]] = []
        self._items: list[Item] = []
        self._attached: list[tuple[Relation, exp.Join, exp.Expr, int]] = []
        self._conditions: list[tuple[exp.Expr, int]] = []
        self._written: list[Written] = []
        self._merged: dict[str, str] = {}
        # The join by the last comma, and how many relations stand before it: it binds less than any other join.
        self._group = -1, 0

    def bind(self, select: exp.Select) -> FromClause:
        """Take the clause apart. Raises BindError for an unknown table, Unsupported for an AI call where none
        may be.
        """
        clause = select.args.get("from_")
        joins: list[exp.Join] = select.args.get("joins") or []
        if clause is not None:
            self._items.append(Item(self._member(clause.this), clause.this))
        scopes: list[Scope] = []
        for position, join in enumerate(joins):
            self._join(join, position)
            scopes.append(Scope(self._members.relations, self._parent, select, self.text))
            scopes[-1].merged = dict(self._merged)
        scope = Scope(self._members.relations, self._parent, select, self.text)
        scope.merged = self._merged
        attached = tuple(self._attach(scopes[entry[-1]], *entry) for entry in self._attached)
        for member, _, read in self._read:
            check_visible(read, self._members.relations, member)
        around = tuple((key, read) for _, keys, read in self._read for key in sorted(keys))
        source = Source(tuple(self._items), attached, _insertable(select, joins), around)
        conditions = [(condition, scopes[at]) for condition, at in self._conditions]
        laterals = [
            Lateral(table, before, at, left, reducible(self._written[at], self._written[at + 1 :]))
            for table, before, at, left in self._laterals
        ]
        return FromClause(scope, source, conditions, asking(self._written, scopes, source), laterals)

    def _join(self, join: exp.Join, position: int) -> None:
        side, kind, method = (str(join.args.get(key) or "").upper() for key in ("side", "kind", "method"))
        left, text = list(self._members.relations), self.text
        keys = self._member(join.this)
        lateral = isinstance(join.this, exp.Lateral | exp.Unnest) or (
            isinstance(join.this, exp.Table) and join.this.find(exp.Column) is not None
        )
        lateral = lateral or id(join.this) in self._late or self._reads(join.this, left)
        if lateral:
            self._group = -1, 0  # it may read whatever stands before it
        elif is_comma(join):
            self._group = position, len(left)
        equalities = self._merge_columns(join, left, self._members.relations[len(left) :])
        on = join.args.get("on")
        whole = side in {"RIGHT", "FULL"} or method in {"ASOF", "POSITIONAL"} or lateral or len(keys) > 1
        if whole and on is not None and not holds_call(on) and _reads(on, left[: self._group[1]]):
            self._group = -1, 0  # as DuckDB's lateral joins can
        kind = side or (kind if kind in {"SEMI", "ANTI"} else "INNER")
        beside = frozenset(relation.key for relation in left[self._group[1] :])
        self._written.append(Written(join, kind, keys, beside))
        if whole and on is not None and holds_call(on):
            _check_group(on, left[: self._group[1]])
        if on is not None and (whole or kind != "INNER"):
            check_steady(on)
        if on is not None and whole:
            self._check_own(join, on)
        if method in {"ASOF", "POSITIONAL"} or lateral:
            self._check_no_call(
                join, "a lateral" if lateral else f"{'an' if method == 'ASOF' else 'a'} {method}"
            )
        if side == "RIGHT" and not (lateral or method or equalities) and self._turns(left, keys, on):
            first = self._items[0].first
            self._items = [Item(keys, join.this, position=position)]
            self._attached.append((left[0], join, first, position))
        elif whole:
            self._swallow(join, keys, position)
            if id(join.this) in self._late:
                select, item = join.parent, self._items[-1]
                assert isinstance(select, exp.Select)
                others = replace(item, relations=self._written[-1].left, joins=item.joins[:-1])
                scope = Scope(left, self._parent, select, text)
                self._laterals.append((join.this, scope, position, others))
        elif kind != "INNER":
            self._attached.append(
                (self._members.relations[-1], _with_on(join, equalities), join.this, position)
            )
        else:
            self._items.append(Item(keys, join.this, position=position))
            self._conditions += [
                (part, position) for part in [*([on] if on is not None else []), *equalities]
            ]

    def _check_own(self, join: exp.Join, on: exp.Expr) -> None:
        """Refuse an ON in a member of several relations that reads the query around: nothing but a query may there."""
        select = join.parent
        if self._parent is None or not isinstance(select, exp.Select):
            return
        own = {relation.key for relation in self._members.relations}
        if not qualify(on.copy(), Scope(self._members.relations, self._parent, select)) <= own:
            raise Unsupported(
                "an ON beside a RIGHT or FULL join, or of a lateral one, that reads the query around is not supported"
                " with AI calls: write that in WHERE, or in a derived table",
                position_of(on),
            )

    def _reads(self, table: exp.Expr, left: list[Relation]) -> bool:
        """Whether a derived table reads members of FROM before it."""
        if not isinstance(table, exp.Subquery) or isinstance(table.this, exp.Table):
            return False
        named = {relation.name for relation in left}
        read = [qualifiers(column) for column in table.find_all(exp.Column)]
        if all(read):
            named &= frozenset[str]().union(*read)
        if not named or stands_alone(self._catalog, self._ctes, table):
            return False
        select = table.parent_select
        return not (
            isinstance(select, exp.Select) and self._around.reads_none_of(table, before(select, table))
        )

    def _turns(self, left: list[Relation], keys: frozenset[str], on: exp.Expr | None) -> bool:
        """Whether a RIGHT join is one relation, and nothing else yet, joined to another one by an AI call."""
        alone = len(self._items) == len(left) == len(keys) == 1 and not (self._attached or self._conditions)
        return alone and on is not None and holds_call(on)

    def _check_no_call(self, join: exp.Join, word: str) -> None:
        on = join.args.get("on")
        if on is not None and holds_call(on):
            instead = (
                "write it in the WHERE of its query" if word == "a lateral" else "ask in a subquery of FROM"
            )
            raise Unsupported(
                f"an AI call in ON of {word} join is not supported: {instead}",
                position_of(on),
            )

    def _swallow(self, join: exp.Join, keys: frozenset[str], position: int) -> None:
        """Make this join and what it is joined to, back to the last comma, one member of FROM, as written."""
        select = join.parent
        assert isinstance(select, exp.Select)
        joins: list[exp.Join] = select.args["joins"]
        check_columns(select, joins[: position + 1])
        start = self._group[0]
        first = select.args["from_"].this if start < 0 else joins[start].this
        relations = keys | self._written[-1].left
        self._items = [item for item in self._items if item.position < start]
        self._items.append(Item(relations, first, tuple(joins[start + 1 : position + 1]), position))
        self._attached = [entry for entry in self._attached if entry[-1] < start]
        self._conditions = [entry for entry in self._conditions if entry[-1] < start]

    def _attach(
        self, scope: Scope, relation: Relation, join: exp.Join, table: exp.Expr, position: int
    ) -> Attached:
        kind = str(join.args.get("side") or join.args.get("kind")).upper()
        kind = "LEFT" if kind == "RIGHT" else kind
        on = join.args["on"].copy() if join.args.get("on") is not None else exp.true()
        needs = qualify(on, scope) - {relation.key}
        if kind == "LEFT" and not needs:
            # Whatever its ON reads, it fills in NULLs for rows that are there.
            needs = frozenset({next(other.key for other in self._members.relations if other is not relation)})
        assert kind in {"LEFT", "SEMI", "ANTI"}
        return Attached(relation.key, kind, table, on, needs, position)  # type: ignore[arg-type]

    def _merge_columns(self, join: exp.Join, left: list[Relation], right: list[Relation]) -> list[exp.Expr]:
        """The equalities that USING or NATURAL stand for; unqualified, such a column means the left one."""
        names = [identifier.name for identifier in join.args.get("using") or []]
        if str(join.args.get("method") or "").upper() == "NATURAL":
            names = [
                stored
                for r in right
                for key, (stored, _) in r.columns.items()
                if any(key in o.columns for o in left)
            ]
        equalities: list[exp.Expr] = []
        for name in names:
            owners = [relation for relation in left if relation.has(name)]
            if not owners or not right[0].has(name):
                raise BindError(f"USING: column {name!r} is not on both sides", position_of(join))
            self._merged.setdefault(name.lower(), owners[0].name)
            equalities.append(exp.EQ(this=_column(owners[0], name), expression=_column(right[0], name)))
        return equalities

    @property
    def text(self) -> str:
        """All members, cross-joined, with every AI call a typed NULL; for asking DuckDB about types."""
        return self._members.text

    def _member(self, node: exp.Expr) -> frozenset[str]:
        """Register the relations of a member of FROM; more than one where it is a join in parentheses."""
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table) and not node.alias:
            keys = self._member(node.this)
            for join in node.this.args.get("joins") or []:
                self._check_no_call(join, "a parenthesized")
                keys |= self._member(join.this)
            return keys
        keys = frozenset({self._members.add(node).key})
        read = self._around.read_by(node)
        if read:
            self._read.append((node, keys, read))
        return keys


def _column(relation: Relation, name: str) -> exp.Column:
    return exp.Column(
        this=exp.to_identifier(name, quoted=True), table=relation.alias.copy() if relation.alias else None
    )


def _with_on(join: exp.Join, equalities: list[exp.Expr]) -> exp.Join:
    """A join whose USING or NATURAL is spelled out as ON."""
    if not equalities:
        return join
    changed = join.copy()
    changed.set("using", None)
    changed.set("method", None)
    changed.set("on", exp.and_(*equalities))
    return changed


def _insertable(select: exp.Select, joins: Sequence[exp.Join]) -> bool:
    """Whether `a, b` may become `a CROSS JOIN b` and gain a member without changing what the SELECT means."""
    commas = any(is_comma(join) for join in joins)
    binding = any(
        str(join.args.get("side") or join.args.get("method") or "").upper() not in {"", "LEFT"}
        for join in joins
    )
    columns = any(item.find(exp.Columns) is not None for item in select.expressions)
    positional = any(str(join.args.get("method") or "").upper() == "POSITIONAL" for join in joins)
    return not ((commas and binding) or columns or positional or select.meta_get(WRITTEN))


def is_comma(join: exp.Join) -> bool:
    """Whether a join is written as a comma."""
    return not any(join.args.get(key) for key in ("kind", "side", "method", "on", "using"))
