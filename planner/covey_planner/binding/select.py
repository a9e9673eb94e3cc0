"""From the clauses of one SELECT whose FROM is bound to a block: conditions, values, guards; reads no other SELECT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from covey_planner.binding.asking_joins import Asking, checked
from covey_planner.binding.clauses import VALUE_CLAUSES, clause_parts, own_nodes
from covey_planner.binding.columns import qualify
from covey_planner.binding.ctes import with_clause, without_calls
from covey_planner.binding.deciding import probe_of
from covey_planner.binding.groups import Grouping
from covey_planner.binding.guards import surroundings
from covey_planner.binding.scope import Scope, describe, is_readable, seen_from
from covey_planner.binding.settled import settled
from covey_planner.binding.sources import FromClause, Lateral
from covey_planner.call import Call
from covey_planner.errors import BindError
from covey_planner.language.calls import bind_call, is_aggregate
from covey_planner.language.multi import is_list, is_object
from covey_planner.language.parse import site_number, sites_of
from covey_planner.language.render import render
from covey_planner.logical import (
    BLOCK,
    JOIN,
    All,
    Any,
    Ask,
    Block,
    Cheap,
    Condition,
    Filter,
    Guard,
    Joined,
    Mixed,
    Node,
    Not,
    Source,
    Value,
)
from covey_planner.lowering.first_rows import key_of
from covey_planner.lowering.residual import Rewrites, grouped_query

if TYPE_CHECKING:
    from covey_planner.binding.bind import Binder


@dataclass(frozen=True)
class Place:
    """Where a SELECT stands: the scope around it (None for a derived table) and the CTEs it can see."""

    parent: Scope | None
    ctes: tuple[exp.CTE, ...]


class SelectBinder:
    """Binds the clauses of one SELECT whose FROM is bound."""

    def __init__(
        self, binder: Binder, select: exp.Select, place: Place, clause: FromClause, text: str
    ) -> None:
        self._binder = binder
        self._select = select
        self._place = place
        self._clause = clause
        self._text = text
        self._scope = clause.scope
        self._grouping = Grouping(select, clause.scope, lambda number: binder.scan.sites[number].function)

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
        for key in VALUE_CLAUSES:
            for clause in clause_parts(self._select, key):
                found, blocks = self._split(clause)
                calls += found
                nested += blocks
        values = sorted((self._value(node) for node in calls), key=lambda value: value.call.site)
        self._check_groups(values)
        asked = [self._lateral(lateral) for lateral in self._clause.laterals]
        asked += [self._seeing(join.scope)._joined(join) for join in self._clause.asking]
        joins = tuple(sorted(asked, key=lambda join: join.position))
        for attached in self._clause.source.attached:
            _mark_blocks(self._select.args["joins"][attached.position].args.get("on"), attached.on)
        probe = probe_of(self._select, self._scope)
        block = Block(
            number, self._select, self._place.ctes, plan, tuple(values), tuple(nested), joins, probe
        )
        return replace(block, keys=self._keys())

    def _keys(self) -> tuple[tuple[exp.Expr, frozenset[str]], ...] | None:
        """The keys by which the first rows come out, with names of FROM and of the SELECTs around."""
        order = self._select.args.get("order")
        if order is None or not self._select.args.get("limit"):
            return ()
        found = [key_of(key, self._select) for key in order.expressions]
        try:
            return (
                tuple((key, qualify(key, self._scope)) for key in found if key is not None)
                if all(found)
                else None
            )
        except BindError:
            return None

    def _seeing(self, scope: Scope) -> SelectBinder:
        """A binder of an ON: it sees no relations but those joined so far."""
        clause = replace(self._clause, scope=scope)
        return SelectBinder(self._binder, self._select, self._place, clause, self._text)

    def _lateral(self, lateral: Lateral) -> Joined:
        """A derived table that reads the members before it: a condition on these, which is always true."""
        blocks = self._binder.query(lateral.query, Place(lateral.scope, self._place.ctes))
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
                return All(tuple(self._condition(part) for part in list(node.flatten())))
            case exp.Or() if self._binder.holds(node):
                return Any(tuple(self._condition(part) for part in list(node.flatten())))
            case exp.Not() if self._binder.holds(node):
                return Not(self._condition(node.this))
            case _ if site_number(node) is not None:
                call = self._row_call(node)
                if not call.is_condition:
                    function = self._binder.scan.sites[call.site].function
                    what = "a label" if call.kind == "label" else "a number"
                    raise BindError(
                        f"{function} gives {what}, which is no condition: compare it", call.position
                    )
                known = settled(call)
                if known is not None:
                    node.replace(known)
                    return Cheap(known.copy(), call.relations)
                return Ask(call)
        if is_list(node) or is_object(node):
            what, use = (
                ("a list of labels", "use list_contains")
                if is_list(node)
                else ("an object", "compare its labels")
            )
            first = sites_of(node)[0]
            raise BindError(
                f"AI_CLASSIFY gives {what}, which is no condition: {use}",
                self._binder.scan.sites[first].position,
            )
        calls, blocks = self._split(node) if self._binder.holds(node) else ([], [])
        copy = node.copy()
        if not (calls or blocks):
            return Cheap(copy, qualify(copy, self._scope))
        values = tuple(Value(self._row_call(call), False, self._guards(call, node, False)) for call in calls)
        return Mixed(copy, qualify(copy, self._scope), values, tuple(blocks))

    def _split(self, node: exp.Expr) -> tuple[list[exp.Expr], list[Block]]:
        """The AI calls of this SELECT in an expression, and the blocks of its subqueries."""
        calls: list[exp.Expr] = []
        blocks: list[Block] = []
        for part in own_nodes(node):
            if not self._binder.holds(part):
                continue
            if site_number(part) is not None:
                calls.append(part)
            elif isinstance(part, exp.Query):
                blocks += self._binder.query(part, Place(self._scope, self._place.ctes))
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
            text = seen_from(self._place.parent, grouped_query(Rewrites(), self._select, columns, ()))
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
        catalog, ctes = self._binder.catalog, self._place.ctes
        if scope is not None and not is_readable(catalog, with_clause(ctes, without_calls, body) + body):
            body = seen_from(scope, body)
        body = with_clause(ctes, without_calls, body) + body
        return describe(catalog, body)[0][1]

    def _value(self, node: exp.Expr) -> Value:
        grouped = self._grouping.aggregates and not self._grouping.before_grouping(node)
        call = self._call(node) if grouped else self._row_call(node)
        return Value(call, grouped, self._guards(node, self._select, grouped))

    def _guards(self, node: exp.Expr, root: exp.Expr, grouped: bool) -> tuple[Guard, ...]:
        """The guards that can be evaluated where the call is: on rows without aggregates, on groups without
        windows.
        """
        guards: list[Guard] = []
        for expr, must in surroundings(node, root):
            own = list(own_nodes(expr))
            barred = exp.Window if grouped else (exp.Window, exp.AggFunc)
            if any(
                isinstance(part, barred) or (isinstance(part, exp.Query) and self._binder.holds(part))
                for part in own
            ):
                continue
            copy = expr.copy()
            try:
                guards.append(Guard(copy, qualify(copy, self._scope), must))
            except BindError:  # a name of the SELECT list, which domain queries do not know
                continue
        return tuple(guards)


def _mark_blocks(bound: exp.Expr | None, copy: exp.Expr) -> None:
    """Let the copy of an ON, made before it was bound, know the blocks in it."""
    if bound is None:
        return
    kinds = exp.Select, exp.Join
    for node, same in zip(bound.find_all(*kinds), copy.find_all(*kinds), strict=False):
        for key in (BLOCK, JOIN):
            if node.meta_get(key) is not None:
                same.meta[key] = node.meta_get(key)
