"""A block's FROM and its ordinary predicates in, relations with rows and links out; asks statistics, runs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import duckdb
from sqlglot import exp

from covey_planner.binding.ctes import with_clause
from covey_planner.binding.volatile import volatile
from covey_planner.call import Argument
from covey_planner.cost.statistics import Statistics
from covey_planner.language.parse import site_number
from covey_planner.language.render import render
from covey_planner.logical import All, Any, Block, Cheap, Condition, Not, filters, is_cheap
from covey_planner.ordering.problem import Documents, Link, Relation

_ROWS = 1000.0
_TOKENS = 100.0
_UNKNOWN = 0.3
"""Of relations, texts and predicates of which nothing is known."""


@dataclass(frozen=True)
class Stored:
    """A table or view as stored. columns: by lower-case name, the name as stored and the type."""

    name: str
    columns: Mapping[str, tuple[str, str]]

    @staticmethod
    def of(columns: Mapping[str, Mapping[str, str]]) -> dict[str, Stored]:
        """All of a catalog's, by lower-case name."""
        return {
            table.lower(): Stored(table, {name.lower(): (name, kind) for name, kind in own.items()})
            for table, own in columns.items()
        }


@dataclass(frozen=True)
class _Known:
    """A relation. every: its rows without predicates; table: the stored table or view it reads."""

    name: str
    rows: float
    every: float
    table: Stored | None = None


@dataclass
class Sources:
    """The relations that a block's conditions may speak of: its own, behind those of the SELECT around it."""

    statistics: Statistics
    tables: Mapping[str, Stored]
    numbers: dict[str, int] = field(default_factory=dict)
    known: list[_Known] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)

    def inside(self, block: Block) -> Sources:
        """With the relations of a block."""
        found = Sources(self.statistics, self.tables, dict(self.numbers), list(self.known), list(self.links))
        found._add(block)
        return found

    @property
    def relations(self) -> tuple[Relation, ...]:
        """All of them, by number."""
        return tuple(Relation(known.name, known.rows) for known in self.known)

    def documents(self, arguments: Sequence[Argument]) -> Documents | None:
        """The documents of one side of a call; None where they are not about exactly one relation."""
        relations = frozenset().union(*(argument.relations for argument in arguments))
        if len(relations) != 1 or not relations <= self.numbers.keys():
            return None
        number = self.numbers[next(iter(relations))]
        known = self.known[number]
        distinct, tokens = 1.0, 0.0
        for argument in arguments:
            each, length = self._text(argument, known)
            distinct, tokens = min(distinct * each, known.every), tokens + length
        return Documents(number, _drawn(distinct, known.rows, known.every), tokens)

    def _text(self, argument: Argument, known: _Known) -> tuple[float, float]:
        """Distinct texts among all rows, and mean tokens, of an argument."""
        if argument.table is not None and argument.column is not None:
            counted = self.statistics.tokens(argument.table, argument.column)
            return max(counted.distinct, 1.0), counted.mean
        lengths = []
        for column in argument.expr.find_all(exp.Column):
            name, kind = _column_of(known, column)
            if known.table is not None and kind == "VARCHAR":
                lengths.append(self.statistics.tokens(known.table.name, name).mean)
        return known.every, sum(lengths) or _TOKENS

    def _add(self, block: Block) -> None:
        source, conditions = filters(block.plan)
        plain = [part for condition in conditions if is_cheap(condition) for part in _parts(condition)]
        tables: dict[str, exp.Expr | None] = {}
        for item in source.items:
            tables.update({key: item.first if len(item.relations) == 1 else None for key in item.relations})
        tables.update({join.relation: join.table for join in source.attached if join.kind == "LEFT"})
        for key, node in tables.items():
            own = [part for part in plain if _relations(part) == {key}]
            self.numbers[key] = len(self.known)
            self.known.append(self._relation(key, block, node, own))
        together: dict[frozenset[str], list[Condition]] = {}
        for part in plain:
            if len(_relations(part)) == 2 and _relations(part) <= self.numbers.keys():
                together.setdefault(_relations(part), []).append(part)
        for parts in together.values():
            self.links += map(self._link, parts)
        for join in source.attached:
            if join.kind == "LEFT" and len(join.needs) == 1 and join.needs <= self.numbers.keys():
                self._attach(join.relation, Cheap(join.on, frozenset({join.relation, *join.needs})))

    def _attach(self, relation: str, on: Condition) -> None:
        """Link what a LEFT join adds; it takes no row away."""
        number = self.numbers[relation]
        for part in _parts(on):
            if len(_relations(part)) == 2:
                link = self._link(part)
                kept = (
                    replace(link, right_share=1.0) if link.left == number else replace(link, left_share=1.0)
                )
                self.links.append(kept)

    def _relation(self, key: str, block: Block, node: exp.Expr | None, own: Sequence[Condition]) -> _Known:
        if node is None or any(site_number(part) is not None for part in _read(node, block)):
            return _Known(key, _ROWS, _ROWS)
        table = self._stored(block, node)
        select = f"SELECT 1 FROM {render(node)}"
        every = self._count(block, select) if table is None else self.statistics.rows(table.name).value
        if every is None:
            return _Known(key, _ROWS, _ROWS)
        where = " AND ".join(f"({sql(part)})" for part in own if _steady(part))
        left = self._count(block, f"{select} WHERE {where}") if where else every
        return _Known(key, every if left is None else min(left, every), every, table)

    def _count(self, block: Block, select: str) -> float | None:
        """Rows of a query, None where it cannot stand by itself: it may refer to members before it."""
        try:
            return self.statistics.matching(with_clause(block.ctes, _same, select) + select).value
        except duckdb.Error:
            return None

    def _stored(self, block: Block, node: exp.Expr) -> Stored | None:
        """The stored table or view that a member of FROM is."""
        if not isinstance(node, exp.Table):
            return None
        if not node.db and any(cte.alias.lower() == node.name.lower() for cte in block.ctes):
            return None
        name = node.name.lower()
        return self.tables.get(f"{node.db}.{name}".lower(), self.tables.get(name))

    def _link(self, part: Condition) -> Link:
        match part:
            case Cheap(expr=exp.EQ(this=exp.Column() as left, expression=exp.Column() as right)):
                sides = [self._column(column, part.relations) for column in (left, right)]
                if None not in sides:
                    return self._equal([side for side in sides if side is not None])
        one, other = sorted(self.numbers[key] for key in _relations(part))
        return Link.of(one, other, (self.known[one].rows, self.known[other].rows), _UNKNOWN)

    def _column(self, column: exp.Column, relations: frozenset[str]) -> tuple[int, str] | None:
        """The number of a column's relation, and the column's name as stored, "" for none that is."""
        keys = [key for key in relations if key.partition("@")[0] == column.table.lower()]
        if len(keys) != 1:
            return None
        number = self.numbers[keys[0]]
        return number, _column_of(self.known[number], column)[0]

    def _equal(self, sides: Sequence[tuple[int, str]]) -> Link:
        (left, ours), (right, theirs) = sides
        one, other = self.known[left], self.known[right]
        if one.table is None or other.table is None or not ours or not theirs:
            common = max(min(one.every, other.every), 1.0)
            keys = common, common
        else:
            overlap = self.statistics.overlap((one.table.name, ours), (other.table.name, theirs))
            keys, common = (max(overlap.left, 1.0), max(overlap.right, 1.0)), overlap.common
        left_keys, right_keys = (
            _drawn(count, known.rows, known.every) for count, known in zip(keys, (one, other), strict=True)
        )
        common *= (left_keys / keys[0]) * (right_keys / keys[1])
        return Link.equal(left, right, (one.rows, other.rows), (left_keys, right_keys), common)


