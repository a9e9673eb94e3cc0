"""Of a SELECT below LIMIT: how many rows it wants, and by which keys of its tables the first ones; asks nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from sqlglot import exp

from covey_planner.binding.volatile import volatile
from covey_planner.language.calls import is_aggregate
from covey_planner.language.parse import site_number, sites_of
from covey_planner.language.render import render
from covey_planner.logical import Source

_CLAUSES = frozenset({"expressions", "from_", "joins", "where", "kind", "limit", "offset", "order", "with_"})


@dataclass(frozen=True)
class Order:
    """ORDER BY as keys of rows, SQL, "" without one; relations: those that they read.

    parts: key by key; ties: whether rows that these leave together have an order of their own.
    """

    sql: str = ""
    relations: frozenset[str] = frozenset()
    parts: tuple[tuple[str, frozenset[str]], ...] = ()
    ties: bool = False

    def first_keys(self, relations: frozenset[str]) -> Order | None:
        """The first keys, as far as they read these relations alone; None where there is none."""
        parts = list(takewhile(lambda part: part[1] <= relations, self.parts))
        if not parts:
            return None
        return ordered(parts, self.ties or len(parts) < len(self.parts))


def ordered(parts: Sequence[tuple[str, frozenset[str]]], ties: bool) -> Order:
    """Keys as SQL, each with the relations that it reads, as an order."""
    read = frozenset().union(*(relations for _, relations in parts))
    return Order(", ".join(sql for sql, _ in parts), read, tuple(parts), ties)


NO_ORDER = Order()


def order_of(select: exp.Select, source: Source) -> Order | None:
    """ORDER BY as the keys of rows of FROM, up to the first that asks; None where rows cannot be put in its order."""
    clause = select.args.get("order")
    if clause is None:
        return Order()
    known: list[exp.Expr] = []
    for written in clause.expressions:
        key = key_of(written, select, asking=True)
        if key is None:
            return None
        if sites_of(key):
            break
        known.append(key)
    return as_order(known, source, len(known) < len(clause.expressions)) if known else None


def as_order(keys: Sequence[exp.Expr], source: Source, ties: bool = False) -> Order | None:
    """Keys that ask nothing as an order; None where it cannot be told what they read."""
    parts: list[tuple[str, frozenset[str]]] = []
    for key in keys:
        relations = key_relations([key], source)
        if relations is None:
            return None
        parts.append((render(key), relations))
    return ordered(parts, ties)


def key_relations(keys: Sequence[exp.Expr], source: Source) -> frozenset[str] | None:
    """The relations of FROM that keys read; None where that cannot be told."""
    relations = source.relations
    if len(relations) == 1 and not source.attached:
        return relations
    by_name = {relation.partition("@")[0]: relation for relation in relations}
    columns = [column for key in keys for column in key.find_all(exp.Column)]
    if not all(column.table.lower() in by_name for column in columns):
        return None
    return frozenset(by_name[column.table.lower()] for column in columns)


def key_of(ordered: exp.Expr, select: exp.Select | None, asking: bool = False) -> exp.Expr | None:
    """A key of an order with names of FROM alone, not of the SELECT list; None where that cannot be said.

    select: whose list an ORDER BY may name; asking: whether it may hold AI calls.
    """
    copy = ordered.copy()
    items = [] if select is None else select.expressions
    key = copy.this if isinstance(copy, exp.Ordered) else copy
    named = {item.alias.lower(): item.this for item in items if isinstance(item, exp.Alias)}
    if isinstance(key, exp.Literal):
        at = int(key.this) - 1 if key.is_int else -1
        if not 0 <= at < len(items) or any(item.is_star for item in items):
            return None
        key.replace(exp.Paren(this=items[at].unalias().copy()))
    for column in list(copy.find_all(exp.Column)):
        meant = named.get(column.name.lower()) if not column.table else None
        if meant is not None and meant != column:
            column.replace(exp.Paren(this=meant.copy()))
    barred = (exp.Query, exp.Window, exp.Star, exp.Var, exp.Columns)
    known = any(isinstance(node, exp.Column) for node in copy.walk())
    if not known or volatile(copy) is not None or any(isinstance(node, barred) for node in copy.walk()):
        return None
    bars = any(map(may_change_rows, copy.walk())) or (bool(sites_of(copy)) and not asking)
    return None if bars else copy


def rows_wanted(select: exp.Select, source: Source) -> int | None:
    """LIMIT plus OFFSET, where any rows that pass the filters will do and each match gives at least one."""
    limit, offset = select.args.get("limit"), select.args.get("offset")
    if (
        not isinstance(limit, exp.Limit)
        or not {name for name, value in select.args.items() if value} <= _CLAUSES
    ):
        return None
    clauses = [clause for clause in (limit, offset) if clause is not None]
    counts = [whole_number(clause) for clause in clauses]
    known = [count for count in counts if count is not None]
    if len(known) < len(counts):
        return None
    if any(join.kind != "LEFT" for join in source.attached):
        return None
    if any(may_change_rows(node) for item in select.expressions for node in item.walk()):
        return None
    return sum(known)


def whole_number(clause: exp.Expr) -> int | None:
    """The number of rows of a LIMIT or OFFSET; None where it is computed, a percentage, or has ties."""
    count = clause.args.get("expression")
    if any(value for name, value in clause.args.items() if name != "expression"):
        return None
    return int(count.this) if isinstance(count, exp.Literal) and count.is_int else None


def may_change_rows(node: exp.Expr) -> bool:
    """Whether a part of a SELECT list may yield none or several rows for one, or look at several."""
    if isinstance(node, exp.Window | exp.UDTF | exp.Explode) or is_aggregate(node):
        return True
    return isinstance(node, exp.Anonymous) and site_number(node) is None
