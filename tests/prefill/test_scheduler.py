"""The scheduler step by step over a fake runner: fairness, cancelling, sharing, and chunks that fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from covey_engine.prefill.api import Anchor, Argument, Ask, Figures, Literal, Partner, WorkOrder, YesNo
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.scheduling.orders import Limits
from covey_engine.prefill.scheduling.scheduler import Scheduler
from support.fake_runner import FakeRunner, plain_margin
from support.memory_column import MemoryColumn

READOUT = YesNo((3,), (4,))
HEAD = Literal((9, 8))
DOCUMENTS = MemoryColumn([[n % 7, n, *range(n % 5)] for n in range(2_000)])
OTHERS = MemoryColumn([[n, 50 + n % 3] for n in range(100)])
COLUMNS = {"documents": DOCUMENTS, "others": OTHERS}


@dataclass
class Bench:
    """A scheduler with its runner, and what it reported so far: margins and figures by ticket, tickets that ended."""

    arena: int = 4_000
    chunk: int = 100
    margins: dict[int, dict[tuple[int, int], float]] = field(default_factory=dict)
    figures: dict[int, Figures] = field(default_factory=dict)
    finished: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.runner = FakeRunner(self.arena, self.chunk)
        self.scheduler = Scheduler(Limits(self.arena, self.chunk, 1 << 20), COLUMNS.__getitem__)

    def submit(self, order: WorkOrder) -> int:
        ticket = self.scheduler.submit(order)
        self.margins[ticket] = {}
        return ticket

    def schedule(self) -> Chunk:
        chunk = self.scheduler.schedule()
        assert chunk is not None
        self.scheduler.check()
        return chunk

    def settle(self, chunk: Chunk) -> None:
        self.runner.set_answer_tokens(*self.scheduler.head)
        for report in self.scheduler.settle(self.runner.run(chunk)):
            for answers in report.answers:
                for item, margin in zip(answers.items.tolist(), answers.margins.tolist(), strict=True):
                    assert (answers.ask, item) not in self.margins[report.ticket], "answered twice"
                    self.margins[report.ticket][answers.ask, item] = margin
            self.figures[report.ticket] = report.figures
            if report.finished:
                self.finished.append(report.ticket)
        self.scheduler.check()

    def step(self) -> None:
        self.settle(self.schedule())

    def steps(self, done: Callable[[], bool], most: int = 10_000) -> int:
        """Step until something is true; how many chunks that took."""
        for count in range(most):
            if done():
                return count
            self.step()
        raise AssertionError(f"not there after {most} chunks")

    def run(self) -> None:
        """Step to the end; then nothing may be kept."""
        self.steps(lambda: not self.scheduler.running)
        assert self.scheduler.schedule() is None
        self.clean()

    def clean(self) -> None:
        self.scheduler.check()
        assert self.scheduler.arena.free == self.scheduler.arena.total


def scan(rows: int, question: int = 1, query: str = "scan", begin: int = 0) -> WorkOrder:
    slots = np.arange(begin, begin + rows, dtype=np.int32)
    ask = Ask((Literal((question, 2)),), READOUT)
    return WorkOrder(query, (HEAD, Anchor()), (ask,), (Argument("documents", slots),))


def both(rows: int, query: str = "both") -> WorkOrder:
    """Two questions on each document, the second whatever the first one's answer."""
    slots = np.arange(rows, dtype=np.int32)
    asks = (Ask((Literal((1,)),), READOUT, 1, 1), Ask((Literal((2,)),), READOUT))
    return WorkOrder(query, (HEAD, Anchor()), asks, (Argument("documents", slots),))


def join(anchors: int, partners: int, query: str = "join") -> WorkOrder:
    ask = Ask((Partner(), Literal((5,))), READOUT)
    ours = Argument("documents", np.arange(anchors, dtype=np.int32))
    theirs = Argument("others", np.arange(partners, dtype=np.int32))
    return WorkOrder(query, (HEAD, Anchor()), (ask,), (ours,), (theirs,))


def document(slot: int) -> tuple[int, ...]:
    return (*HEAD.tokens, *DOCUMENTS.tokens(slot).tolist())


def expected(rows: int, question: int = 1, begin: int = 0) -> dict[tuple[int, int], float]:
    return {
        (0, n): pytest.approx(plain_margin((*document(begin + n), question, 2), READOUT), abs=1e-5)
        for n in range(rows)
    }


def tokens_of(rows: int) -> int:
    return int(DOCUMENTS.lengths[:rows].sum())


def test_a_small_query_behind_a_huge_scan_is_answered_within_a_few_chunks() -> None:
    bench = Bench()
    huge = bench.submit(scan(2_000))
    for _ in range(3):
        bench.step()
    small = bench.submit(scan(50, question=6, query="small", begin=1_900))
    # 50 prompts of at most 9 tokens: 5 chunks alone, twice as many at half of each chunk.
    assert bench.steps(lambda: small in bench.finished) <= 11
    assert bench.margins[small] == expected(50, 6, 1_900)
    assert 0 < len(bench.margins[huge]) < 2_000
    assert huge not in bench.finished
    bench.run()
    assert bench.margins[huge] == expected(2_000)


