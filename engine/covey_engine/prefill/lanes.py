"""A chunk goes in, parts of it that threads compute side by side come out; and the threads that do; torch-free.

Libraries that split every product among threads wait for the slowest at the end of each; threads that take whole rows
through a layer wait once a layer, and only for those whose keys they read. Keys stand before the rows that read them,
so the first never waits, and what one is slower by in some layer it can make up for in another.

How many rows a thread takes decides what they cost. In CPU time a row of 36, 72 or 132 took 1.6, 1.3 and 1.2 times that
of a row of 264 (a model 576 wide; more gained nothing), and every thread's calls of the interpreter, which only one at
a time may make, are the same for any number of rows. So chunks grow with the threads, and where a chunk is too small
for all of them, fewer lanes have several threads each.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.chunk import Chunk

CHUNK_TOKENS = 512
"""Tokens of a chunk for one thread."""
MOST_TOKENS = 4096
"""More tokens in a chunk make nothing faster, but an arena crowded."""
CHUNK_SECONDS = 3.0
"""About what a chunk may take: a short query waits for one or two of others."""
THREAD_RATE = 50e9
"""Floating-point operations a second that a thread does at least."""
LANE_ROWS = 128
"""Rows below which a lane is not worth its own thread."""

Part = TypeVar("Part")
Result = TypeVar("Result")


def chunk_tokens(threads: int, token_operations: float) -> int:
    """Tokens of a chunk that `threads` compute well and in time; token_operations: those of a token's products."""
    in_time = int(CHUNK_SECONDS * THREAD_RATE * threads / token_operations)
    return max(CHUNK_TOKENS, min(CHUNK_TOKENS * threads, MOST_TOKENS, in_time))


def lane_count(rows: int, threads: int) -> int:
    """How many lanes compute so many rows: as many as there are threads, or fewer that share them evenly."""
    most = max(1, min(threads, rows // LANE_ROWS))
    return next(count for count in range(most, 0, -1) if threads % count == 0)


def cut_chunk(chunk: Chunk, bounds: Sequence[int]) -> tuple[Chunk, ...]:
    """The rows before, between and behind ascending `bounds` as chunks of their own; bounds: none is 0 or the end.

    A part reads what other parts write: its contexts hold only after step (1) of all of them (see `Chunk`). A segment
    that a bound cuts attends to its beginning as to a context. Answers keep their order, by part.
    """
    ends = [0, *bounds, len(chunk)]
    return tuple(_between(chunk, first, stop) for first, stop in pairwise(ends))


def even_bounds(chunk: Chunk, count: int, row_keys: float) -> tuple[int, ...]:
    """Where to cut a chunk into `count` parts that cost alike; row_keys: what a row costs beside attention, in keys."""
    cost = np.cumsum(chunk.positions + 1 + row_keys)
    bounds = np.searchsorted(cost, cost[-1] * np.arange(1, count) / count)
    return tuple(np.unique(bounds[(bounds > 0) & (bounds < len(chunk))]).tolist())


def _between(chunk: Chunk, first: int, stop: int) -> Chunk:
    rows = slice(first, stop)
    segments, before = _clipped(chunk.segments, first, stop)
    contexts, _ = _clipped(chunk.contexts, first, stop)
    kept = segments[:, 1] > 0
    cut = kept & (before > 0)
    beginnings = np.column_stack([segments[cut][:, :3], before[cut]])
    segments[:, 2] += before
    return Chunk(
        tokens=chunk.tokens[rows],
        positions=chunk.positions[rows],
        kv_address=chunk.kv_address[rows],
        segments=segments[kept],
        contexts=np.concatenate([contexts[contexts[:, 1] > 0], beginnings]),
        answers=chunk.answers[(chunk.answers >= first) & (chunk.answers < stop)] - np.int32(first),
    )


def _clipped(spans: NDArray[np.int64], first: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Spans (first row, rows, …) cut to rows first..stop-1 and counted from there, and the rows each lost in front."""
    start = np.clip(spans[:, 0], first, stop)
    end = np.clip(spans[:, 0] + spans[:, 1], first, stop)
    found = spans.copy()
    found[:, 0], found[:, 1] = start - first, end - start
    return found, start - spans[:, 0]


def needs(parts: Sequence[Chunk]) -> tuple[tuple[int, ...], ...]:
    """Of every part, the other parts whose keys it reads."""
    written = [np.sort(part.kv_address) for part in parts]
    return tuple(
        tuple(other for other, address in enumerate(written) if other != number and _reads(part, address))
        for number, part in enumerate(parts)
    )


def _reads(part: Chunk, address: NDArray[np.int64]) -> bool:
    first, keys = part.contexts[:, 2], part.contexts[:, 3]
    return bool((np.searchsorted(address, first) < np.searchsorted(address, first + keys)).any())


class Lanes:
    """Threads that work side by side."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool = ThreadPoolExecutor(count, "prefill lane")

    def run(
        self,
        work: Callable[[Part, Callable[[], object]], Result],
        parts: Sequence[Part],
        needs: Sequence[Sequence[int]],
    ) -> list[Result]:
        """Results of work(part, step), one thread a part. Raises what one did.

        `step` returns once every part that this one needs, by number, has called it as often.
        """
        assert len(parts) <= self.count, "every part needs a thread, or others wait for it for ever"
        steps = _Steps(needs)

        def do(number: int) -> Result | None:
            try:
                return work(parts[number], lambda: steps.take(number))
            except _Abandoned:
                return None
            except BaseException as error:
                # Its frames would keep what the part has allocated.
                traceback.clear_frames(error.__traceback__)
                steps.fail(error)
                return None

        found = list(self._pool.map(do, range(len(parts))))
        steps.check()
        return [each for each in found if each is not None]


class _Abandoned(Exception):
    """Another part has failed."""


class _Steps:
    """How many steps each part has taken."""

    def __init__(self, needs: Sequence[Sequence[int]]) -> None:
        self._needs = needs
        self._taken = [0] * len(needs)
        self._failed: BaseException | None = None
        self._changed = threading.Condition()

    def take(self, part: int) -> None:
        """Take a step, then wait for those that the part needs."""
        with self._changed:
            self._taken[part] += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._failed is not None or self._ready(part))
            if self._failed is not None:
                raise _Abandoned

    def fail(self, error: BaseException) -> None:
        """Release all that wait, and those that come to wait."""
        with self._changed:
            self._failed = self._failed or error
            self._changed.notify_all()

    def check(self) -> None:
        """Raises the first failure."""
        if self._failed is not None:
            raise self._failed

    def _ready(self, part: int) -> bool:
        return all(self._taken[other] >= self._taken[part] for other in self._needs[part])
