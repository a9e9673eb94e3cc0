"""Outcomes of an order's items go in; out comes what need not be asked any more, and how far to go meanwhile.

Two reasons end an order, or a part of it, before all is asked: an anchor's matches, and enough of them. Answers
are known about two chunks after their items were drawn, so both go forward in steps that grow: the pairs of a row in
waves, the items of an order that needs some matches as far as its share of matches so far promises.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from covey_engine.prefill.api import DONE, MATCH
from covey_engine.prefill.scheduling.batches import Batch, Open
from covey_engine.prefill.scheduling.groups import Ints
from covey_engine.prefill.scheduling.kinds import Kind
from covey_engine.prefill.scheduling.pairs import PairList
from covey_engine.prefill.scheduling.prepare import Prepared
from covey_engine.prefill.scheduling.tree import Tree

if TYPE_CHECKING:
    from covey_engine.prefill.scheduling.jobs import Job

_FIRST = 4
"""Pairs of a row's first wave where other rows fill the chunks; each later wave is twice as wide."""

_MODEST = 16
"""Items under way while nothing is known of how many match, unless more are needed anyway."""

_UNBOUNDED = 1 << 62


class Waves:
    """The pairs of each row, in waves: the next one begins when the outcome of all of one is known.

    By row: next: the first position that is in no wave yet; end: the position after its last; pending: pairs of its
    wave without outcome; count: waves so far; found: matches; settled: whether there are `each`. open: rows that have
    begun and are neither settled nor at their end. fill: how many pairs fill a chunk.
    """

    def __init__(self, pairs: PairList, fill: int, each: int) -> None:
        rows = len(pairs.begins)
        self.next = pairs.begins.copy()
        self.end = pairs.ends
        self.pending = np.zeros(rows, np.int64)
        self.count = np.zeros(rows, np.int64)
        self.found = np.zeros(rows, np.int64)
        self.settled = np.zeros(rows, np.bool_)
        self.each = each
        self.open = 0
        self.fill = fill

    def width(self, fresh: int) -> int:
        """How many pairs of each row are worth asking: more than a few only where few rows are to be asked about."""
        return max(_FIRST, self.each, -(-self.fill // max(1, self.open + fresh)))

    def begin(self, rows: Ints, fresh: int) -> tuple[Ints, Ints]:
        """The next wave of each row: its first position, and the one after its last. fresh: rows not begun yet."""
        begins = self.next[rows]
        width = np.maximum(self.width(fresh), _FIRST << np.minimum(self.count[rows], 40))
        ends = np.minimum(begins + width, self.end[rows])
        self.next[rows] = ends
        self.pending[rows] = ends - begins
        self.count[rows] += 1
        return begins, ends

    def settle(self, rows: Ints) -> Ints:
        """Take in matches, by their rows; the rows that they settle."""
        np.add.at(self.found, rows, 1)
        rows = np.unique(rows)
        rows = rows[~self.settled[rows] & (self.found[rows] >= self.each)]
        self.settled[rows] = True
        return rows


@dataclass(eq=False)
class Ending:
    """What an order that may end early has heard.

    waves: where an anchor's first match settles it. enough: matches that end the order, None for any number. undrawn:
    items in no chunk yet. Of rows in waves, else of items: begun, known: how many were taken up, and of how many the
    outcome is known; found: how many matched. newly: rows settled since the last `drop`. mean: tokens that an item's
    prompts have on average after what all asks begin with.
    """

    waves: Waves | None
    enough: int | None
    pairs: bool
    undrawn: int
    mean: float
    begun: int = 0
    known: int = 0
    found: int = 0
    newly: list[Ints] = field(default_factory=list)

    @property
    def over(self) -> bool:
        """Whether there are enough matches."""
        return self.enough is not None and self.found >= self.enough

    @property
    def allowed(self) -> int:
        """How many more rows in waves, else items, may be taken up before more is known."""
        if self.enough is None:
            return _UNBOUNDED
        missing = self.enough - self.found
        if missing <= 0:
            return 0
        promising = -(-missing * (self.known + 2) // (self.found + 1))
        return max(0, min(promising, max(_MODEST, missing, 2 * self.known)) - (self.begun - self.known))

    def begin(self, rows: int) -> None:
        """Fresh rows are taken up."""
        if not self.pairs:
            self.undrawn -= rows
        if not self.pairs or self.waves is not None:
            self.begun += rows

    def take(self, pairs: int) -> None:
        """Pairs go into a chunk."""
        self.undrawn -= pairs
        if self.waves is None:
            self.begun += pairs


def ending_of(prepared: Prepared, chunk: int) -> Ending | None:
    """How an order may end early; None for one that is asked in full. chunk: tokens of one."""
    order = prepared.order
    if not order.exists and order.enough is None:
        return None
    own = prepared.to_come - prepared.each.total(np.arange(order.anchor_count), None)
    mean = own / order.items
    waves = None
    if order.exists:
        assert prepared.pairs is not None
        waves = Waves(prepared.pairs, max(1, int(chunk / max(1.0, mean / len(order.asks)))), order.each)
    return Ending(waves, order.enough, prepared.pairs is not None, order.items, mean)


def heed(batch: Batch, following: Ints) -> Ints:
    """Take in where items go next; where they go in the light of that. Rows whose wave is over begin the next one."""
    job = batch.job
    ending, waves = job.ending, None if job.ending is None else job.ending.waves
    assert ending is not None
    matched = following == MATCH
    if waves is None:
        ending.found += int(matched.sum())
        following = np.minimum(following, DONE) if ending.over else following
        ending.known += int((following < 0).sum())
        return following
    settled = waves.settle(batch.rows[matched])
    ending.newly.append(settled)
    ending.found += len(settled)
    over = waves.settled[batch.rows] | ending.over
    following = np.where(over, np.minimum(following, DONE), following)
    rows = batch.rows[following < 0]
    np.subtract.at(waves.pending, rows, 1)
    rows = np.unique(rows)
    rows = rows[(waves.pending[rows] == 0) & ~waves.settled[rows]]
    more = waves.next[rows] < waves.end[rows]
    waves.open -= len(settled) + int((~more).sum())
    ending.known += len(settled) + int((~more).sum())
    if more.any() and not ending.over:
        # Their prefixes are in the arena: they go before rows that are opened anew.
        job.opened.add(rows[more], *waves.begin(rows[more], job.left), first=True)
    return following


def drop(job: Job, tree: Tree, let_go: list[Ints]) -> set[Kind]:
    """Take what need not be asked any more out of a job; kinds of which nodes may be free now.

    Items in chunks that are not settled yet are still answered. let_go: gets the nodes that items held.
    """
    ending = job.ending
    if ending is None or not (ending.over or any(map(len, ending.newly))):
        return set()
    withdrawn: set[Kind] = set()
    if ending.over:
        withdrawn.update(kind for claim in job.claims for kind in claim.kinds)
        _drop_ready(job, None, tree, let_go)
        job.fresh[:] = False
        job.left = job.to_come = 0
        job.opened = Open()
        job.unsettled -= ending.undrawn
        ending.undrawn = 0
    else:
        assert ending.waves is not None
        withdrawn = _drop_pairs(job, ending, ending.waves)
        withdrawn |= _drop_ready(job, ending.waves, tree, let_go)
    ending.newly.clear()
    return withdrawn


def _drop_pairs(job: Job, ending: Ending, waves: Waves) -> set[Kind]:
    """Drop the pairs of newly settled rows that were not drawn yet."""
    found: set[Kind] = set()
    rows = np.sort(np.concatenate(ending.newly))
    begins = waves.next[rows]
    gone = waves.settled[job.opened.rows]
    begins[rows.searchsorted(job.opened.rows[gone])] = job.opened.next[gone]
    job.opened.close(gone)
    counts = waves.end[rows] - begins
    waves.next[rows] = waves.end[rows]
    count = int(counts.sum())
    job.unsettled -= count
    ending.undrawn -= count
    job.to_come -= int(count * ending.mean)
    for claim in job.claims:
        if claim.before[0] and claim.drop(rows, counts):
            found.update(claim.kinds)
    return found


def _drop_ready(job: Job, waves: Waves | None, tree: Tree, let_go: list[Ints]) -> set[Kind]:
    """Drop the items that would go on; in waves only those of settled rows."""
    kept: list[Batch] = []
    found: set[Kind] = set()
    for batch in job.ready:
        gone = np.ones(len(batch), np.bool_) if waves is None else waves.settled[batch.rows]
        part = batch.part(gone)
        if len(part):
            if part.held is not None:
                tree.release(part.held, waiting=False)
                let_go.append(part.held)
            job.unsettled -= len(part)
            for ask in (batch.ask, *job.paths[batch.ask].after):
                job.skip(ask, part.rows, part.partners)
            for claim in job.claims:
                if claim.before[batch.ask] and claim.drop(part.rows):
                    found.update(claim.kinds)
        if len(part) < len(batch):
            kept.append(batch.part(~gone) if len(part) else batch)
    job.ready.clear()
    job.ready.extend(kept)
    return found