def test_small_queries_one_after_another_do_not_hold_up_a_huge_scan() -> None:
    bench = Bench()
    huge = bench.submit(scan(2_000))
    for n in range(5):
        before = len(bench.margins[huge])
        small = bench.submit(scan(50, question=5, query=f"small {n}", begin=1_000 + 50 * n))
        bench.steps(lambda small=small: small in bench.finished)  # type: ignore[misc]
        assert len(bench.margins[huge]) >= before + 40
    bench.run()
    assert bench.margins[huge] == expected(2_000)


def test_two_orders_of_one_query_share_what_it_may_use() -> None:
    bench = Bench()
    first, second = bench.submit(scan(400)), bench.submit(scan(400, question=3, begin=400))
    other = bench.submit(scan(400, question=4, query="other", begin=800))
    for _ in range(10):
        bench.step()
    ours = bench.figures[first].fresh_tokens + (
        bench.figures[second].fresh_tokens if second in bench.figures else 0
    )
    assert ours == pytest.approx(bench.figures[other].fresh_tokens, abs=bench.chunk)
    bench.run()
    assert sorted(bench.finished) == [first, second, other]


@pytest.mark.parametrize("order", [scan(2_000), both(2_000), join(200, 100)], ids=["filter", "and", "join"])
@pytest.mark.parametrize("ahead", [0, 1, 2])
def test_a_cancelled_order_frees_everything_within_two_chunks(order: WorkOrder, ahead: int) -> None:
    bench = Bench()
    ticket = bench.submit(order)
    for _ in range(4):
        bench.step()
    chunks = [bench.schedule() for _ in range(ahead)]
    bench.scheduler.cancel(ticket)
    bench.scheduler.check()
    assert bench.scheduler.running == ()
    heard = len(bench.margins[ticket])
    for chunk in chunks:
        bench.settle(chunk)
    bench.clean()
    assert bench.scheduler.schedule() is None
    assert len(bench.margins[ticket]) == heard
    bench.scheduler.cancel(ticket)


def test_a_cancelled_order_leaves_what_its_neighbour_uses() -> None:
    bench = Bench()
    gone, stays = bench.submit(both(300, "gone")), bench.submit(scan(300, question=4, query="stays"))
    for _ in range(3):
        bench.step()
    chunk = bench.schedule()
    bench.scheduler.cancel(gone)
    bench.settle(chunk)
    bench.run()
    assert bench.margins[stays] == expected(300, 4)
    assert bench.finished == [stays]


def test_orders_on_one_column_share_its_documents() -> None:
    bench = Bench(arena=40_000)
    tickets = [bench.submit(scan(300, question=n, query=str(n))) for n in (1, 4)]
    bench.run()
    for ticket, question in zip(tickets, (1, 4), strict=True):
        assert bench.margins[ticket] == expected(300, question)
    # The head once, each document once, and two tokens for each of two questions.
    assert bench.runner.embedded == len(HEAD.tokens) + tokens_of(300) + 2 * 300 * 2
    total = bench.figures[tickets[0]] + bench.figures[tickets[1]]
    assert total.fresh_tokens == bench.runner.embedded
    assert total.prompt_tokens == 2 * (300 * (len(HEAD.tokens) + 2) + tokens_of(300))
    assert total.recomputed_tokens == 0


def test_a_filter_and_a_join_share_their_documents() -> None:
    bench = Bench(arena=40_000)
    bench.submit(scan(40, query="filter"))
    bench.submit(join(40, 10))
    bench.run()
    assert bench.runner.embedded == len(HEAD.tokens) + tokens_of(40) + 40 * 2 + 40 * 10 * 3


def test_documents_are_gone_once_no_order_wants_them() -> None:
    bench = Bench(arena=40_000)
    for question in (1, 4):
        bench.submit(scan(100, question=question))
        bench.run()
    assert bench.runner.embedded == 2 * (len(HEAD.tokens) + tokens_of(100) + 100 * 2)


@pytest.mark.parametrize("ahead", [1, 2])
def test_a_failed_chunk_drops_its_orders_and_leaves_the_arena_clean(ahead: int) -> None:
    bench = Bench()
    failed = [bench.submit(both(200)), bench.submit(scan(200, query="scan"))]
    for _ in range(3):
        bench.step()
    for _ in range(ahead):
        bench.schedule()
    dropped = bench.scheduler.fail()
    assert set(dropped) <= set(failed)
    assert dropped
    bench.clean()
    assert bench.scheduler.running == tuple(ticket for ticket in failed if ticket not in dropped)
    bench.runner.forget([0], [bench.arena])
    later = bench.submit(scan(100, question=7, query="later"))
    bench.run()
    assert bench.margins[later] == expected(100, 7)


def test_an_order_that_was_planned_after_the_failed_chunk_is_answered_in_full() -> None:
    bench = Bench()
    first = bench.submit(scan(10))
    doomed = bench.schedule()
    assert len(doomed) < bench.chunk
    spared = bench.submit(both(200, "spared"))
    bench.schedule()
    assert bench.scheduler.fail() == [first]
    bench.clean()
    # What was computed for the failed chunk cannot be read any more.
    bench.runner.forget([0], [bench.arena])
    bench.run()
    assert bench.finished == [spared]
    assert set(bench.margins[spared]) == {(ask, n) for ask in (0, 1) for n in range(200)}
    for ask in (0, 1):
        for n in range(200):
            margin = plain_margin((*document(n), ask + 1), READOUT)
            assert bench.margins[spared][ask, n] == pytest.approx(margin, abs=1e-5)
