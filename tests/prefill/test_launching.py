"""When chunks are planned: none beside the launch of one that the device waits for, the next while one runs."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import numpy as np
from covey_engine.prefill.api import Anchor, Argument, Ask, Literal, WorkOrder, YesNo
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.process.local import LocalEngine
from covey_engine.prefill.runner import Computed, Logits, Pending
from support.fake_runner import FakeRunner
from support.memory_column import MemoryColumn

CHUNK = 64
TEXTS = MemoryColumn([[n, *range(n % 5)] for n in range(100)])


class Watched(FakeRunner):
    """A device whose first chunk takes until another one is launched.

    planned: how many chunks were planned and not settled at the end of each launch.
    """

    def __init__(self) -> None:
        super().__init__(4096 + CHUNK, CHUNK)
        self.engine: LocalEngine
        self.planned: list[int] = []
        self.followed = threading.Event()

    def launch(self, chunk: Chunk) -> Pending:  # type: ignore[override]
        if self.planned:
            self.followed.set()
        # Whoever could plan beside this has the time to.
        time.sleep(0.05)
        self.planned.append(len(self.engine._core._scheduler._flights))
        computed = super().launch(chunk)
        return computed if len(self.planned) > 1 else _Late(computed, self.followed)


@dataclass
class _Late:
    """A chunk that is done once something has happened."""

    computed: Computed
    until: threading.Event

    def result(self) -> Logits:
        assert self.until.wait(60), "the next chunk comes while this one runs"
        return self.computed.result()

    def seconds(self) -> float:
        return self.computed.seconds()


def test_the_first_chunk_is_launched_before_the_next_is_planned() -> None:
    runner = Watched()
    runner.engine = LocalEngine(runner, {"texts": TEXTS}.__getitem__)
    ask = Ask((Literal((1,)),), YesNo((3,), (4,)))
    order = WorkOrder(
        "q", (Literal((9, 8)), Anchor()), (ask,), (Argument("texts", np.arange(100, dtype=np.int32)),)
    )
    answered = sum(len(answers.items) for answers in runner.engine.submit(order).answers())
    runner.engine.close()
    assert answered == 100
    assert runner.planned[0] == 1
    assert len(runner.planned) > 2
