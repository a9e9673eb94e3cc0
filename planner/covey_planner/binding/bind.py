"""From a syntax tree to the logical plan: every name resolved, every AI call bound, or an error with its
position.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from covey_planner.binding.asking_joins import Asking, checked
from covey_planner.binding.columns import qualify
from covey_planner.binding.deciding import probe_of
from covey_planner.binding.guards import surroundings
from covey_planner.binding.scope import Catalog, Columns, Scope, describe, position_of
from covey_planner.binding.sources import (
    FromBinder,
    FromClause,
    Lateral,
    stands_alone,
    with_clause,
    without_calls,
)
from covey_planner.call import Call
from covey_planner.errors import BindError, Position, Unsupported
from covey_planner.language.calls import bind_call, is_aggregate
from covey_planner.language.functions import BOOLEAN
from covey_planner.language.multi import is_list, is_object
from covey_planner.language.parse import Scan, Statement, site_name, site_number
from covey_planner.language.refusals import place_refused
from covey_planner.language.render import render
from covey_planner.language.spelling import spelled_alike
from covey_planner.logical import (
    BLOCK,
    All,
    Any,
    Ask,
    Block,
    Cheap,
    Condition,
    Filter,
    Guard,
    Joined,
    Logical,
    Mixed,
    Node,
    Not,
    Source,
    Value,
)
from covey_planner.lowering.residual import Rewrites, grouped_query

_VALUE_CLAUSES = ("distinct", "expressions", "group", "having", "windows", "qualify", "order")


@dataclass(frozen=True)
class _Place:
    """Where a SELECT stands: the scope around it (None for a derived table) and the CTEs it can see."""

    parent: Scope | None
    ctes: tuple[exp.CTE, ...]


def bind(statement: Statement, catalog: Catalog) -> Logical:
    """Bind a statement. Raises BindError and Unsupported."""
    binder = _Binder(statement, catalog)
    blocks = binder.query(statement.tree, _Place(None, ()))
    for number, site in enumerate(binder.scan.sites):
        if number not in binder.bound:
            raise place_refused(statement.scan.tokens, site.function, site.position, site.start)
    return Logical(tuple(blocks))


class _Binder:
    def __init__(self, statement: Statement, catalog: Catalog) -> None:
        self.scan: Scan = statement.scan
        self.bound: set[int] = set()
        self.catalog = catalog
        self._count = 0
        self._stored: dict[str, tuple[str, Columns]] = {
            table.lower(): (table, {name.lower(): (name, kind) for name, kind in columns.items()})
            for table, columns in catalog.columns().items()
        }
        self._holding: set[int] = set()
        for node in list(statement.tree.walk()):
            if site_number(node) is not None:
                self._mark(node)

    def _mark(self, node: exp.Expr) -> None:
        above: exp.Expr | None = node
        while above is not None and id(above) not in self._holding:
            self._holding.add(id(above))
            above = above.parent

    def _holds(self, node: object) -> bool:
        """Whether a node of the statement's tree holds an AI call."""
        return id(node) in self._holding

    def query(self, node: exp.Expr, place: _Place) -> list[Block]:
        """The blocks of a query, what is read first coming first."""
        if not self._holds(node):
            return []
        blocks: list[Block] = []
        with_ = node.args.get("with_")
        if with_ is not None:
            for cte in with_.expressions:
                recursive = self._holds(cte) and with_.args.get("recursive") and _reads_itself(cte)
                body = self._first_part(cte) if recursive else cte.this
                blocks += self.query(body, _Place(None, place.ctes))
                place = _Place(place.parent, (*place.ctes, cte))
        match node:
            case exp.SetOperation():
                self._only_in(node, ("with_", "this", "expression"), "a set operation")
                return [*blocks, *self.query(node.this, place), *self.query(node.expression, place)]
            case exp.Subquery() | exp.Lateral():
                self._only_in(node, ("with_", "this"), "a query in parentheses")
                return [*blocks, *self.query(node.this, place)]
            case exp.Select():
                return [*blocks, *self._select(node, place)]
            case exp.Values():
                cells = (part for row in node.expressions for part in _own_nodes(row))
                queries = (part for part in cells if isinstance(part, exp.Query) and self._holds(part))
                return [*blocks, *(block for part in queries for block in self.query(part, place))]
        raise Unsupported(f"an AI call in {node.key.upper()} is not supported", position_of(node))

    def _first_part(self, cte: exp.CTE) -> exp.Expr:
        """The part of a recursive CTE that does not read it."""
        body: exp.Expr = cte.this.unnest()
        self._only_in(body, ("with_", "this", "expression"), "a recursive CTE")
        if isinstance(body, exp.SetOperation) and not self._holds(body.expression):
            first: exp.Expr = body.this
            return first
        raise Unsupported(
            "an AI call in the recursive part of a CTE is not supported, as whom it is about depends on its own "
            "answers: ask before, WITH RECURSIVE answers AS (SELECT …, AI_FILTER(…) AS answer FROM …), and join them",
            self._position_of_call(body),
        )

    def _position_of_call(self, node: exp.Expr) -> Position | None:
        numbers = [number for part in node.walk() if (number := site_number(part)) is not None]
        return self.scan.sites[min(numbers)].position if numbers else position_of(node)

    def _only_in(self, node: exp.Expr, keys: Sequence[str], name: str) -> None:
        for key, child in node.args.items():
            for part in child if isinstance(child, list) else [child]:
                if key not in keys and self._holds(part):
                    instead = ": put that into a derived table" if isinstance(node, exp.SetOperation) else ""
                    key = key.rstrip("s_").upper()
                    raise Unsupported(
                        f"an AI call in {key} of {name} is not supported{instead}",
                        self._position_of_call(part),
                    )

    def _select(self, select: exp.Select, place: _Place) -> list[Block]:
        late = self._late(select, place)
        inputs = self._inputs(select, place, late)
        clauses = [clause for key in ("joins", "where", *_VALUE_CLAUSES) for clause in _clause(select, key)]
        parts = [join.args.get("on") if isinstance(join, exp.Join) else join for join in clauses]
        if not late and not any(self._holds(part) for part in parts if part is not None):
            return inputs
        binder = FromBinder(self.catalog, self._stored, place.ctes, place.parent, late)
        clause = binder.bind(select)
        self._expand_aliases(select, clause.scope)
        select.meta[BLOCK] = self._count
        number, self._count = self._count, self._count + 1
        inside = _SelectBinder(self, select, place, clause, binder.text)
        return [*inputs, inside.block(number)]

    def _late(self, select: exp.Select, place: _Place) -> list[exp.Expr]:
        """The derived tables with AI calls that read members of FROM before them."""
        tables = [join.this for join in select.args.get("joins") or [] if self._holds(join.this)]
        queries = [table for table in tables if isinstance(table, exp.Subquery | exp.Lateral)]
        return [
            table
            for table in queries
            if isinstance(table.this, exp.Query)
            and (isinstance(table, exp.Lateral) or not stands_alone(self.catalog, place.ctes, table))
        ]

    def _inputs(self, select: exp.Select, place: _Place, late: Sequence[exp.Expr]) -> list[Block]:
        """The blocks in FROM, but for those that read other members of it."""
        self._only_in(select, ("with_", "from_", "joins", "where", *_VALUE_CLAUSES), "SELECT")
        members = [select.args.get("from_"), *(select.args.get("joins") or [])]
        blocks: list[Block] = []
        for member in members:
            table = member.this if member is not None else None
            if table is None or not self._holds(table) or any(other is table for other in late):
                continue
            if isinstance(table, exp.Values):
                blocks += self.query(table, _Place(None, place.ctes))
                continue
            if not isinstance(table, exp.Subquery) or isinstance(table.this, exp.Table):
                raise Unsupported(f"an AI call in {_said(table)}", self._position_of_call(table))
            self._only_in(table, ("this", "with_"), "a derived table")
            blocks += self.query(table.this, _Place(None, place.ctes))
        return blocks

    def _expand_aliases(self, select: exp.Select, scope: Scope) -> None:
        """In WHERE, HAVING and QUALIFY, replace an alias of the SELECT list that stands for an AI call by a call of its
        own; not where it is the name of a column, which comes first. In QUALIFY, an alias of any window, too.
        """
        keys = ("where", "having", "qualify")
        clauses = [select.args[key] for key in keys if select.args.get(key) is not None]
        aliases = {
            item.alias.lower(): item.this for item in select.expressions if isinstance(item, exp.Alias)
        }
        for column in [column for clause in clauses for column in clause.find_all(exp.Column)]:
            meant = aliases.get(column.name.lower()) if not column.table else None
            if meant is None or column.find_ancestor(exp.Select) is not select:
                continue
            ranks = isinstance(meant, exp.Window) and column.find_ancestor(exp.Qualify) is not None
            if not (ranks or self._holds(meant)):
                continue
            if any(relation.has(column.name) for relation in scope.relations.values()):
                continue
            copy = exp.Paren(this=meant.copy())
            for node in list(copy.walk()):
                number = site_number(node)
                if number is not None:
                    site = self.scan.sites[number]
                    function = min(BOOLEAN) if site.is_comparison else site.function
                    node.set("this", site_name(len(self.scan.sites), function))
                    self.scan = replace(self.scan, sites=(*self.scan.sites, site))
            column.replace(copy)
            for node in list(copy.walk()):
                if site_number(node) is not None:
                    self._mark(node)


