"""The groups of a step and what has matched so far go in; out comes what to ask next, wave by wave; asks nothing.

A group is settled by so many matches; what is asked for one group counts for all that share the item. Where only so
many groups are wanted, they are taken up in order, as many at once as their share so far promises.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from covey_planner.physical import AskStep, Groups
from numpy.typing import NDArray

from covey_engine.operators.domains import Keys
from covey_engine.operators.pairs import equal, numbered, pairs
from covey_engine.operators.streaming import Statements, quoted
from covey_engine.prefill import api

LEAST = 64
"""Items of a first wave: fewer would leave the device idle."""

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Members:
    """What belongs to each group: units `units[begins[g]:begins[g + 1]]` of group g, groups as they are wanted.

    A unit is an item, or (anchors) an anchor with all of its pairs. names: of the groups. Of a step with a query of
    pairs: runs: by entry of `units`, the end of those of its anchor in the group; alone: whether an item's anchor has
    the items of one group, which has no others.
    """

    begins: Ints
    units: Ints
    names: pa.ChunkedArray
    anchors: bool = False
    runs: Ints | None = None
    alone: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.begins) - 1

    def without_units(self) -> Members:
        """The same groups where nobody is to be asked."""
        return Members(np.zeros_like(self.begins), self.units[:0], self.names, self.anchors)


def read_groups(
    statements: Statements, step: AskStep, anchors: Keys, partners: Keys | None
) -> tuple[Members, Keys, api.Pairs | None]:
    """Who belongs together, the anchors that belong to a group, and the pairs of a step that has them."""
    assert step.groups is not None
    both = step.pairs is not None and partners is not None
    found = _found(statements, step, anchors, partners if both else None)
    place = "place, " if step.groups.ranked else ""
    with statements.registered("covey_found_groups", found):
        wanted = step.groups.wanted or "SELECT DISTINCT g, 0 AS o FROM covey_found_groups"
        names = statements.table(f"SELECT g FROM ({wanted}) AS wanted ORDER BY o")
        numbers = names.append_column("n", pa.array(np.arange(len(names))))
        with statements.registered("covey_group_names", numbers):
            found = statements.table(
                f"SELECT a, p, n FROM covey_found_groups JOIN covey_group_names USING (g) ORDER BY n, {place}a, p"
            )
    anchor, partner, group = (column.to_numpy().astype(np.int64) for column in found.columns)
    begins = np.zeros(len(names) + 1, np.int64)
    np.cumsum(np.bincount(group, minlength=len(names)), out=begins[1:])
    used, anchor = np.unique(anchor, return_inverse=True)
    anchors = anchors.take(used)
    if not both:
        return Members(begins, anchor, names["g"], step.partners is not None), anchors, None
    assert partners is not None
    wide = max(1, len(partners))
    codes, units = np.unique(anchor * wide + partner, return_inverse=True)
    met = pairs(np.bincount(codes // wide, minlength=len(anchors)), codes % wide)
    members = Members(begins, units, names["g"])
    # An order of items has no place for the other pairs of an anchor.
    return members if step.groups.ranked else _by_anchor(members, met), anchors, met


def _found(statements: Statements, step: AskStep, anchors: Keys, partners: Keys | None) -> pa.Table:
    """The groups query with the numbers of rows: a, p (0 without partners), g, and place where the items have one; keys
    of no domain are left out.
    """
    assert step.groups is not None
    place = ", members.o AS place" if step.groups.ranked else ""
    letter = "k" if step.partners is None else "a"
    joins = f"JOIN covey_anchor_keys AS anchors ON {equal('anchors', 'members', letter, anchors)}"
    if partners is not None:
        joins += f" JOIN covey_partner_keys AS partners ON {equal('partners', 'members', 'p', partners)}"
    with (
        statements.registered("covey_anchor_keys", numbered(anchors)),
        statements.registered("covey_partner_keys", numbered(anchors if partners is None else partners)),
    ):
        return statements.table(
            f"SELECT anchors.row AS a, {'0' if partners is None else 'partners.row'} AS p, members.g AS g{place}"
            f" FROM ({step.groups.sql}) AS members {joins}"
        )


def _by_anchor(members: Members, met: api.Pairs) -> Members:
    """The same with the pairs of an anchor kept together: what comes before them is computed once for an order.

    Where an anchor has the pairs of one group, and the group no others, the order may end them.
    """
    items = np.repeat(np.arange(len(met.offsets) - 1), np.diff(met.offsets))
    anchors, groups = items[members.units], np.repeat(np.arange(len(members)), np.diff(members.begins))
    last = np.ones(len(anchors), np.bool_)
    last[:-1] = (np.diff(anchors) != 0) | (np.diff(groups) != 0)
    ends = np.flatnonzero(last) + 1
    runs = np.repeat(ends, np.diff(ends, prepend=0))
    several = np.bincount(anchors[last], minlength=len(met.offsets) - 1) > 1
    wide = np.bincount(groups[last], minlength=len(members)) > 1
    several[anchors[wide[groups]]] = True
    return Members(members.begins, members.units, members.names, runs=runs, alone=~several[items])


@dataclass
class Waves:
    """Which units of which groups are asked next.

    asked, matched: by unit; a unit that is an anchor has matched once enough of its pairs have. open: groups taken up
    and not known; qualified: of which it is known that they are wanted.
    """

    groups: Groups
    members: Members
    units: int
    ordered: bool = False
    asked: NDArray[np.bool_] = field(init=False)
    matched: NDArray[np.bool_] = field(init=False)
    qualified: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        self.asked = np.zeros(self.units, np.bool_)
        self.matched = np.zeros(self.units, np.bool_)
        self.qualified = np.zeros(len(self.members), np.bool_)
        self._needed = 1 if self.members.anchors else self.groups.needed
        self._of = np.repeat(np.arange(len(self.members)), np.diff(self.members.begins))
        self._next = self.members.begins[:-1].copy()

    def __iter__(self) -> Iterator[Ints]:
        """Units to be asked, ascending; what they are is known when the next ones are fetched."""
        begin, total, enough = 0, len(self.members), self.groups.enough
        while begin < total and not self._enough(begin):
            end = total if enough is None else min(total, begin + self._promising(begin))
            yield from self._window(begin, end)
            begin = end

    def _enough(self, known: int) -> bool:
        return self.groups.enough is not None and int(self.qualified[:known].sum()) >= self.groups.enough

    def _promising(self, known: int) -> int:
        """How many more groups may give what is missing."""
        assert self.groups.enough is not None
        found = int(self.qualified[:known].sum())
        missing = self.groups.enough - found
        return max(1, min(-(-missing * (known + 2) // (found + 1)), max(16, missing, 2 * known)))

    def _window(self, begin: int, end: int) -> Iterator[Ints]:
        """Waves until of the groups from `begin` to `end` all, or without an order enough, are known."""
        width = 0
        while True:
            open_ = self._know(begin, end)
            if not len(open_) or (not self.ordered and self._enough(end)):
                return
            width = max(2 * width, self._needed, -(-LEAST // len(open_)))
            starts = self._next[open_]
            ends = np.minimum(starts + width, self.members.begins[open_ + 1])
            if self.members.runs is not None:
                ends = self.members.runs[ends - 1]
            self._next[open_] = ends
            chosen = np.unique(self.members.units[ranges(starts, ends)])
            chosen = chosen[~self.asked[chosen]]
            if len(chosen):
                self.asked[chosen] = True
                yield chosen

    def _know(self, begin: int, end: int) -> Ints:
        """Note what is known of groups; those that need more answers, and have more units."""
        first, last = self.members.begins[begin], self.members.begins[end]
        hits = self.matched[self.members.units[first:last]]
        if self.groups.ranked:
            # What another group has asked for counts once all before it is asked.
            hits &= np.arange(first, last) < self._next[self._of[first:last]]
        counts = np.bincount(self._of[first:last][hits] - begin, minlength=end - begin)
        settled = counts >= self._needed
        over = self._next[begin:end] == self.members.begins[begin + 1 : end + 1]
        self.qualified[begin:end] = over & ~settled if self.groups.absent else settled
        unknown: Ints = begin + np.flatnonzero(~settled & ~over)
        return unknown

    def write(self, statements: Statements) -> None:
        """Create the table of the groups that are known to be absent, where the step has one."""
        if not self.groups.table:
            return
        rows = np.flatnonzero(self.qualified)
        with statements.registered("covey_known", pa.table({"g": self.members.names.take(pa.array(rows))})):
            statements.run(f"CREATE TEMP TABLE {quoted(self.groups.table)} AS SELECT g FROM covey_known")


def ranges(begins: Ints, ends: Ints) -> Ints:
    """The numbers from each begin to its end, one range after another."""
    counts = ends - begins
    before = np.repeat(np.cumsum(counts) - counts, counts)
    numbers: Ints = np.arange(int(counts.sum())) - before + np.repeat(begins, counts)
    return numbers
