"""How full chunks are where several questions meet on each document: what questions share is counted once."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from covey_engine.prefill.api import Anchor, Argument, Ask, Literal, WorkOrder, YesNo
from covey_engine.prefill.scheduling.orders import Limits
from covey_engine.prefill.scheduling.scheduler import Scheduler
from support.fake_runner import FakeRunner
from support.memory_column import MemoryColumn

READOUT = YesNo((3,), (4,))
ARENA, CHUNK = 20_000, 5_000
ROWS = 3_000
COLUMN = MemoryColumn([[n, *range(10 + n % 13)] for n in range(ROWS)])
FIXED, MORE = Literal((5, 6, 7, 5, 6, 7)), Literal((8, 9, 8, 9))

SUFFIXES = {
    "one beginning": [(FIXED, Literal((n, 2))) for n in range(3)],
    "two of three begin alike for longer": [
        (FIXED, Literal((1, 2))),
        (FIXED, MORE, Literal((2, 2))),
        (FIXED, MORE, Literal((3, 2))),
    ],
    "nothing in common": [(Literal((n, 5, 6)),) for n in range(3)],
}


def questions(suffixes: list[tuple[Literal, ...]], queries: bool) -> list[WorkOrder]:
    """Three filters over the column: one order that asks all of them, or an order of its own for each."""
    everyone = (Argument("texts", np.arange(ROWS, dtype=np.int32)),)
    prefix = (Literal((1, 2, 3)), Anchor())
    if queries:
        asks = [Ask(suffix, READOUT) for suffix in suffixes]
        return [WorkOrder(f"q{n}", prefix, (ask,), everyone) for n, ask in enumerate(asks)]
    following = [*range(1, len(suffixes)), -1]
    program = tuple(Ask(suffix, READOUT, n, n) for suffix, n in zip(suffixes, following, strict=True))
    return [WorkOrder("q", prefix, program, everyone)]


def tokens_of(suffixes: list[tuple[Literal, ...]]) -> int:
    """Tokens of all prompts together, each beginning once."""
    begun = {begin for suffix in suffixes for begin in accumulate((part,) for part in suffix)}
    rest = sum(len(begin[-1].tokens) for begin in begun)
    return 3 + int(COLUMN.lengths.sum()) + ROWS * rest


@pytest.mark.parametrize("queries", [False, True], ids=["one order", "three queries"])
@pytest.mark.parametrize("suffixes", SUFFIXES.values(), ids=SUFFIXES)
def test_chunks_of_three_filters_are_full(suffixes: list[tuple[Literal, ...]], queries: bool) -> None:
    scheduler = Scheduler(Limits(ARENA, CHUNK, 1_000), {"texts": COLUMN}.__getitem__)
    runner = FakeRunner(ARENA, CHUNK)
    for order in questions(suffixes, queries):
        scheduler.submit(order)
    sizes: list[int] = []
    while scheduler.running:
        chunk = scheduler.schedule()
        assert chunk is not None
        sizes.append(len(chunk))
        runner.set_answer_tokens(*scheduler.head)
        scheduler.settle(runner.run(chunk))
    # All but the last, which takes what is left; the runner lets none be larger than the budget.
    assert np.mean(sizes[:-1]) >= 0.99 * CHUNK
    assert min(sizes[:-1]) >= CHUNK - 50
    assert sum(sizes) == tokens_of(suffixes)
