"""From a block's joins to the rows of its domain queries; joins whose ON asks get their questions answered first.

A filter is asked on as few rows as the joins before allow. So a join that asks waits until something reads what it
adds, or until all filters are answered: then what they left decides which of its pairs are asked about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from covey_planner.logical import Attached, Item, Joined, filters
from covey_planner.lowering.domains import Extra, Member, Rows
from covey_planner.lowering.semi_joins import attached_sql

if TYPE_CHECKING:
    from covey_planner.lowering.frame import Frame
    from covey_planner.lowering.lower import Lowering


class Joins:
    """The joins of one block while it is lowered; what is settled is part of the frame's rows."""

    def __init__(self, lowering: Lowering, frame: Frame) -> None:
        self._lowering = lowering
        self._frame = frame
        asking = {join.position: join for join in frame.block.joins}
        behind = {join.position for join in frame.source.attached}
        self._first = [join for at, join in asking.items() if at not in behind]
        self._asking = asking
        self._open = list(frame.source.attached)
        self._items: Sequence[Item] = frame.source.items
        if not self._first:
            self._add_items()
            self._add_quiet()

    def settle(self, relations: frozenset[str] | None) -> None:
        """Make the block's members readable, and all joins that add some of these relations; None for all joins."""
        first, self._first = self._first, []
        for join in first:
            self._answer_sides(join)
        if self._items:
            self._add_items()
            self._add_quiet()
        while (attached := self._next(relations)) is not None:
            self._answer_attached(attached)
            self._add_quiet()

    def _next(self, relations: frozenset[str] | None) -> Attached | None:
        """The first join still open that is wanted, or that another one needs."""
        wanted = {join.relation for join in self._open} if relations is None else set(relations)
        for join in reversed(self._open):
            if join.relation in wanted:
                wanted |= join.needs
        return next((join for join in self._open if join.relation in wanted), None)

    def _add_items(self) -> None:
        self._frame.rows.members[:0] = [self._member(item) for item in self._items]
        self._items = ()

    def _add_quiet(self) -> None:
        """Add the joins that need no answer and no join that is still open."""
        for join in list(self._open):
            if join.position not in self._asking and not self._waits(join):
                self._add(join)

    def _waits(self, join: Attached) -> bool:
        return any(other.relation in join.needs and other.kind == "LEFT" for other in self._open)

    def _add(self, join: Attached) -> None:
        free, write = self._lowering.free, self._lowering.rewrites.sql
        before, beside = self._flags(join)
        sql = " ".join([*before, attached_sql(join, write, beside)])
        without = "" if free is None else attached_sql(join, free.sql)
        adds = join.relation if join.kind == "LEFT" else None
        needs = join.needs | self._frame.source.needs(frozenset({join.relation}))
        self._frame.rows.extras.append(Extra(sql, adds, needs, names({join.relation}), without))
        self._open.remove(join)

    def _flags(self, join: Attached) -> tuple[list[str], list[str]]:
        """What is joined, for a join's ON, to the rows before it and to its own relation."""
        asked = self._asking.get(join.position)
        flags = None if asked is None else self._lowering.rewrites.flags.get(asked.flagged or 0)
        if asked is None or flags is None:
            return [], []
        return (flags.left, flags.right) if join.relation in asked.right else (flags.right, flags.left)

    def _answer_attached(self, join: Attached) -> None:
        """Answer the calls in an attached join's ON, if it has any, and add the join."""
        asked = self._asking.get(join.position)
        if asked is not None:
            rows = self._frame.rows
            (right,) = asked.sides
            members = [*rows.members, self._member(right)]
            # What a filter says about the right side it says about NULL too, where no pair is left.
            links = [link for link in rows.links if join.relation not in link.relations]
            self._answer(asked, replace(rows, members=members, extras=list(rows.extras), links=links))
            self._lowering.flag(asked)
        self._add(join)

    def _answer_sides(self, join: Joined) -> None:
        """Answer the calls in the ON of a join inside a member."""
        links = [link for link in self._frame.rows.links if link.relations <= join.reduces]
        members = [self._member(side) for side in join.sides]
        self._answer(join, replace(self._frame.rows, members=members, extras=[], links=links))
        self._lowering.flag(join)

    def _answer(self, join: Joined, rows: Rows) -> None:
        pairs = replace(self._frame, rows=rows, ending=None, joined={}, inside=True)
        for condition in filters(join.plan)[1]:
            self._lowering.ask(pairs, condition, ())
            pairs.rows.links += self._lowering.links(condition)

    def _member(self, item: Item) -> Member:
        free = self._lowering.free
        sql = _written(item, self._lowering.rewrites.sql)
        without = "" if free is None else _written(item, free.sql)
        parts = (item.first, *item.joins) if free is not None else ()
        odds = tuple(odds for part in parts for odds in free.left_out(part)) if free is not None else ()
        needs = self._frame.source.needs(item.relations)
        return Member(sql, item.relations, names(item.relations), without, odds, needs)


def _written(item: Item, write: Callable[[exp.Expr], str]) -> str:
    """A member of FROM as SQL."""
    parts = [write(part).strip() for part in (item.first, *item.joins)]
    sql = " ".join(f"CROSS JOIN {part[1:]}" if part.startswith(",") else part for part in parts)
    return f"({sql})" if item.joins else sql


def names(relations: frozenset[str] | set[str]) -> frozenset[str]:
    """The names by which relations are called, without what tells nested ones apart."""
    return frozenset(relation.partition("@")[0] for relation in relations)
