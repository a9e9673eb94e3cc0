"""Running jobs go in, a draft of the next chunk comes out: fair shares between queries, the oldest order of each first.

Every query is charged for the tokens that its items are the first to ask for. Whoever was served least draws next, up
to an equal share of the chunk; what one query leaves, the others take.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from covey_engine.prefill.scheduling.draw import Draft, Drawer
from covey_engine.prefill.scheduling.jobs import Job

_SLICES = 4


@dataclass(eq=False)
class _Query:
    jobs: list[Job] = field(default_factory=list)
    served: int = 0


class Shares:
    """The running queries, each with its jobs and what it was served."""

    def __init__(self) -> None:
        self._queries: dict[str, _Query] = {}

    def add(self, job: Job) -> None:
        """A job begins. A new query starts level with the one that was served least."""
        name = job.prepared.order.query
        query = self._queries.get(name)
        if query is None:
            served = min((query.served for query in self._queries.values()), default=0)
            query = self._queries[name] = _Query(served=served)
        query.jobs.append(job)

    def remove(self, job: Job) -> None:
        """A job is over."""
        name = job.prepared.order.query
        self._queries[name].jobs.remove(job)
        if not self._queries[name].jobs:
            del self._queries[name]

    def charge(self, job: Job, tokens: int) -> None:
        """A chunk computes tokens for a job."""
        self._queries[job.prepared.order.query].served += tokens

    def compose(self, draft: Draft, drawer: Drawer) -> None:
        """Fill a draft."""
        drawn = {name: query.served for name, query in self._queries.items() if _waits(query)}
        share = max(draft.room // max(1, len(drawn)), draft.room // _SLICES, 1)
        # A rest too small to be worth looking for what fits it stays empty.
        rest = draft.room // 64
        while drawn and draft.room > rest and draft.long is None:
            name = min(drawn, key=drawn.__getitem__)
            want = draft.room if len(drawn) == 1 else share
            got = self._draw(self._queries[name], draft, drawer, want)
            drawn[name] += got
            if got < want:
                del drawn[name]

    def _draw(self, query: _Query, draft: Draft, drawer: Drawer, want: int) -> int:
        got = 0
        # Whose rows wait in the arena comes first; else the oldest.
        for job in sorted(query.jobs, key=lambda job: -job.opened.pairs):
            if got < want and job.waiting:
                got += drawer.draw(job, draft, want - got)
        return got


def _waits(query: _Query) -> bool:
    return any(job.waiting for job in query.jobs)
