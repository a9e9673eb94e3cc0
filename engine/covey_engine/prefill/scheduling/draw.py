"""A job and the room left in a chunk go in; out come the items to compute next, as batches whose cost fits the room.

Within a job, items whose prefix is in the arena come first: those that go on with their next ask, then pairs of rows
that are open, then fresh rows. A fresh row brings along what other jobs want of the same row.
"""

from __future__ import annotations

import numpy as np

from covey_engine.prefill.scheduling.batches import Batch
from covey_engine.prefill.scheduling.compiled import Flags, Ints, IntsOut, kernel
from covey_engine.prefill.scheduling.jobs import Job
from covey_engine.prefill.scheduling.offers import Draft, Meeting, Offer, make_offer
from covey_engine.prefill.scheduling.paths import Path, path_alike
from covey_engine.prefill.scheduling.tree import Tree

_NONE = np.empty(0, np.int64)


class Drawer:
    """Draws items of jobs for chunks of `chunk` tokens."""

    def __init__(self, tree: Tree, chunk: int) -> None:
        self._tree = tree
        self._chunk = chunk

    def draw(self, job: Job, draft: Draft, want: int) -> int:
        """Add items of a job worth about `want` tokens to the draft; the tokens they cost."""
        before = draft.room
        moved = True
        while moved and job.waiting and draft.long is None and before - draft.room < want:
            left = min(draft.room, want - (before - draft.room))
            if left <= 0:
                break
            if job.ready:
                moved = self._draw_ready(job, draft, left)
            elif job.prepared.pairs is not None:
                moved = self._draw_pairs(job, draft, left)
            else:
                moved = self._draw_rows(job, draft, left)
        return before - draft.room

    # Each of these takes items; False where the next one does not fit.

    def _draw_ready(self, job: Job, draft: Draft, want: int) -> bool:
        whole = job.ready[0]
        most = _most(job, want)
        offer = make_offer(self._tree, whole.part(slice(most)))
        count = offer.fitting(draft, want)
        long = count == 0 and self._long(offer, draft)
        if count or long:
            rest = whole.part(slice(max(count, 1), None))
            if len(rest):
                job.ready[0] = rest
            else:
                job.ready.popleft()
        if count:
            self._take(offer, draft, count)
        return count == len(offer.batch)

    def _draw_pairs(self, job: Job, draft: Draft, want: int) -> bool:
        pairs = job.prepared.pairs
        assert pairs is not None
        most = _most(job, want)
        waves = None if job.ending is None else job.ending.waves
        if job.ending is not None and waves is None:
            most = min(most, job.allowed)
        while job.left and job.opened.pairs < most and job.allowed:
            count = 1 + int((most - job.opened.pairs) / job.pairs_a_row)
            job.open(job.next_rows(min(count, job.allowed)))
        if not min(most, job.opened.pairs):
            return False
        rows, positions = job.opened.head(most)
        partners = pairs.partner(positions)
        offer = make_offer(self._tree, Batch(job, 0, rows, partners, pairs.item(positions, partners)))
        count = offer.fitting(draft, want)
        if count == 0:
            if self._long(offer, draft):
                job.take(1)
            return False
        job.take(count)
        self._take(offer, draft, count)
        rivals = [] if draft.alone else _rivals(job)
        if rivals:
            begun = rows[:count][positions[:count] == pairs.begins[rows[:count]]]
            for meeting in self._meetings(job, begun, rivals, certain=False):
                self._join(meeting, draft, len(begun))
        return count == len(offer.batch)

    def _draw_rows(self, job: Job, draft: Draft, want: int) -> bool:
        rows = job.next_rows(min(_most(job, want), job.allowed))
        if len(rows) == 0:
            return False
        offer = make_offer(self._tree, job.batch_of(rows))
        alike = job.prepared.shared_with_neighbour(rows)
        if alike is not None:
            offer.costs = np.minimum(offer.costs, np.maximum(offer.lengths - alike, 1))
        meetings = self._meetings(job, rows, [] if draft.alone else _rivals(job), certain=True)
        own = offer.costs
        if meetings:
            offer.costs = own.copy()
            for meeting in meetings:
                _add_at(offer.costs, meeting.drivers, meeting.offer.costs)
        count = offer.fitting(draft, want)
        if count == 0 and meetings:
            # Too much to come all at once: the others find the row in the arena later.
            offer.costs, meetings = own, []
            count = offer.fitting(draft, want)
        if count == 0:
            if self._long(offer, draft):
                job.begin(rows[:1])
            return False
        job.begin(rows[:count])
        offer.costs = own
        self._take(offer, draft, count)
        for meeting in meetings:
            self._join(meeting, draft, count)
        return count == len(rows)

    def _take(self, offer: Offer, draft: Draft, count: int) -> None:
        tokens = int(offer.costs[:count].sum())
        job = offer.batch.job
        job.tokens_an_item += 0.5 * (tokens / count - job.tokens_an_item)
        draft.batches.append(offer.batch.part(slice(count)))
        draft.room -= tokens
        if offer.kept is not None:
            draft.memory -= int(offer.kept[:count].sum())

    def _long(self, offer: Offer, draft: Draft) -> bool:
        """Whether the first item's prompt is longer than a whole chunk; if so, it is the draft's long one."""
        if draft.batches or offer.costs[0] <= self._chunk:
            return False
        draft.long = offer.batch.part(slice(1))
        return True

    def _meetings(self, job: Job, rows: Ints, rivals: list[tuple[int, Job]], certain: bool) -> list[Meeting]:
        """What other jobs still want of the same anchors.

        certain: whether all that meets a row comes with it, so that one may count on what the others compute.
        """
        found: list[Meeting] = []
        for level, other in rivals if len(rows) else ():
            meeting = self._meet(job, rows, level, other)
            if meeting is not None:
                self._share(meeting, job, rows, found if certain else [])
                found.append(meeting)
        return found

    def _meet(self, job: Job, rows: Ints, level: int, other: Job) -> Meeting | None:
        columns = [job.prepared.anchors[n].slots[rows] for n in job.paths[0].arguments[level]]
        assert other.key_groups is not None
        groups, starts = other.key_groups.find(columns), other.key_groups.starts
        drivers, theirs, ascend = _fresh_rows(groups, _NONE if starts is None else starts, other.fresh)
        if len(theirs) == 0:
            return None
        if not ascend:
            theirs, first = np.unique(theirs, return_index=True)
            drivers = drivers[first]
        theirs, drivers = theirs[: other.allowed], drivers[: other.allowed]
        if len(theirs) == 0:
            return None
        if other.prepared.pairs is not None:
            nothing = np.zeros(len(theirs), np.int64)
            return Meeting(Offer(Batch(other, 0, theirs, None, theirs), nothing, nothing, None), drivers)
        return Meeting(make_offer(self._tree, other.batch_of(theirs)), drivers)

    def _share(self, meeting: Meeting, job: Job, rows: Ints, others: list[Meeting]) -> None:
        """Leave out of a meeting's costs what its prompts begin with like the rows', and like others that meet them."""
        offer, drivers = meeting.offer, meeting.drivers
        theirs = offer.batch.job
        if theirs.prepared.pairs is not None:
            return
        path = job.paths[0]
        alike = _alike(path, theirs.paths[0])
        shared = path.until(alike).lengths(rows[drivers], None)
        for other in others:
            more = _alike(other.offer.batch.job.paths[0], theirs.paths[0])
            if more > alike and other.offer.batch.job.prepared.pairs is None:
                there = np.isin(drivers, other.drivers)
                lengths = theirs.paths[0].until(more).lengths(offer.batch.rows, None)
                shared = np.where(there, np.maximum(shared, lengths), shared)
        _lower(offer.costs, offer.lengths, shared)

    def _join(self, meeting: Meeting, draft: Draft, count: int) -> None:
        """Take in what meets the first `count` rows, as far as there is room."""
        offer = meeting.offer
        job = offer.batch.job
        chosen, tokens = _chosen(meeting.drivers, offer.costs, count, draft.room)
        if len(chosen) == 0:
            return
        batch = offer.batch if len(chosen) == len(offer.batch) else offer.batch.part(chosen)
        if job.prepared.pairs is not None:
            job.open(batch.rows)
            return
        job.begin(batch.rows)
        draft.batches.append(batch)
        draft.room -= tokens
        if offer.kept is not None:
            draft.memory -= int(offer.kept[chosen].sum())


