"""A prepared order goes in; out comes the same order while it runs: its kinds and claims, and what is still to do."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.api import Ask, Figures
from covey_engine.prefill.scheduling.batches import Batch, Open
from covey_engine.prefill.scheduling.claims import Claim
from covey_engine.prefill.scheduling.compiled import Flags, Ints, kernel
from covey_engine.prefill.scheduling.ending import Ending, ending_of
from covey_engine.prefill.scheduling.groups import Groups
from covey_engine.prefill.scheduling.kinds import Kind, Kinds
from covey_engine.prefill.scheduling.paths import Path, PathBuilder
from covey_engine.prefill.scheduling.prepare import Prepared
from covey_engine.prefill.scheduling.scores import Scores
from covey_engine.prefill.scheduling.sides import Measure


@dataclass(eq=False)
class Job:
    """A running order.

    fresh: rows that nobody has taken yet, `left` of them; cursor: where the next search for them begins. opened: rows
    of a join of which some pairs are still to be taken; ready: items whose next ask is known, in batches. unsettled:
    items that are not done. to_come: an upper bound of the tokens to compute, as far as the order does not end early.
    ending: how it may; None for an order that is asked in full. since: the device's seconds before its first chunk.
    scores: of an ask for labels, what is known of its items.
    """

    ticket: int
    prepared: Prepared
    paths: tuple[Path, ...]
    claims: tuple[Claim, ...]
    kinds: tuple[Kind, ...]
    fresh: NDArray[np.bool_]
    left: int
    unsettled: int
    to_come: int
    key_level: int
    key_groups: Groups | None
    common: Measure
    ending: Ending | None
    scores: Scores | None
    cursor: int = 0
    opened: Open = field(default_factory=Open)
    ready: deque[Batch] = field(default_factory=deque)
    figures: Figures = field(default_factory=Figures)
    tokens_an_item: float = 1.0
    since: float | None = None

    @property
    def asks(self) -> tuple[Ask, ...]:
        """The order's decision program."""
        return self.prepared.order.asks

    @property
    def waiting(self) -> bool:
        """Whether it has something to put into a chunk."""
        return bool(self.ready or self.left or self.opened.pairs)

    @property
    def pairs_a_row(self) -> float:
        """How many pairs a row has on average, or in its first wave."""
        mean = max(1.0, self.prepared.order.items / max(1, self.prepared.order.anchor_count))
        waves = None if self.ending is None else self.ending.waves
        return mean if waves is None else min(mean, waves.width(self.left))

    def next_rows(self, most: int) -> Ints:
        """The next fresh rows, `most` at most; those after the cursor first."""
        return _next_fresh(self.fresh, self.cursor, min(most, self.left))

    def begin(self, rows: Ints) -> None:
        """Take fresh rows out."""
        self.fresh[rows] = False
        self.left -= len(rows)
        self.cursor = (int(rows[-1]) + 1) % len(self.fresh)
        self.to_come -= self.common.total(rows, None)
        if self.ending is not None:
            self.ending.begin(len(rows))

    def open(self, rows: Ints) -> None:
        """Take fresh rows out, to draw their pairs; in waves, only the first ones."""
        pairs = self.prepared.pairs
        assert pairs is not None
        self.begin(rows)
        if self.ending is None or self.ending.waves is None:
            self.opened.add(rows, pairs.begins[rows], pairs.ends[rows])
        else:
            self.ending.waves.open += len(rows)
            self.opened.add(rows, *self.ending.waves.begin(rows, self.left))

    def take(self, count: int) -> None:
        """Take the next pairs off."""
        self.opened.take(count)
        if self.ending is not None:
            self.ending.take(count)

    @property
    def allowed(self) -> int:
        """How many items (where it asks in waves, rows) may be begun before more answers are in."""
        return len(self.fresh) if self.ending is None else self.ending.allowed

    def batch_of(self, rows: Ints) -> Batch:
        """The first ask of a filter's rows."""
        original = self.prepared.original
        return Batch(self, 0, rows, None, rows if original is None else original[rows])

    def skip(self, ask: int, rows: Ints, partners: Ints | None) -> None:
        """These items need no more tokens for an ask."""
        self.to_come -= self.paths[ask].own.total(rows, partners)


@kernel
def _next_fresh(fresh: Flags, cursor: int, count: int) -> Ints:
    """The next `count` rows that are fresh, those after the cursor first; there are so many."""
    rows, found, row = np.empty(count, np.int64), 0, cursor
    while found < count:
        if fresh[row]:
            rows[found] = row
            found += 1
        row = row + 1 if row + 1 < len(fresh) else 0
    return rows


def open_job(ticket: int, prepared: Prepared, kinds: Kinds, chunk: int) -> Job:
    """Start a prepared order that has items: register its claims. chunk: tokens of one."""
    order = prepared.order
    rows = order.anchor_count
    fresh = np.ones(rows, np.bool_)
    weights = None if prepared.pairs is None else prepared.pairs.ends - prepared.pairs.begins
    if weights is not None:
        fresh &= weights > 0
    builder = PathBuilder(prepared, kinds, fresh, weights)
    paths = builder.paths()
    key_level, key_groups = _key(paths[0], prepared)
    job = Job(
        ticket,
        prepared,
        paths,
        tuple(builder.claims.values()),
        tuple(builder.acquired),
        fresh,
        int(fresh.sum()),
        order.items,
        prepared.to_come,
        key_level,
        key_groups,
        prepared.each,
        ending_of(prepared, chunk),
        None if prepared.trie is None else Scores(prepared.trie),
    )
    for claim in job.claims:
        claim.sure = job.ending is None
    if key_groups is not None:
        paths[0].steps[key_level].kind.keyed.append(job)
    return job


def close_job(job: Job) -> None:
    """Withdraw a job's claims; nodes that they alone kept are kept for nothing from now on."""
    for claim in job.claims:
        for kind in claim.kinds:
            kind.claims.remove(claim)
    if job.key_groups is not None:
        job.paths[0].steps[job.key_level].kind.keyed.remove(job)
    job.left = 0
    job.ready.clear()
    job.opened = Open()


def release_kinds(job: Job, kinds: Kinds) -> None:
    """Give a closed job's kinds back, once no node of theirs is kept for it."""
    for kind in reversed(job.kinds):
        kinds.release(kind)


def _key(path: Path, prepared: Prepared) -> tuple[int, Groups | None]:
    """The last anchor segment before the partner's, by which fresh rows of this order are found."""
    for level in reversed(range(path.fixed)):
        if path.steps[level].side is not None:
            groups = prepared.groups[path.arguments[level]]
            return level, groups if groups.neighbours else None
    return 0, None
