"""A small chunk goes in, a batch of one of few shapes comes out, whose launches can be recorded and replayed.

A pass over few rows takes the host longer to launch, about 500 kernels, than the device to run. So small chunks
are padded to a size: rows with token 0 that write to a spare address and attend to nothing, pairs of no rows,
answers that repeat row 0; all keys are read in the arena, by one causal call and a call for each level of contexts.
What is recorded then serves every chunk that fits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.hopper.answers import answers_in, last_rows, spans_of
from covey_engine.prefill.hopper.batch import Batch, DeviceCall, DevicePlan
from covey_engine.prefill.hopper.forward import Decoder
from covey_engine.prefill.hopper.pairs import Ints, covered_rows, levels_of, simplify
from covey_engine.prefill.hopper.plan import Keys, coverage_of
from covey_engine.prefill.hopper.sizes import SMALL
from covey_engine.prefill.hopper.staging import StagingSlot
from covey_engine.prefill.kernels.attention import Ranges
from covey_engine.prefill.kernels.merge import MERGED

ROWS = [rows for rows in SMALL if rows <= 1024]
"""Rows of the sizes; more take the device as long as the host."""

LEVELS = (0, 1, MERGED - 1)
"""Numbers of levels of contexts that there are sizes for; with the causal call one merge takes them all."""


@dataclass(frozen=True, order=True)
class Size:
    """What a recorded pass has room for: rows, pairs of each call, answers; and its levels of contexts."""

    rows: int
    levels: int

    @property
    def pairs(self) -> int:
        """Pairs of one call, and answers: a size that the linear layers have kernels for."""
        return max(SMALL[0], self.rows // 4)


@dataclass(frozen=True, eq=False)
class SmallPlan:
    """A chunk as pairs int64 [n, 4] of one causal call and of a call for each level; spans as in ChunkPlan."""

    own: Ints
    levels: tuple[Ints, ...]
    spans: NDArray[np.int32]


def plan_small(chunk: Chunk, most: int) -> tuple[Size, SmallPlan] | None:
    """The smallest size of at most `most` rows that holds a chunk with ascending answers; None where none does."""
    if len(chunk) > min(ROWS[-1], most):
        return None
    own, contexts = simplify(chunk.segments[chunk.segments[:, 1] > 0], chunk.contexts)
    levels = tuple(levels_of(contexts))
    if len(levels) > LEVELS[-1]:
        return None
    size = Size(
        next(rows for rows in ROWS if len(chunk) <= rows),
        next(count for count in LEVELS if len(levels) <= count),
    )
    if (
        size.rows > most
        or max(len(own), len(chunk.answers), *(len(level) for level in levels), 0) > size.pairs
    ):
        return None
    return size, SmallPlan(own, levels, spans_of(chunk.answers.astype(np.int64), own, contexts))


class SmallPass:
    """The passes of one size: arrays at fixed places of the device, and the launches recorded at the first."""

    def __init__(
        self,
        size: Size,
        decoder: Decoder,
        spare: int,
        reach: int,
        device: torch.device,
        pool: Any = None,
    ) -> None:
        """spare: an arena address that nothing else uses; reach: a bound of the keys that a query sees.

        pool: device memory that the recordings of one runner, of which one runs at a time, may share.
        """
        self._size = size
        self._decoder = decoder
        self._spare = spare
        self._reach = reach
        self._device = device
        self._pool = pool
        self._slot = StagingSlot(device, 16 * size.rows + 64 * size.pairs)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._hidden: Tensor | None = None

    def forward(self, chunk: Chunk, plan: SmallPlan) -> tuple[Tensor, Tensor]:
        """Hidden states of the answers, and their spans on the device; both are overwritten by the next pass."""
        batch = self.stage(chunk, plan)
        answers = len(chunk.answers)
        if self._graph is not None:
            self._graph.replay()
            assert self._hidden is not None
            return self._hidden[:answers], batch.spans[:answers]
        hidden = self._decoder.forward(batch)
        if self._device.type == "cuda":
            self._record(batch)
        return hidden[:answers], batch.spans[:answers]

    def _record(self, batch: Batch) -> None:
        """Record a pass over the arrays where this batch lies; nothing is computed."""
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            graph.capture_begin(self._pool)
            self._hidden = self._decoder.forward(batch)
            graph.capture_end()
        torch.cuda.current_stream(self._device).wait_stream(stream)
        self._graph = graph

    def stage(self, chunk: Chunk, plan: SmallPlan) -> Batch:
        """Copy a chunk and its plan, padded, to this size's places on the device."""
        rows, pairs, levels = self._size.rows, self._size.pairs, self._size.levels
        answers = chunk.answers.astype(np.int64)
        empty: Ints = np.empty((0, 4), np.int64)
        given = [*plan.levels, *[empty] * (levels - len(plan.levels))]
        every = [plan.own, *given]
        answering = [last_rows(plan.own, answers), *(answers_in(level, answers) for level in given)]
        spans = np.zeros((pairs, 1 + levels, 2), np.int32)
        spans[: len(answers), : plan.spans.shape[1]] = plan.spans
        arrays = [
            _padded(chunk.tokens, rows, 0),
            _padded(chunk.positions, rows, 0),
            _padded(chunk.kv_address, rows, self._spare),
            np.full(rows, -1),
            _padded(answers, pairs, 0),
            _padded(chunk.positions[answers], pairs, 0),
            spans,
            np.ones(rows, np.int32),
            coverage_of([covered_rows(call, rows) for call in every], rows),
            coverage_of([covered_rows(call, pairs) for call in answering], pairs),
            *(column for call in (*every, *answering) for column in _columns(call, pairs)),
        ]
        views = self._slot.put(arrays)
        tokens, positions, address, none, answer_rows, answer_positions, spans_there, stored, *rest = views
        return Batch(
            rows=rows,
            answers=pairs,
            tokens=tokens,
            positions=positions,
            address=address,
            first=none,
            alone=none,
            answer_rows=answer_rows,
            answer_positions=answer_positions,
            spans=spans_there,
            packed=False,
            placed=none,
            stored=stored,
            copied=tokens[:0].view(2, 0),
            every=self._calls(rest[2 : 2 + 4 * len(every)], rest[0], rows, causal=True),
            answering=self._calls(rest[2 + 4 * len(every) :], rest[1], pairs, causal=False),
        )

    def _calls(self, columns: list[Tensor], coverage: Tensor, longest: int, causal: bool) -> DevicePlan:
        calls = []
        for index in range(0, len(columns), 4):
            query, rows, address, keys = columns[index : index + 4]
            ranges = Ranges(query, rows, address, keys, longest, self._reach, causal and index == 0)
            calls.append(DeviceCall(Keys.ARENA, ranges))
        return DevicePlan(tuple(calls), apart=False, coverages=(coverage,))


def _padded(values: NDArray[np.integer], size: int, filler: int) -> NDArray[np.integer]:
    padded = np.full(size, filler, np.int64)
    padded[: len(values)] = values
    return padded


def _columns(pairs: Ints, count: int) -> list[NDArray[np.integer]]:
    """Starts and lengths of queries and keys; pairs of no rows behind the others."""
    query, rows, address, keys = pairs.T
    # Starts carry one more element, which the attention kernels' interface asks for and never uses.
    return [
        _padded(query, count + 1, 0),
        _padded(rows, count, 0),
        _padded(address, count + 1, 0),
        _padded(keys, count, 0),
    ]