class _SelectBinder:
    """Binds the clauses of one SELECT whose FROM is bound."""

    def __init__(
        self, binder: _Binder, select: exp.Select, place: _Place, clause: FromClause, text: str
    ) -> None:
        self._binder = binder
        self._select = select
        self._place = place
        self._clause = clause
        self._text = text
        self._scope = clause.scope
        # By the identity of nodes of the statement's tree, which outlives this.
        self._spellings: dict[int, str] = {}

    def block(self, number: int) -> Block:
        """The block, its filters in the order of the text."""
        plan: Node = self._clause.source
        where = self._select.args.get("where")
        for root, scope in self._clause.conditions:
            plan = Filter(plan, self._seeing(scope)._condition(root))
        if where is not None:
            plan = Filter(plan, self._condition(where.this))
        calls: list[exp.Expr] = []
        nested: list[Block] = []
        for key in _VALUE_CLAUSES:
            for clause in _clause(self._select, key):
                found, blocks = self._split(clause)
                calls += found
                nested += blocks
        values = sorted((self._value(node) for node in calls), key=lambda value: value.call.site)
        if self._place.parent is None:
            self._check_groups(values)
        asked = [self._lateral(lateral) for lateral in self._clause.laterals]
        asked += [self._seeing(join.scope)._joined(join) for join in self._clause.asking]
        joins = tuple(sorted(asked, key=lambda join: join.position))
        probe = probe_of(self._select, self._scope)
        return Block(number, self._select, self._place.ctes, plan, tuple(values), tuple(nested), joins, probe)

    def _seeing(self, scope: Scope) -> _SelectBinder:
        """A binder of an ON: it sees no relations but those joined so far."""
        clause = replace(self._clause, scope=scope)
        return _SelectBinder(self._binder, self._select, self._place, clause, self._text)

    def _lateral(self, lateral: Lateral) -> Joined:
        """A derived table that reads the members before it: a condition on these, which is always true."""
        blocks = self._binder.query(lateral.query, _Place(lateral.scope, self._place.ctes))
        always = Mixed(exp.true(), frozenset(), (), tuple(blocks))
        return Joined(lateral.position, Filter(Source((lateral.left,)), always), lateral.reduces)

    def _joined(self, join: Asking) -> Joined:
        plan = Filter(Source(join.sides), self._condition(join.on))
        joined = Joined(join.position, plan, join.reduces, join.flagged, join.right)
        if joined.flagged is not None:
            return checked(joined, self._clause.source.relations, self._select)
        return joined

    def _condition(self, node: exp.Expr) -> Condition:
        match node:
            case exp.Paren():
                return self._condition(node.this)
            case exp.And():
                return All(tuple(self._condition(part) for part in node.flatten()))
            case exp.Or() if self._binder._holds(node):
                return Any(tuple(self._condition(part) for part in node.flatten()))
            case exp.Not() if self._binder._holds(node):
                return Not(self._condition(node.this))
            case _ if site_number(node) is not None:
                call = self._row_call(node)
                if not call.is_condition:
                    function = self._binder.scan.sites[call.site].function
                    what = "a label" if call.kind == "label" else "a number"
                    raise BindError(
                        f"{function} gives {what}, which is no condition: compare it", call.position
                    )
                return Ask(call)
        if is_list(node) or is_object(node):
            what, use = (
                ("a list of labels", "use list_contains")
                if is_list(node)
                else ("an object", "compare its labels")
            )
            first = next(number for part in node.walk() if (number := site_number(part)) is not None)
            raise BindError(
                f"AI_CLASSIFY gives {what}, which is no condition: {use}",
                self._binder.scan.sites[first].position,
            )
        calls, blocks = self._split(node) if self._binder._holds(node) else ([], [])
        copy = node.copy()
        if not (calls or blocks):
            return Cheap(copy, qualify(copy, self._scope))
        values = tuple(Value(self._row_call(call), False, self._guards(call, node, False)) for call in calls)
        return Mixed(copy, qualify(copy, self._scope), values, tuple(blocks))

    def _split(self, node: exp.Expr) -> tuple[list[exp.Expr], list[Block]]:
        """The AI calls of this SELECT in an expression, and the blocks of its subqueries."""
        calls: list[exp.Expr] = []
        blocks: list[Block] = []
        for part in _own_nodes(node):
            if not self._binder._holds(part):
                continue
            if site_number(part) is not None:
                calls.append(part)
            elif isinstance(part, exp.Query):
                blocks += self._binder.query(part, _Place(self._scope, self._place.ctes))
        return calls, blocks

    def _call(self, node: exp.Expr) -> Call:
        call = bind_call(node, self._binder.scan, self._scope, self._type_of)
        self._binder.bound.add(call.site)
        return call

    def _row_call(self, node: exp.Expr) -> Call:
        """A call that is evaluated on rows, before any grouping."""
        call = self._call(node)
        for argument in call.arguments:
            if any(is_aggregate(part) for part in argument.expr.walk()):
                raise BindError(
                    f"the aggregate {argument.text} stands where rows are not grouped", call.position
                )
        return call

    def _check_groups(self, values: Sequence[Value]) -> None:
        """Ask DuckDB whether the arguments of calls on groups are defined for a group."""
        for call in [value.call for value in values if value.grouped]:
            columns = [argument.sql for argument in call.arguments]
            text = grouped_query(Rewrites(), self._select, columns, ())
            try:
                describe(self._binder.catalog, with_clause(self._place.ctes, without_calls, text) + text)
            except BindError as error:
                raise BindError(error.message, call.position) from None

    def _type_of(self, expr: exp.Expr) -> str:
        """The type by DuckDB, over the relations of this SELECT and those around it."""
        scope = self._scope.parent
        body = f"SELECT {render(expr)} AS a" + (f" FROM {self._text}" if self._text else "")
        if scope is not None and not all(
            r in self._clause.source.relations for r in qualify(expr.copy(), self._scope)
        ):
            return "VARCHAR"
        body = with_clause(self._place.ctes, without_calls, body) + body
        return describe(self._binder.catalog, body)[0][1]

    def _value(self, node: exp.Expr) -> Value:
        grouped = self._aggregates and not self._before_grouping(node)
        call = self._call(node) if grouped else self._row_call(node)
        return Value(call, grouped, self._guards(node, self._select, grouped))

    def _guards(self, node: exp.Expr, root: exp.Expr, grouped: bool) -> tuple[Guard, ...]:
        """The guards that can be evaluated where the call is: on rows without aggregates, on groups without
        windows.
        """
        guards: list[Guard] = []
        for expr, must in surroundings(node, root):
            own = list(_own_nodes(expr))
            barred = exp.Window if grouped else (exp.Window, exp.AggFunc)
            if any(
                isinstance(part, barred) or (isinstance(part, exp.Query) and self._binder._holds(part))
                for part in own
            ):
                continue
            copy = expr.copy()
            try:
                guards.append(Guard(copy, qualify(copy, self._scope), must))
            except BindError:  # a name of the SELECT list, which domain queries do not know
                continue
        return tuple(guards)

    @cached_property
    def _aggregates(self) -> bool:
        """Whether rows are grouped, by a clause or by aggregates alone."""
        if self._select.args.get("group") is not None or self._select.args.get("having") is not None:
            return True
        clauses = [item for key in ("expressions", "order") for item in _clause(self._select, key)]
        return any(is_aggregate(part) for item in clauses for part in _own_nodes(item, calls=True))

    def _before_grouping(self, node: exp.Expr) -> bool:
        """Whether a call is evaluated on rows: inside an aggregate, or in what rows are grouped by."""
        group = self._select.args.get("group")
        keys = self._group_keys
        part: exp.Expr = node
        while part is not self._select:
            parent = part.parent
            assert parent is not None
            filtered = isinstance(part, exp.Filter) and is_aggregate(part.this)
            if parent is group or filtered or is_aggregate(part) or self._spelled(part) in keys:
                return True
            if parent is self._select and part in self._select.expressions and group is not None:
                return self._is_key(part, group)
            part = parent
        return False

    @cached_property
    def _group_keys(self) -> frozenset[str]:
        """What rows are grouped by, spelled out; an item of the SELECT list where its number or alias stands for it."""
        group = self._select.args.get("group")
        if group is None:
            return frozenset()
        items = (item for item in self._select.expressions if self._is_key(item, group))
        return frozenset(self._spelled(key) for key in (*_keys(group), *(item.unalias() for item in items)))

    def _is_key(self, item: exp.Expr, group: exp.Group) -> bool:
        """Whether a projection is a grouping key by its number, its alias, or GROUP BY ALL."""
        if group.args.get("all"):
            return not any(is_aggregate(part) for part in _own_nodes(item, calls=True))
        number = str(1 + next(n for n, other in enumerate(self._select.expressions) if other is item))
        keys = {key.name.lower() for key in _keys(group) if isinstance(key, exp.Literal | exp.Column)}
        return number in keys or item.alias.lower() in keys - {""}

    def _spelled(self, node: exp.Expr) -> str:
        """A spelling that is equal for the same expression at two places, whatever its calls' numbers and however its
        columns are written.
        """
        if id(node) not in self._spellings:
            copy = node.copy()
            for part in copy.walk():
                number = site_number(part)
                if number is not None:
                    part.set("this", self._binder.scan.sites[number].function)
            with suppress(BindError):  # a name of the SELECT list
                qualify(copy, self._scope)
            self._spellings[id(node)] = render(spelled_alike(copy), copy=False)
        return self._spellings[id(node)]


