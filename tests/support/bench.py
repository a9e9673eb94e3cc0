"""A scheduler over a fake runner, stepped by hand; and orders on two columns: scans, programs of two asks, joins."""

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


def chain(rows: int, query: str = "chain") -> WorkOrder:
    """Two questions on each document, the second where the first one's answer is true."""
    slots = np.arange(rows, dtype=np.int32)
    asks = (Ask((Literal((1,)),), READOUT, 1), Ask((Literal((2,)),), READOUT))
    return WorkOrder(query, (HEAD, Anchor()), asks, (Argument("documents", slots),))


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
