"""Running jobs go in, a draft of the next chunk comes out: fair shares between users, and of each user the queries.

Every query, and its user, is charged for the tokens that its items are the first to ask for. The user who was served
least draws next, with the query of theirs that was served least, up to an equal share of the chunk; what one leaves,
the others take. So neither a query of many orders nor a user of many queries gets more than another; the orders of
one query are served in the order in which they came.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from covey_engine.prefill.scheduling.draw import Drawer
from covey_engine.prefill.scheduling.jobs import Job
from covey_engine.prefill.scheduling.offers import Draft

_SLICES = 4


@dataclass(eq=False)
class _Query:
    served: int
    jobs: list[Job] = field(default_factory=list)


@dataclass(eq=False)
class _User:
    served: int
    queries: dict[str, _Query] = field(default_factory=dict)


@dataclass(eq=False)
class _Turn:
    """A user while a chunk is composed: what they, and those of their queries that wait, were served so far."""

    served: int
    queries: dict[str, int]


class Shares:
    """The users with running queries, each query with its jobs, and what they were served."""

    def __init__(self) -> None:
        self._users: dict[str, _User] = {}

    def add(self, job: Job) -> None:
        """A job begins. A new user starts level with the one that was served least, and so does a new query."""
        order = job.prepared.order
        user = self._users.get(order.user)
        if user is None:
            least = min((user.served for user in self._users.values()), default=0)
            user = self._users[order.user] = _User(least)
        query = user.queries.get(order.query)
        if query is None:
            least = min((query.served for query in user.queries.values()), default=0)
            query = user.queries[order.query] = _Query(least)
        query.jobs.append(job)

    def remove(self, job: Job) -> None:
        """A job is over."""
        order = job.prepared.order
        user = self._users[order.user]
        user.queries[order.query].jobs.remove(job)
        if not user.queries[order.query].jobs:
            del user.queries[order.query]
        if not user.queries:
            del self._users[order.user]

    def charge(self, job: Job, tokens: int) -> None:
        """A chunk computes tokens for a job."""
        user = self._users[job.prepared.order.user]
        user.served += tokens
        user.queries[job.prepared.order.query].served += tokens

    def compose(self, draft: Draft, drawer: Drawer) -> None:
        """Fill a draft."""
        turns = {name: turn for name, user in self._users.items() if (turn := _turn(user)).queries}
        room = draft.room
        # A rest too small to be worth looking for what fits it stays empty.
        rest = room // 64
        while turns and draft.room > rest and draft.long is None and not (draft.alone and draft.batches):
            name = min(turns, key=lambda name: turns[name].served)
            turn = turns[name]
            chosen = min(turn.queries, key=turn.queries.__getitem__)
            alone = len(turns) == 1 and len(turn.queries) == 1
            share = max(room // len(turns) // len(turn.queries), room // _SLICES, 1)
            want = draft.room if alone else share
            got = self._draw(self._users[name].queries[chosen], draft, drawer, want)
            turn.served += got
            turn.queries[chosen] += got
            if got < want:
                del turn.queries[chosen]
                if not turn.queries:
                    del turns[name]

    def _draw(self, query: _Query, draft: Draft, drawer: Drawer, want: int) -> int:
        got = 0
        # Whose rows wait in the arena comes first; else the oldest.
        for job in sorted(query.jobs, key=lambda job: -job.opened.pairs):
            if got < want and job.waiting and not (draft.alone and draft.batches):
                got += drawer.draw(job, draft, want - got)
        return got


def _turn(user: _User) -> _Turn:
    waiting = {name: query for name, query in user.queries.items() if any(job.waiting for job in query.jobs)}
    return _Turn(user.served, {name: query.served for name, query in waiting.items()})