def _column_of(known: _Known, column: exp.Column) -> tuple[str, str]:
    """Name and type of a stored column, empty for what is none."""
    found = known.table.columns.get(column.name.lower()) if known.table is not None else None
    return found or ("", "")


def sql(condition: Condition) -> str:
    """An ordinary condition as SQL."""
    match condition:
        case Cheap(expr=expr):
            return render(expr)
        case Not(part):
            return f"NOT ({sql(part)})"
        case All(parts) | Any(parts):
            return (" AND " if isinstance(condition, All) else " OR ").join(
                f"({sql(part)})" for part in parts
            )
    raise AssertionError("no ordinary condition")


def _parts(condition: Condition) -> Iterator[Condition]:
    """The conjuncts of an ordinary condition."""
    match condition:
        case All(parts):
            for part in parts:
                yield from _parts(part)
        case Cheap(expr=exp.And() as both, relations=relations):
            for expr in both.flatten():
                tables = {column.table.lower() for column in expr.find_all(exp.Column)}
                own = frozenset(key for key in relations if key.partition("@")[0] in tables)
                yield from _parts(Cheap(expr.unnest(), own))
        case _:
            yield condition


def _relations(condition: Condition) -> frozenset[str]:
    match condition:
        case Cheap(relations=relations):
            return relations
        case Not(part):
            return _relations(part)
        case All(parts) | Any(parts):
            return frozenset().union(*map(_relations, parts))
    return frozenset()


def _steady(condition: Condition) -> bool:
    """Whether a condition can be counted by itself."""
    match condition:
        case Cheap(expr=expr):
            return volatile(expr) is None and expr.find(exp.Query) is None
        case Not(part):
            return _steady(part)
        case All(parts) | Any(parts):
            return all(map(_steady, parts))
    return False


def _drawn(values: float, rows: float, every: float) -> float:
    """Different values among some of all rows, where each has equally many (Yao's formula)."""
    if rows >= every or every <= 0:
        return min(values, max(every, 0.0))
    return float(values * (1 - (1 - rows / every) ** max(every / max(values, 1.0), 1.0)))


def _read(node: exp.Expr, block: Block) -> Iterator[exp.Expr]:
    """All nodes that a member of FROM reads, by way of CTEs too."""
    yield from node.walk()
    names = {table.name.lower() for table in node.find_all(exp.Table)}
    for cte in block.ctes:
        if cte.alias.lower() in names:
            yield from cte.this.walk()


def _same(node: exp.Expr) -> exp.Expr:
    return node
