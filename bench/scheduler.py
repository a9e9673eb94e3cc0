"""CPU time of the host per chunk of 16,384 tokens: scheduling, packing, answers and their way, without a model.

    python bench/scheduler.py [--seconds S] [--rows N]

A runner that computes nothing stands in for the device, so what is left is the engine's own work, in one process on
one core: drawing, the prefix tree, the arena, fairness, packing, settling, and pickling each chunk's answers through a
socket and back, as they travel from the worker to the server.

    filters   two queries over one column of 300-token documents, a question of 12 tokens each
    and       one query with two questions on each of those documents, the second where the first is true
    join      anchors of 200 tokens, 20 to 1,000 partners each, suffixes of 5 to 12 tokens
    short     one filter over texts of 8 to 16 tokens
    traces    two queries over agent traces of 8 turns: 8 texts of 500 to 4,000 tokens, each the beginning of the next
"""

from __future__ import annotations

import argparse
import os
import resource
import socket
import time
from collections.abc import Callable

# One core for everything: numpy may not spread its work.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from covey_engine.prefill.api import (
    Anchor,
    Argument,
    Ask,
    Literal,
    Pairs,
    Partner,
    WorkOrder,
    YesNo,
)
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.process import wire
from covey_engine.prefill.process.messages import Reports
from covey_engine.prefill.scheduling.orders import Limits
from covey_engine.prefill.scheduling.scheduler import Scheduler
from covey_storage.ordering import Order, sort_texts, spans
from numpy.typing import NDArray

CHUNK = 16_384
ARENA = 900_000
READOUT = YesNo((1,), (2,))
RNG = np.random.default_rng(7)


class Texts:
    """Random texts of given lengths: a token column whose texts are all windows of one sequence."""

    def __init__(self, lengths: NDArray[np.int32]) -> None:
        self.lengths = lengths
        self._values = RNG.integers(0, 50_000, 1 << 16, dtype=np.int32)
        begins = np.arange(len(lengths)) * 131 % (len(self._values) - lengths)
        self.stretches = ((0, begins, self._values),)

    def __len__(self) -> int:
        return len(self.lengths)

    def tokens(self, slot: int) -> NDArray[np.int32]:
        """The token ids of one slot."""
        begin = int(self.stretches[0][1][slot])
        return self._values[begin : begin + self.lengths[slot]]

    def copy(
        self,
        slots: NDArray[np.int32],
        begins: NDArray[np.int64],
        lengths: NDArray[np.int64],
        out: NDArray[np.int32],
    ) -> None:
        """Copy a window of each slot's tokens to the beginning of `out`."""
        places = spans(self.stretches[0][1][slots] + begins, lengths)
        self._values.take(places, out=out[: len(places)], mode="clip")

    @property
    def order(self) -> Order:
        """They have nothing in common."""
        count = len(self.lengths)
        return Order(np.arange(count, dtype=np.int32), np.zeros(count, np.int32))

    def refresh(self) -> None:
        """Nothing is ever appended."""


class Turns(Texts):
    """Texts of which each eight are the beginnings of one."""

    def __init__(self, traces: int) -> None:
        super().__init__(np.tile(np.arange(500, 4_001, 500, dtype=np.int32), traces))
        begins = np.arange(8 * traces) // 8 * 1_009 % (len(self._values) - 4_000)
        self.stretches = ((0, begins, self._values),)

    @property
    def order(self) -> Order:
        """The real thing."""
        return sort_texts(self, np.arange(len(self), dtype=np.int32))


def question(n: int) -> Literal:
    return Literal(tuple(range(100 * n, 100 * n + 12)))


def everyone(folder: str, rows: int) -> tuple[Argument, ...]:
    return (Argument(folder, np.arange(rows, dtype=np.int32)),)


HEAD = Literal(tuple(range(24)))


def filters(rows: int) -> tuple[dict[str, Texts], list[WorkOrder]]:
    columns = {"documents": Texts(RNG.integers(250, 350, rows, dtype=np.int32))}
    orders = [
        WorkOrder(f"q{n}", (HEAD, Anchor()), (Ask((question(n),), READOUT),), everyone("documents", rows))
        for n in (1, 2)
    ]
    return columns, orders