def _rivals(job: Job) -> list[tuple[int, Job]]:
    """Other jobs whose fresh rows begin as this one's do, and with which of its steps these are found."""
    path = job.paths[0]
    return [
        (level, other)
        for level in range(path.fixed)
        for other in path.steps[level].kind.keyed
        if other is not job and other.left
    ]


def _alike(path: Path, other: Path) -> int:
    """With how many segments of one kind two paths begin, none of them a partner's."""
    return min(path_alike(path, other), path.fixed, other.fixed)


def _most(job: Job, want: int) -> int:
    """How many items to look at for a number of tokens: a few more than will fit."""
    return min(want, int(1.1 * want / job.tokens_an_item) + 8)


@kernel
def _add_at(sums: IntsOut, places: Ints, values: Ints) -> None:
    """Add each value at its place."""
    for n in range(len(places)):
        sums[places[n]] += values[n]


@kernel
def _lower(costs: IntsOut, lengths: Ints, shared: Ints) -> None:
    """Lower the costs of prompts to what is not shared of them, a token at least."""
    for n in range(len(costs)):
        costs[n] = min(costs[n], max(lengths[n] - shared[n], 1))


@kernel
def _chosen(drivers: Ints, costs: Ints, count: int, room: int) -> tuple[Ints, int]:
    """Which items meet the first `count` rows and fit into the room with all before them; what they cost."""
    found, chosen, total, tokens = np.empty(len(costs), np.int64), 0, 0, 0
    for n in range(len(costs)):
        total += costs[n]
        if total <= room and drivers[n] < count:
            found[chosen] = n
            chosen += 1
            tokens += costs[n]
    return found[:chosen], tokens


@kernel
def _fresh_rows(groups: Ints, starts: Ints, fresh: Flags) -> tuple[Ints, Ints, bool]:
    """The fresh rows of groups (-1: none): of which one each is, the rows, and whether these ascend.

    starts: each group's first row; empty where every row is a group of its own.
    """
    count, last = 0, len(starts) - 1
    for group in groups:
        if group >= 0:
            count += 1 if last < 0 else (starts[group + 1] if group < last else len(fresh)) - starts[group]
    drivers, rows, found, ascend = np.empty(count, np.int64), np.empty(count, np.int64), 0, True
    for n in range(len(groups)):
        group = groups[n]
        if group < 0:
            continue
        begin = group if last < 0 else starts[group]
        end = group + 1 if last < 0 else starts[group + 1] if group < last else len(fresh)
        for row in range(begin, end):
            if fresh[row]:
                ascend = ascend and (found == 0 or rows[found - 1] < row)
                drivers[found], rows[found] = n, row
                found += 1
    return drivers[:found], rows[:found], ascend
