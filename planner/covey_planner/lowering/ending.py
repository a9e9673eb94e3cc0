"""When a block's last filter need not be asked in full: in a subquery of which so many rows decide, and below LIMIT.

Both hold only where a match decides by itself. Then whatever is not asked is as good as false: other matches settle the
subquery, or other rows fill the LIMIT. Wherever that is not certain, the answer is None. No SQL but that of columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from covey_planner.binding.deciding import Probe, Test, membership, test_of
from covey_planner.binding.volatile import volatile
from covey_planner.call import Call
from covey_planner.language.render import render
from covey_planner.logical import (
    BLOCK,
    Ask,
    Block,
    Cheap,
    Condition,
    Mixed,
    Source,
    filters,
    leaves,
    relations_of,
)
from covey_planner.lowering.domains import Rows
from covey_planner.lowering.first_rows import NO_ORDER, Order, order_of, ordered, rows_wanted
from covey_planner.rules.share_documents import documents


@dataclass
class Quota:
    """So many rows of the SELECT around a subquery are wanted: those for which it decides so, or (absent) does not.

    order: keys by which they are wanted first. rows: those among which they are. taken: set where a step
    heeds it, of absent ones: the condition of a row that it is known to be one of them, as SQL.
    """

    enough: int
    absent: bool
    order: Order
    rows: Rows
    taken: str | None = None


@dataclass(frozen=True)
class Deciding:
    """So many rows of a subquery decide what it is for a row around it.

    own: its relations. keys: columns of the SELECTs around, as SQL, that decide which rows those are; relations: those
    they are of. linked: whether another condition than the last one reads them. probe: what `x IN` compares besides;
    strict: whether NULL and FALSE differ there. order: in which its rows are wanted, the first ones deciding.
    """

    needed: int
    own: frozenset[str]
    keys: tuple[str, ...]
    relations: frozenset[str]
    linked: bool
    probe: Probe | None = None
    strict: bool = False
    quota: Quota | None = None
    order: Order = NO_ORDER

    @property
    def around(self) -> frozenset[str]:
        """All relations of the SELECTs around that are read."""
        return self.relations if self.probe is None else self.relations | self.probe.outer


@dataclass(frozen=True)
class Ending:
    """What ends a step early. enough: so many matches end all of it; deciding: what ends it part by part.

    order: the keys by which the rows are wanted first; the matches count from the first row on.
    """

    enough: int | None = None
    order: Order = NO_ORDER
    deciding: Deciding | None = None


def ending_of(block: Block, tree: exp.Query, quota: Quota | None = None) -> Ending | None:
    """How the last filter of a block may end early. tree: the whole statement. quota: rows wanted around a subquery."""
    source, conditions = filters(block.plan)
    if not conditions or documents(conditions[-1]) is None or not steady(conditions[:-1]):
        return None
    calls = [leaf.call for leaf in leaves(conditions[-1]) if isinstance(leaf, Ask)]
    if block.select is tree:
        if not all(call.relations <= source.relations for call in calls):
            return None
        enough = rows_wanted(block.select, source)
        order = order_of(block.select, source)
        return None if enough is None or order is None else Ending(enough, order)
    test = test_of(block.select)
    if test is None:
        return _limited(block, calls[0])
    deciding = None if test is None else _deciding(block, test, calls[0], quota)
    if deciding is not None and not (deciding.keys or deciding.probe):
        return Ending(deciding.needed)
    return None if deciding is None else Ending(deciding=deciding)


def quota_of(block: Block, tree: exp.Query, rows: Rows) -> Quota | None:
    """How many rows are wanted of a block whose last filter is a subquery's truth. rows: what it leaves that far."""
    source, conditions = filters(block.plan)
    last = conditions[-1] if conditions else None
    if block.select is not tree or not isinstance(last, Mixed) or last.values or len(last.blocks) != 1:
        return None
    enough = rows_wanted(block.select, source)
    order = order_of(block.select, source)
    sense = _sense(last.expr, last.blocks[0].number)
    if enough is None or order is None or order.ties or sense is None or not steady(conditions):
        return None
    return Quota(enough, not sense, order, rows)


def strict(select: exp.Select) -> bool:
    """Whether it matters that `x IN` a SELECT is NULL and not FALSE."""
    tested = membership(select)
    node = None if tested is None else tested[0]
    if node is None or isinstance(node, exp.NEQ):
        return True
    while isinstance(node.parent, exp.Paren | exp.And | exp.Or):
        node = node.parent
    return not isinstance(node.parent, exp.Where)


def _sense(expr: exp.Expr, number: int) -> bool | None:
    """What an expression is where enough rows of its subquery, that block, are there, and not where they are not."""
    sense = True
    while isinstance(expr, exp.Paren | exp.Not):
        sense ^= isinstance(expr, exp.Not)
        expr = expr.this
    select = next((node for node in expr.find_all(exp.Select) if node.meta_get(BLOCK) == number), None)
    test = None if select is None else test_of(select)
    if select is None or test is None or test.sense is None or test.node is not expr:
        return None
    if membership(select) is not None and not sense:
        return None  # NULL is not TRUE either
    return test.sense is sense


