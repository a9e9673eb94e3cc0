"""Work orders go in, chunks come out, settled answers go back: decides what runs when; never touches torch.

The step is three verbs: `chunk = schedule()`, run it, `settle(logits, seconds)`. Chunks are settled in the order in
which they were scheduled; one may be scheduled while the one before it runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.api import Answers, Figures, Progress, WorkOrder
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.readout import Head, head_of
from covey_engine.prefill.scheduling.arena import Arena
from covey_engine.prefill.scheduling.batches import Batch
from covey_engine.prefill.scheduling.borders import follow
from covey_engine.prefill.scheduling.compiled import compile_kernels
from covey_engine.prefill.scheduling.conservation import check
from covey_engine.prefill.scheduling.draw import Drawer
from covey_engine.prefill.scheduling.eviction import make_room
from covey_engine.prefill.scheduling.flights import Flight, forget, launch, restore
from covey_engine.prefill.scheduling.jobs import Job, close_job, open_job, release_kinds
from covey_engine.prefill.scheduling.kinds import Kinds
from covey_engine.prefill.scheduling.margins import MarginReader
from covey_engine.prefill.scheduling.offers import Draft
from covey_engine.prefill.scheduling.orders import Columns, Limits, StoredColumn
from covey_engine.prefill.scheduling.parts import Parts, prepare_parts, release_parts, with_tokens
from covey_engine.prefill.scheduling.prefixes import Rule
from covey_engine.prefill.scheduling.prepare import Prepared, release
from covey_engine.prefill.scheduling.progress import report
from covey_engine.prefill.scheduling.reports import Report
from covey_engine.prefill.scheduling.savings import found_before
from covey_engine.prefill.scheduling.settling import land
from covey_engine.prefill.scheduling.shares import Shares
from covey_engine.prefill.scheduling.split import launch_part, remaining
from covey_engine.prefill.scheduling.tree import Tree

_SMALLEST = 16
"""The part of a whole chunk below which chunks do not shrink."""


class Scheduler:
    """The shared queue of all orders over one arena; not to be called from two threads at once, but for `prepare`."""

    def __init__(
        self, limits: Limits, open_column: Callable[[str], StoredColumn], rule: Rule | None = None
    ) -> None:
        assert limits.arena >= limits.chunk > 0
        compile_kernels()
        self.limits = limits
        # The first addresses are scratch: one for each row of a chunk.
        self.arena = Arena(limits.chunk, limits.arena - limits.chunk)
        self._tree = Tree(self.arena)
        self._columns = Columns(with_tokens(open_column), rule or Rule())
        self._kinds = Kinds()
        self._budget = limits.chunk
        self._alone = False
        self._drawer = Drawer(self._tree, self._budget)
        self._shares = Shares()
        # Jobs stay with their order until it is over, though it may have closed them.
        self._orders: dict[int, tuple[Job, ...]] = {}
        self._empty: list[tuple[int, Parts]] = []
        self._tickets = 0
        self._flights: deque[Flight] = deque()
        self._long: Batch | None = None
        self._seconds = 0.0
        self._readers: dict[Head, MarginReader] = {}
        self.head = Head()

    def prepare(self, order: WorkOrder) -> Parts:
        """Check an order and sort its rows; may run beside the other methods. Raises EngineError."""
        return prepare_parts(order, self._columns, self.limits)

    def admit(self, parts: Parts) -> int:
        """Queue a prepared order; its ticket."""
        self._tickets += 1
        if parts[0].order.items == 0 or parts[0].order.enough == 0:
            self._empty.append((self._tickets, parts))
            return self._tickets
        self._orders[self._tickets] = tuple(self._open(prepared) for prepared in parts)
        self._set_head()
        return self._tickets

    def submit(self, order: WorkOrder) -> int:
        """Prepare and queue an order. Raises EngineError where it can never run."""
        return self.admit(self.prepare(order))

    @property
    def running(self) -> tuple[int, ...]:
        """Tickets of the orders that are not over."""
        return (*self._orders, *(ticket for ticket, _ in self._empty))

    def cancel(self, ticket: int) -> None:
        """Forget an order; what it alone kept is free. Unknown tickets are ignored."""
        self._empty = [(other, parts) for other, parts in self._empty if other != ticket]
        for job in self._orders.pop(ticket, ()):
            if job.unsettled:
                self._drop(job)
        self._set_head()

    def _drop(self, job: Job) -> None:
        let_go = [batch.held for batch in job.ready if batch.held is not None]
        for held in let_go:
            self._tree.release(held, waiting=False)
        if self._long is not None and self._long.job is job:
            assert self._long.held is not None
            self._tree.release(self._long.held, waiting=False)
            let_go.append(self._long.held)
            self._long = None
        for flight in self._flights:
            let_go += forget(flight, job, self._tree)
        self._close(job, let_go)

    def finish_empty(self) -> list[Report]:
        """Reports of the orders without prompts, of which no chunk will ever speak."""
        empty, self._empty = self._empty, []
        for _, parts in empty:
            release_parts(parts, self._columns)
        return [Report(ticket, (), Figures(), Progress(0, 0, 0.0), True) for ticket, _ in empty]

    def schedule(self) -> Chunk | None:
        """The next chunk, or None where nothing can run before an answer or an order comes in."""
        flight = self._next_flight()
        if flight is None:
            return None
        self._flights.append(flight)
        for job, costs in flight.costs.items():
            self._shares.charge(job, costs.fresh_tokens)
        return flight.chunk

    def settle(self, logits: NDArray[np.float32], seconds: float = 0.0) -> list[Report]:
        """Take the logits of the oldest chunk that is not settled; what each of its orders hears of it."""
        flight = self._flights.popleft()
        if flight.head not in self._readers:
            self._readers[flight.head] = MarginReader(flight.head.tokens)
        found = land(flight, logits, self._readers[flight.head], self._tree)
        tokens = max(1, len(flight.chunk))
        answers: dict[int, list[Answers]] = {}
        before, self._seconds = self._seconds, self._seconds + seconds
        for job, costs in flight.costs.items():
            job.since = before if job.since is None else job.since
            job.figures = job.figures.plus(costs, seconds * costs.fresh_tokens / tokens)
            answers.setdefault(job.ticket, []).extend(found[job])
        over = [job for job in flight.costs if job.unsettled == 0]
        for job in over:
            self._close(job, [])
        reports = [
            report(ticket, self._orders[ticket], theirs, self._seconds) for ticket, theirs in answers.items()
        ]
        for each in reports:
            if each.finished:
                del self._orders[each.ticket]
        if over:
            self._set_head()
        return reports

    def fail(self) -> list[int]:
        """The oldest chunk could not run: drop its orders, and all KV; the dropped tickets.

        Chunks scheduled after it may have built on its KV: their items go back to where they were.
        """
        tickets = self._under_way()
        for ticket in tickets:
            self.cancel(ticket)
        self._land_nothing()
        self._alone = False
        return tickets

    def shrink(self) -> bool:
        """The oldest chunk found too little memory: drop all KV and try again, in chunks half as large.

        Where chunks are as small as they get, in chunks of one order each, so that no order fails for another one.
        False, with nothing done, where that was so. Chunks grow back when no order runs any more.
        """
        small = self._budget <= max(1, self.limits.chunk // _SMALLEST)
        if small and (self._alone or len(self._under_way()) == 1):
            return False
        self._land_nothing()
        if small:
            self._alone = True
        else:
            self._resize(self._budget // 2)
        return True

    def _under_way(self) -> list[int]:
        """Tickets of the orders in the oldest chunk."""
        return list(dict.fromkeys(job.ticket for job in self._flights[0].costs))

    def check(self) -> None:
        """Assert the law of conservation; for tests, after every step."""
        check(self._tree, self._kinds.each)

    def _land_nothing(self) -> None:
        """All items that are under way go back to where they were; all KV is dropped."""
        flights, self._flights = self._flights, deque()
        for flight in flights:
            restore(flight.batches)
            for batch in flight.batches:
                if batch.held is not None:
                    self._tree.release(batch.held, waiting=True)
                    self._tree.hold(batch.held, waiting=False)
                batch.job.ready.appendleft(batch)
        make_room(self._tree, self.arena.total, np.zeros(1, np.int64), self._holders())
        assert self.arena.free == self.arena.total

    def _resize(self, budget: int) -> None:
        self._budget = budget
        self._drawer = Drawer(self._tree, budget)

    def _next_flight(self) -> Flight | None:
        draft = self._draft()
        if draft is None:
            return self._launch_part()
        if draft.starved and not draft.batches and draft.long is None and not self._flights:
            # Nothing moves without memory: what is kept must give way.
            make_room(self._tree, self.arena.total // 2, np.zeros(1, np.int64), self._holders())
            draft = self._draft(force=True)
            assert draft is not None
        if draft.long is not None:
            self._begin_long(draft.long)
            return self._launch_part()
        return launch(draft.batches, self._tree, self.head) if draft.batches else None

    def _draft(self, force: bool = False) -> Draft | None:
        """What to compute next; None while a long prompt must go on before anything else."""
        draft = Draft(self._budget, self.arena.free, force, self._alone)
        if self._long is not None:
            left = remaining(self._long, self._tree)
            if left > self._budget:
                return None
            assert self._long.held is not None
            self._long.nodes = self._long.held
            follow(self._long, self._tree)
            draft.batches.append(self._long)
            draft.room -= max(left, 1)
            self._long = None
        self._shares.compose(draft, self._drawer)
        return draft

    def _begin_long(self, item: Batch) -> None:
        saved = found_before(item, self._tree)
        if saved:
            item.job.figures += Figures(prefix_tokens_saved=saved)
        self._tree.hold(item.nodes, waiting=False)
        if item.held is not None:
            self._tree.release(item.held, waiting=False)
            self._tree.prune(item.held)
        item.held, item.follows = item.nodes, False
        self._long = item

    def _launch_part(self) -> Flight:
        item = self._long
        assert item is not None
        assert item.held is not None
        tokens = min(self._budget, remaining(item, self._tree))
        make_room(self._tree, tokens, item.held, self._holders())
        return launch_part(item, tokens, self._tree, self.head)

    def _holders(self) -> Iterator[Batch]:
        """All items that may hold nodes."""
        for job in self._jobs():
            yield from job.ready
        for flight in self._flights:
            yield from flight.batches
        if self._long is not None:
            yield self._long

    def _jobs(self) -> Iterator[Job]:
        return (job for jobs in self._orders.values() for job in jobs if job.unsettled)

    def _open(self, prepared: Prepared) -> Job:
        job = open_job(self._tickets, prepared, self._kinds, self.limits.chunk)
        for claim in job.claims:
            self._tree.attach(claim)
        self._shares.add(job)
        return job

    def _close(self, job: Job, let_go: list[NDArray[np.int64]]) -> None:
        self._shares.remove(job)
        for claim in job.claims:
            self._tree.detach(claim)
        close_job(job)
        if let_go:
            self._tree.prune(np.concatenate(let_go))
        self._tree.sweep(job.kinds)
        release_kinds(job, self._kinds)
        release(job.prepared, self._columns)
        if next(self._jobs(), None) is None:
            self._alone = False
            if self._budget < self.limits.chunk:
                self._resize(self.limits.chunk)

    def _set_head(self) -> None:
        self.head = head_of(ask.readout for job in self._jobs() for ask in job.asks)
        if not self._flights:
            self._readers.clear()