def traces(rows: int) -> tuple[dict[str, Texts], list[WorkOrder]]:
    columns: dict[str, Texts] = {"turns": Turns(rows // 8)}
    orders = [
        WorkOrder(f"q{n}", (HEAD, Anchor()), (Ask((question(n),), READOUT),), everyone("turns", rows))
        for n in (1, 2)
    ]
    return columns, orders


def and_(rows: int) -> tuple[dict[str, Texts], list[WorkOrder]]:
    columns, _ = filters(rows)
    asks = (Ask((question(1),), READOUT, on_true=1), Ask((question(2),), READOUT))
    return columns, [WorkOrder("q", (HEAD, Anchor()), asks, everyone("documents", rows))]


def join(rows: int) -> tuple[dict[str, Texts], list[WorkOrder]]:
    partners = 50_000
    counts = RNG.integers(20, 1_000, max(1, rows // 500))
    columns = {
        "anchors": Texts(RNG.integers(150, 250, len(counts), dtype=np.int32)),
        "partners": Texts(RNG.integers(4, 12, partners, dtype=np.int32)),
    }
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    starts = RNG.integers(0, partners - 1_000, len(counts))
    indices = np.repeat(starts - offsets[:-1], counts) + np.arange(offsets[-1])
    pairs = Pairs(offsets, indices.astype(np.int32))
    asks = (Ask((question(1), Partner(), Literal((9,))), READOUT),)
    anchors, others = everyone("anchors", len(counts)), everyone("partners", partners)
    return columns, [WorkOrder("q", (HEAD, Anchor()), asks, anchors, others, pairs)]


def short(rows: int) -> tuple[dict[str, Texts], list[WorkOrder]]:
    columns = {"texts": Texts(RNG.integers(8, 17, rows, dtype=np.int32))}
    asks = (Ask((Literal((9, 9)),), READOUT),)
    return columns, [WorkOrder("q", (HEAD, Anchor()), asks, everyone("texts", rows))]


WORKLOADS: dict[str, tuple[Callable[[int], tuple[dict[str, Texts], list[WorkOrder]]], int]] = {
    "filters": (filters, 100_000),
    "and": (and_, 100_000),
    "join": (join, 10_000_000),
    "short": (short, 10_000_000),
    "traces": (traces, 8_000),
}


def fake_logits(chunk: Chunk) -> NDArray[np.float32]:
    """As many random numbers as there are answers."""
    return RNG.standard_normal((len(chunk.answers), 2), dtype=np.float32)


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def measure(name: str, seconds: float, rows: int | None) -> None:
    build, default = WORKLOADS[name]
    columns, orders = build(rows or default)
    scheduler = Scheduler(Limits(ARENA, CHUNK, 32_768), columns.__getitem__)
    begin = time.perf_counter()
    for order in orders:
        scheduler.submit(order)
    prepared = time.perf_counter() - begin
    ours, theirs = socket.socketpair()
    times: list[float] = []
    tokens, answers, memory = 0, 0, 0
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        begin = time.process_time()
        chunk = scheduler.schedule()
        middle = time.process_time()
        if chunk is None:
            break
        logits = fake_logits(chunk)
        after = time.process_time()
        reports = scheduler.settle(logits, 0.1)
        wire.send(ours, Reports(tuple(reports)))
        wire.receive(theirs)
        times.append(middle - begin + time.process_time() - after)
        tokens += len(chunk)
        answers += len(chunk.answers)
        if len(times) == 20:
            memory = resident_bytes()
    grown = (resident_bytes() - memory) / 2**20
    per_chunk = np.array(times) * 1e3
    print(
        f"{name:8} {len(times):6} chunks of {tokens / len(times):7.0f} tokens, {answers / len(times):6.0f} answers: "
        f"{np.percentile(per_chunk, 10):6.3f} ms p10, {np.median(per_chunk):6.3f} median, "
        f"{per_chunk.mean():6.3f} mean, {np.percentile(per_chunk, 99):6.3f} p99; "
        f"{sum(times) / tokens * CHUNK * 1e3:6.3f} ms per {CHUNK} tokens; prepared in {prepared:5.2f} s, "
        f"memory {grown:+.1f} MiB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=4.0, help="how long to run each workload")
    parser.add_argument("--rows", type=int, help="rows (pairs of a join) of each workload")
    parser.add_argument("workloads", nargs="*", choices=[*WORKLOADS, []], help="which to run (all)")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    for name in arguments.workloads or WORKLOADS:
        measure(name, arguments.seconds, arguments.rows)


if __name__ == "__main__":
    main()
