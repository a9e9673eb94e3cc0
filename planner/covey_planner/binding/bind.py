"""From a syntax tree to the logical plan: every name resolved, every AI call bound, or an error with its
position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from covey_planner.binding.around import Around, before
from covey_planner.binding.clauses import VALUE_CLAUSES, clause_parts, own_nodes
from covey_planner.binding.ctes import stands_alone
from covey_planner.binding.scope import Catalog, Columns, Scope, position_of
from covey_planner.binding.select import Place, SelectBinder
from covey_planner.binding.sources import FromBinder
from covey_planner.errors import Position, Unsupported
from covey_planner.language.functions import BOOLEAN
from covey_planner.language.parse import Scan, Statement, site_name, site_number, sites_of
from covey_planner.language.refusals import place_refused
from covey_planner.logical import (
    BLOCK,
    Block,
    Logical,
)


def bind(statement: Statement, catalog: Catalog) -> Logical:
    """Bind a statement. Raises BindError and Unsupported."""
    binder = Binder(statement, catalog)
    blocks = binder.query(statement.tree, Place(None, ()))
    for number, site in enumerate(binder.scan.sites):
        if number not in binder.bound and not site.repeated:
            raise place_refused(statement.scan.tokens, site.function, site.position, site.start)
    return Logical(tuple(blocks))


class Binder:
    """Binds the queries of a statement, and names its blocks. bound: the numbers of the calls bound so far."""

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

    def holds(self, node: object) -> bool:
        """Whether a node of the statement's tree holds an AI call."""
        return id(node) in self._holding

    def query(self, node: exp.Expr, place: Place) -> list[Block]:
        """The blocks of a query, what is read first coming first."""
        if not self.holds(node):
            return []
        blocks: list[Block] = []
        with_ = node.args.get("with_")
        if with_ is not None:
            for cte in with_.expressions:
                recursive = self.holds(cte) and with_.args.get("recursive") and _reads_itself(cte)
                body = self._first_part(cte) if recursive else cte.this
                self._check_cte(cte, place)
                blocks += self.query(body, place)
                place = Place(place.parent, (*place.ctes, cte))
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
                cells = (part for row in node.expressions for part in own_nodes(row))
                queries = (part for part in cells if isinstance(part, exp.Query) and self.holds(part))
                return [*blocks, *(block for part in queries for block in self.query(part, place))]
        raise Unsupported(f"an AI call in {node.key.upper()} is not supported", position_of(node))

    def _first_part(self, cte: exp.CTE) -> exp.Expr:
        """The part of a recursive CTE that does not read it."""
        body: exp.Expr = cte.this.unnest()
        self._only_in(body, ("with_", "this", "expression"), "a recursive CTE")
        if isinstance(body, exp.SetOperation) and not self.holds(body.expression):
            first: exp.Expr = body.this
            return first
        raise Unsupported(
            "an AI call in the recursive part of a CTE is not supported, as whom it is about depends on its own "
            "answers: ask before, WITH RECURSIVE answers AS (SELECT …, AI_FILTER(…) AS answer FROM …), and join them",
            self._position_of_call(body),
        )

    def _check_cte(self, cte: exp.CTE, place: Place) -> None:
        """Refuse a CTE in a subquery that reads the query around, as domain queries begin with it."""
        if place.parent is not None and not stands_alone(
            self.catalog, place.ctes, exp.Subquery(this=cte.this.copy())
        ):
            raise Unsupported(
                f"the CTE {cte.alias} reads the query around, which is not supported with AI calls: write it as a"
                " derived table where it is read",
                position_of(cte.this),
            )

    def _position_of_call(self, node: exp.Expr) -> Position | None:
        numbers = sites_of(node)
        return self.scan.sites[min(numbers)].position if numbers else position_of(node)

    def _only_in(self, node: exp.Expr, keys: Sequence[str], name: str) -> None:
        for key, child in node.args.items():
            for part in child if isinstance(child, list) else [child]:
                if key not in keys and self.holds(part):
                    instead = ": put that into a derived table" if isinstance(node, exp.SetOperation) else ""
                    key = key.rstrip("s_").upper()
                    raise Unsupported(
                        f"an AI call in {key} of {name} is not supported{instead}",
                        self._position_of_call(part),
                    )

    def _select(self, select: exp.Select, place: Place) -> list[Block]:
        late = self._late(select, place)
        inputs = self._inputs(select, place, late)
        clauses = [
            clause for key in ("joins", "where", *VALUE_CLAUSES) for clause in clause_parts(select, key)
        ]
        parts = [join.args.get("on") if isinstance(join, exp.Join) else join for join in clauses]
        if not late and not any(self.holds(part) for part in parts if part is not None):
            return inputs
        binder = FromBinder(self.catalog, self._stored, place.ctes, place.parent, late)
        clause = binder.bind(select)
        self._expand_aliases(select, clause.scope)
        select.meta[BLOCK] = self._count
        number, self._count = self._count, self._count + 1
        inside = SelectBinder(self, select, place, clause, binder.text)
        return [*inputs, inside.block(number)]

    def _late(self, select: exp.Select, place: Place) -> list[exp.Expr]:
        """The derived tables with AI calls that read members of FROM before them."""
        tables = [join.this for join in select.args.get("joins") or [] if self.holds(join.this)]
        queries = [table for table in tables if isinstance(table, exp.Subquery | exp.Lateral)]
        return [
            table
            for table in queries
            if isinstance(table.this, exp.Query)
            and (isinstance(table, exp.Lateral) or not self._stands_alone(table, place))
        ]

    def _stands_alone(self, table: exp.Expr, place: Place) -> bool:
        """Whether a derived table can be read without other members of its FROM, and means the same then."""
        if place.parent is None or stands_alone(self.catalog, place.ctes, table):
            return stands_alone(self.catalog, place.ctes, table)
        select = table.parent_select
        around = Around(self.catalog, self._stored, place.ctes, place.parent)
        return isinstance(select, exp.Select) and around.reads_none_of(table, before(select, table))

    def _inputs(self, select: exp.Select, place: Place, late: Sequence[exp.Expr]) -> list[Block]:
        """The blocks in FROM, but for those that read other members of it."""
        self._only_in(select, ("with_", "from_", "joins", "where", *VALUE_CLAUSES), "SELECT")
        members = [select.args.get("from_"), *(select.args.get("joins") or [])]
        blocks: list[Block] = []
        for member in members:
            table = member.this if member is not None else None
            if table is None or not self.holds(table) or any(other is table for other in late):
                continue
            if isinstance(table, exp.Values):
                blocks += self.query(table, place)
                continue
            if not isinstance(table, exp.Subquery) or isinstance(table.this, exp.Table):
                raise Unsupported(f"an AI call in {_said(table)}", self._position_of_call(table))
            self._only_in(table, ("this", "with_"), "a derived table")
            blocks += self.query(table.this, place)
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
            if not (ranks or self.holds(meant)):
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


def _said(table: exp.Expr) -> str:
    """What a member of FROM that holds an AI call is, and what to write instead."""
    if table.args.get("pivots"):
        return "PIVOT is not supported: compute it before, FROM (SELECT *, AI_FILTER(…) AS answer FROM …) PIVOT (…)"
    if isinstance(table, exp.Table) and isinstance(table.this, exp.Func):
        return "an argument of a table function is not supported"
    return "a member of FROM of this kind is not supported"


def _reads_itself(cte: exp.CTE) -> bool:
    return any(table.name.lower() == cte.alias.lower() for table in cte.this.find_all(exp.Table))