def steady(conditions: Sequence[Condition]) -> bool:
    """Whether the domain of what comes next is exactly what the conditions leave: none changes between queries."""
    exprs = [leaf.expr for each in conditions for leaf in leaves(each) if isinstance(leaf, Cheap | Mixed)]
    return all(volatile(expr) is None for expr in exprs)


def _deciding(block: Block, test: Test, call: Call, quota: Quota | None) -> Deciding | None:
    """Which rows of a subquery decide what it is; call: the first one of its last filter."""
    source, conditions = filters(block.plan)
    own, probe = source.relations, block.probe
    if (membership(block.select) is None) != (probe is None):
        return None
    if block.values or block.nested or block.joins or _holds_query(conditions):
        return None
    if any(not join.needs <= own or join.on.find(exp.Query) is not None for join in source.attached):
        return None
    if quota is not None and quota.absent and test.needed > 1:
        quota = None  # fewer matches may still be as many rows, where values come twice
    lists = _lists_read(source)
    if lists is None:
        return None
    before = [each for each in conditions[:-1] if not relations_of(each) <= own]
    tying = [each for each in before if quota is not None or relations_of(each) & own]
    keys = _around([*tying, conditions[-1]], own)
    if keys is None:
        return None
    relations = frozenset().union(*(relations_of(each) for each in [*tying, conditions[-1]])) - own
    relations |= frozenset().union(*(read for _, read in source.around))
    # Lists that differ may read alike.
    keys = (*keys, *dict.fromkeys(f"to_json({render(column)})" for column in lists))
    sensitive = probe is not None and strict(block.select)
    return Deciding(test.needed, own, keys, relations, bool(tying or lists), probe, sensitive, quota)


def _lists_read(source: Source) -> list[exp.Column] | None:
    """The columns of SELECTs around that members of a subquery's FROM read, which are their rows; None where they read
    other than lists.
    """
    if not source.around:
        return []
    found: list[exp.Column] = []
    parts = [part for item in source.items for part in (item.first, *item.joins)]
    for part in [*parts, *(join.table for join in source.attached)]:
        if isinstance(part, exp.Unnest):
            found += part.find_all(exp.Column)
        elif not (isinstance(part, exp.Table) and isinstance(part.this, exp.Identifier)):
            return None
    return found if all(column.table for column in found) else None


def _limited(block: Block, call: Call) -> Ending | None:
    """How the last filter of a SELECT inside the statement ends that has a LIMIT of its own: with the first rows, or
    with those for each row around it.
    """
    source, conditions = filters(block.plan)
    own, needed = source.relations, rows_wanted(block.select, source)
    if not needed or block.keys is None or block.joins or source.around or _holds_query(conditions):
        return None
    if any(not join.needs <= own or join.on.find(exp.Query) is not None for join in source.attached):
        return None
    before = [each for each in conditions[:-1] if not relations_of(each) <= own]
    tying = [each for each in before if relations_of(each) & own]
    sorts = [Cheap(key, read) for key, read in block.keys]
    keys = _around([*tying, conditions[-1], *sorts], own)
    if keys is None:
        return None
    order = ordered([(render(key), read) for key, read in block.keys], False)
    relations = frozenset().union(*(relations_of(each) for each in [*tying, conditions[-1], *sorts])) - own
    if not (keys or relations):
        return Ending(needed, order)
    return Ending(deciding=Deciding(needed, own, keys, relations, bool(tying), order=order))


def _around(conditions: Sequence[Condition], own: frozenset[str]) -> tuple[str, ...] | None:
    """The columns of the SELECTs around that conditions read, as SQL; None where it cannot be told which those are."""
    columns = list(_columns(conditions, own))
    if any(not column.table for column in columns):
        return None
    return tuple(dict.fromkeys(render(column) for column in columns))


def _columns(conditions: Sequence[Condition], own: frozenset[str]) -> Iterator[exp.Column]:
    """The columns that conditions of a subquery read of SELECTs around it; all that may be one."""
    names = {relation.partition("@")[0] for relation in own}
    for leaf in (leaf for each in conditions for leaf in leaves(each)):
        if isinstance(leaf, Ask):
            exprs = [argument.expr for argument in leaf.call.arguments if not argument.relations <= own]
        else:
            exprs = [leaf.expr] if not leaf.relations <= own else []
        for column in (column for expr in exprs for column in expr.find_all(exp.Column)):
            if column.parts[0].name.lower() not in names:
                yield column


def _holds_query(conditions: Sequence[Condition]) -> bool:
    exprs = [leaf.expr for each in conditions for leaf in leaves(each) if isinstance(leaf, Cheap | Mixed)]
    return any(expr.find(exp.Query) is not None for expr in exprs)