def _clause(select: exp.Select, key: str) -> list[exp.Expr]:
    child = select.args.get(key)
    parts = child if isinstance(child, list) else [child]
    return [part for part in parts if isinstance(part, exp.Expr)]


def _own_nodes(node: exp.Expr, calls: bool = False) -> Iterator[exp.Expr]:
    """Nodes in the order of the text; subqueries, and AI calls unless `calls`, are given, but not entered."""
    yield node
    if isinstance(node, exp.Query) or (site_number(node) is not None and not calls):
        return
    for child in node.iter_expressions():
        yield from _own_nodes(child, calls)


def _keys(group: exp.Group) -> Iterator[exp.Expr]:
    """What rows are grouped by, also in ROLLUP, CUBE and GROUPING SETS."""
    waiting = [node for value in group.args.values() if isinstance(value, list) for node in value]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, exp.Tuple | exp.Paren | exp.Rollup | exp.Cube | exp.GroupingSets):
            waiting = [*node.iter_expressions(), *waiting]
        else:
            yield node


def _said(table: exp.Expr) -> str:
    """What a member of FROM that holds an AI call is, and what to write instead."""
    if table.args.get("pivots"):
        return "PIVOT is not supported: compute it before, FROM (SELECT *, AI_FILTER(…) AS answer FROM …) PIVOT (…)"
    if isinstance(table, exp.Table) and isinstance(table.this, exp.Func):
        return "an argument of a table function is not supported"
    return "a member of FROM of this kind is not supported"


def _reads_itself(cte: exp.CTE) -> bool:
    return any(table.name.lower() == cte.alias.lower() for table in cte.this.find_all(exp.Table))
