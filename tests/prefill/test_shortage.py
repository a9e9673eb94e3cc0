"""What is left of a row that is not finite, and of a chunk for which there is no memory: nothing but an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from covey_engine.prefill.api import Anchor, Argument, Ask, Literal, Running, WorkOrder, YesNo
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.errors import OutOfDeviceMemory
from covey_engine.prefill.process.local import LocalEngine
from numpy.typing import NDArray
from support.fake_runner import FakeRunner, plain_margin
from support.memory_column import MemoryColumn

READOUT = YesNo((3,), (4,))
HUNGRY = 77
BAD = 13
CHUNK = 128
TEXTS = MemoryColumn([[n % 7, 20 + n, *range(n % 5)] for n in range(50)])
SPECIAL = MemoryColumn([[5], [6, HUNGRY], [7, BAD]])
COLUMNS = {"texts": TEXTS, "special": SPECIAL}


class Tight(FakeRunner):
    """A runner that has memory for so many tokens, and none for a prompt with the hungry one."""

    def __init__(self, error: type[Exception] = OutOfDeviceMemory) -> None:
        super().__init__(4096 + CHUNK, CHUNK)
        self.bad = frozenset({BAD})
        self.room = CHUNK
        self.error = error
        self.sizes: list[int] = []

    def run(self, chunk: Chunk) -> NDArray[np.float32]:
        self.sizes.append(len(chunk))
        if len(chunk) > self.room or HUNGRY in chunk.tokens.tolist():
            raise self.error("no memory is left")
        return super().run(chunk)


@contextmanager
def opened(runner: Tight) -> Iterator[LocalEngine]:
    """An engine that keeps nothing in the end, whatever happened."""
    engine = LocalEngine(runner, COLUMNS.__getitem__)
    yield engine
    engine.close()
    arena = engine._core._scheduler.arena
    assert arena.free == arena.total


def scan(column: str = "texts", query: str = "q", rows: tuple[int, ...] = tuple(range(50))) -> WorkOrder:
    asks = (
        Ask((Literal((1,)),), READOUT, on_true=1, on_false=1),
        Ask((Literal((2,)),), READOUT),
    )
    argument = Argument(column, np.array(rows, np.int32))
    return WorkOrder(query, (Literal((9, 8)), Anchor()), asks, (argument,))


def answered(running: Running) -> dict[tuple[int, int], float]:
    """Margins by ask and row, NaN for an error; every one once."""
    found: dict[tuple[int, int], float] = {}
    for answers in running.answers():
        assert np.isnan(answers.margins).all() == (answers.error is not None)
        for item, margin in zip(answers.items.tolist(), answers.margins.tolist(), strict=True):
            assert (answers.ask, item) not in found
            found[answers.ask, item] = margin
    return found


def expected(column: str = "texts", rows: tuple[int, ...] = tuple(range(50))) -> dict[tuple[int, int], float]:
    return {
        (ask, n): pytest.approx(
            plain_margin((9, 8, *COLUMNS[column].tokens(row), ask + 1), READOUT), abs=1e-5
        )
        for ask in (0, 1)
        for n, row in enumerate(rows)
    }


@pytest.mark.parametrize("error", [OutOfDeviceMemory, MemoryError])
def test_a_chunk_without_memory_is_tried_again_in_smaller_ones(error: type[Exception]) -> None:
    runner = Tight(error)
    runner.room = CHUNK // 4
    with opened(runner) as engine:
        assert answered(engine.submit(scan())) == expected()
    too_large = [size for size in runner.sizes if size > runner.room]
    # Two sizes were tried in vain; one more chunk was on its way each time.
    assert 2 <= len(too_large) <= 4
    assert max(too_large) > CHUNK // 2


def test_chunks_grow_back_when_no_order_runs_any_more() -> None:
    runner = Tight()
    runner.room = CHUNK // 4
    with opened(runner) as engine:
        answered(engine.submit(scan()))
        runner.room, runner.sizes = CHUNK, []
        assert answered(engine.submit(scan())) == expected()
    assert max(runner.sizes) > CHUNK // 2


@pytest.mark.parametrize("error", [OutOfDeviceMemory, MemoryError])
def test_an_order_that_never_finds_memory_fails_and_its_neighbours_are_answered(
    error: type[Exception],
) -> None:
    with opened(Tight(error)) as engine:
        neighbours = [engine.submit(scan(query=name)) for name in ("before", "same")]
        hungry = engine.submit(scan("special", "same", (0, 1)))
        neighbours.append(engine.submit(scan(query="after")))
        with pytest.raises(OutOfDeviceMemory, match="memory"):
            answered(hungry)
        for neighbour in neighbours:
            assert answered(neighbour) == expected()
        assert answered(engine.submit(scan())) == expected()


def test_of_a_prompt_that_is_not_finite_nothing_is_left_but_its_error() -> None:
    bad = WorkOrder(
        "bad",
        (Literal((9, 8)),),
        (Ask((Anchor(),), READOUT),),
        (Argument("special", np.array([0, 2], np.int32)),),
    )
    with opened(Tight()) as engine:
        neighbour, spoilt = engine.submit(scan()), engine.submit(bad)
        found = answered(spoilt)
        assert found[0, 0] == pytest.approx(plain_margin((9, 8, 5), READOUT), abs=1e-5)
        assert np.isnan(found[0, 1])
        assert answered(neighbour) == expected()
        assert answered(engine.submit(scan())) == expected()
