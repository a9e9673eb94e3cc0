"""A chunk goes in, the answer tokens' logits come out, by torch on any device; never decides what runs when.

float32 by default on a CPU: this runner is the oracle that faster ones are compared with.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from covey_engine.prefill.api import EngineInfo
from covey_engine.prefill.attention import Arena, ChunkAttention
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.errors import EngineError, OutOfDeviceMemory
from covey_engine.prefill.lanes import Lanes, cut_chunk, even_bounds, lane_count, needs
from covey_engine.prefill.models.head import CutHead
from covey_engine.prefill.models.model import Model
from covey_engine.prefill.plan import plan_chunk
from covey_engine.prefill.runner import Computed

_Found = tuple[NDArray[np.float32], NDArray[np.bool_] | None]
"""Logits of a part's answers, and which of its rows were not finite."""


class ReferenceRunner:
    """A model on a device with its KV arena; `info` says what it was set up with."""

    def __init__(self, model: Model, arena: Arena, info: EngineInfo, threads: int = 1) -> None:
        """threads: how many compute a chunk side by side; more than one only on a CPU."""
        self.info = info
        self._lanes = Lanes(threads) if threads > 1 else None
        self._model = model
        self._arena = arena
        self._device = arena.kv.device
        self._head: CutHead | None = None

    @property
    def arena_tokens(self) -> int:
        """Token positions of the KV arena."""
        return len(self._arena)

    def set_answer_tokens(self, ids: tuple[int, ...], normalizer: bool = False) -> None:
        """Cut the output head to these token ids; `run` returns logits in this order. Raises EngineError.

        normalizer: one more column, the log-sum-exp of the logits of all tokens.
        """
        self._check_tokens(np.array(ids, np.int64))
        self._head = CutHead.of(self._model.vocabulary.head, ids, normalizer)

    def launch(self, chunk: Chunk) -> Computed:
        """Run a chunk. Raises EngineError."""
        return Computed.by(self.run, chunk)

    def run(self, chunk: Chunk) -> NDArray[np.float32]:
        """One forward pass: logits [len(chunk.answers), len(answer tokens)] and the normalizer.

        An answer whose prompt was not finite somewhere, or cannot be told, is a row of NaN; others are
        untouched.
        """
        self._check_tokens(chunk.tokens)
        try:
            return self._run(chunk)
        except (RuntimeError, MemoryError) as error:
            if not _lacks_memory(error):
                raise
            reason = str(error).partition("\n")[0]
        # Raised out here: with the error before it would live its traceback, and with that the pass's tensors.
        raise OutOfDeviceMemory(f"a chunk of {len(chunk)} tokens does not fit on {self._device} ({reason})")

    def _run(self, chunk: Chunk) -> NDArray[np.float32]:
        lanes = self._lanes
        count = 1 if lanes is None else lane_count(len(chunk), lanes.count)
        parts: tuple[Chunk, ...] = (chunk,)
        if lanes is None:
            found = [self._pass(chunk)]
        elif count == 1:
            found = [self._lane(lanes.count, chunk)]
        else:
            parts = cut_chunk(chunk, even_bounds(chunk, count, self._row_keys))
            found = lanes.run(partial(self._lane, lanes.count // count), parts, needs(parts))
        for part, (_, bad) in zip(parts, found, strict=True):
            self._arena.settle(part.kv_address, bad)
        by_part = np.concatenate([logits for logits, _ in found])
        # Parts follow each other in rows; within one, answers stand as the chunk has them.
        ends = np.cumsum([len(part) for part in parts])
        logits = np.empty_like(by_part)
        logits[np.argsort(np.searchsorted(ends, chunk.answers, side="right"), kind="stable")] = by_part
        logits[self._arena.ill_answers(chunk) | ~np.isfinite(logits).all(axis=1)] = np.nan
        return logits

    def _lane(self, threads: int, part: Chunk, written: Callable[[], object] = lambda: None) -> _Found:
        if torch.get_num_threads() != threads:
            # Of products that are called from here: the setting is each thread's own.
            torch.set_num_threads(threads)
        return self._pass(part, written)

    def _pass(self, chunk: Chunk, written: Callable[[], object] = lambda: None) -> _Found:
        with torch.inference_mode():
            plan = plan_chunk(chunk)
            attention = ChunkAttention(self._arena, chunk, plan, self._model.shape.kv_heads, written)
            tokens, positions = (
                torch.from_numpy(x.astype(np.int64)).to(self._device) for x in (chunk.tokens, chunk.positions)
            )
            hidden = self._model.forward(tokens, positions, attention)
            bad = None if attention.bad_rows is None else attention.bad_rows.cpu().numpy()
            if not len(chunk.answers):
                return np.zeros((0, 0 if self._head is None else self._head.columns), np.float32), bad
            assert self._head is not None, "set_answer_tokens comes before the first answer"
            return self._head.logits(hidden).cpu().numpy()[plan.order], bad

    @property
    def _row_keys(self) -> float:
        """What a row's linear layers cost, in keys that it attends to."""
        shape = self._model.shape
        return shape.layer_weights / (2 * shape.query_width)

    def _check_tokens(self, tokens: NDArray[np.integer]) -> None:
        size = self._model.shape.vocabulary
        if len(tokens) and (tokens.min() < 0 or tokens.max() >= size):
            wrong = tokens[(tokens < 0) | (tokens >= size)][0]
            raise EngineError(f"token {wrong} is outside the model's vocabulary of {size}")


def _lacks_memory(error: BaseException) -> bool:
    # On a CPU, torch raises no more than a RuntimeError.
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "DefaultCPUAllocator" in str(error)
