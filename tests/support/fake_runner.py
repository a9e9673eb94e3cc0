"""A runner without a model: exact about KV, so that a wrong range, position or order gives a failure or another answer.

The state of a token is a hash of the token, its position and the sum of the states it attends to; a prompt's logits
are a hash of its last token's state. So they equal those of `plain_margin`, which walks the prompt alone, only if
every token attended to exactly the tokens before it, each in the state that its own context gave it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from covey_engine.prefill.api import EngineInfo, Labels, YesNo
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.runner import Computed
from covey_engine.prefill.scheduling.compiled import compile_kernels
from numpy.typing import NDArray
from support import fake_kernels

_VOCABULARY = np.arange(24)


class FakeRunner:
    """Implements the Runner protocol over a state for each address.

    bad: tokens whose prompts, where they are the last one, answer with a logit that is not finite. embedded: tokens
    that entered the embedding so far.
    """

    def __init__(self, arena_tokens: int, chunk_tokens: int, context_length: int = 1 << 20) -> None:
        compile_kernels()
        self.arena_tokens = arena_tokens
        self.info = EngineInfo("fake", "fake", "cpu", "none", context_length, arena_tokens, chunk_tokens, 0.0)
        self.bad: frozenset[int] = frozenset()
        self.embedded = 0
        self.attention_pairs = 0
        self.chunks = 0
        self._states = np.zeros(arena_tokens, np.int64)
        self._written = np.zeros(arena_tokens, np.int8)
        self._answer_tokens: NDArray[np.int64] = np.empty(0, np.int64)
        self._normalizer = False

    def set_answer_tokens(self, ids: tuple[int, ...], normalizer: bool = False) -> None:
        self._answer_tokens, self._normalizer = np.array(ids, np.int64), normalizer

    def forget(self, starts: Iterable[int], lengths: Iterable[int]) -> None:
        """Make ranges unreadable, as if they were never written."""
        for start, length in zip(starts, lengths, strict=True):
            self._written[start : start + length] = fake_kernels.UNWRITTEN

    def launch(self, chunk: Chunk) -> Computed:
        return Computed.by(self.run, chunk)

    def run(self, chunk: Chunk) -> NDArray[np.float32]:
        _check(chunk, self.info.chunk_tokens, self._written)
        self.chunks += 1
        self.embedded += len(chunk)
        self.attention_pairs += chunk.attention_pairs
        fault, where, what = fake_kernels.run(
            chunk.tokens,
            chunk.positions,
            chunk.kv_address,
            chunk.segments,
            chunk.contexts,
            self._states,
            self._written,
        )
        if fault == fake_kernels.READ_TOO_EARLY:
            raise AssertionError(f"a context of row {where} reads address {what} before it is written")
        if fault == fake_kernels.WRONG_POSITION:
            position = int(chunk.positions[where])
            raise AssertionError(f"row {where} at position {position} attends to {what} earlier tokens")
        states = self._states[chunk.kv_address[chunk.answers]]
        logits = _head(states, self._answer_tokens, self._normalizer)
        if self.bad:
            logits[np.isin(chunk.tokens[chunk.answers], list(self.bad))] = math.nan
        self.forget([0], [chunk.scratch])
        return logits


def check_chunk(chunk: Chunk, arena_tokens: int, chunk_tokens: int) -> None:
    """Assert what every chunk must keep whatever it computes."""
    compile_kernels()
    _check(chunk, chunk_tokens, np.zeros(arena_tokens, np.int8))


def _check(chunk: Chunk, chunk_tokens: int, written: NDArray[np.int8]) -> None:
    """Assert the chunk's form; its addresses are then due to be written."""
    size = len(chunk)
    assert 0 < size <= chunk_tokens, f"a chunk of {size} tokens, of {chunk_tokens} at most"
    assert chunk.tokens.dtype == chunk.positions.dtype == chunk.answers.dtype == np.int32
    assert chunk.kv_address.dtype == chunk.segments.dtype == chunk.contexts.dtype == np.int64
    assert chunk.tokens.shape == chunk.positions.shape == chunk.kv_address.shape == (size,)
    assert chunk.answers.ndim == 1
    assert chunk.segments.shape[1:] == (3,)
    assert chunk.contexts.shape[1:] == (4,)
    fault, where = fake_kernels.check(
        chunk.kv_address, chunk.segments, chunk.contexts, chunk.answers, written
    )
    assert not fault, f"{fake_kernels.FAULTS[fault]}: {where}"


def plain_margin(tokens: Sequence[int], readout: YesNo) -> float:
    """The margin of one prompt computed alone."""
    state = _states(tokens)[-1:]
    yes = _head(state, np.array(readout.yes), False)[0]
    no = _head(state, np.array(readout.no), False)[0]
    return float(np.logaddexp.reduce(yes, dtype=np.float64) - np.logaddexp.reduce(no, dtype=np.float64))


def plain_scores(tokens: Sequence[int], readout: Labels) -> list[float]:
    """The log-probability of each label after one prompt, every token's computed alone."""
    scores = []
    for label in readout.labels:
        states = _states((*tokens, *label[:-1]))[-len(label) :]
        logits = _head(states, np.array(label), True).astype(np.float64)
        scores.append(float((np.diagonal(logits) - logits[:, -1]).sum()))
    return scores


def _states(tokens: Sequence[int]) -> NDArray[np.int64]:
    """The state of each token of one prompt computed alone."""
    compile_kernels()
    states = np.empty(len(tokens), np.int64)
    fake_kernels.walk(np.array(tokens, np.int32), states)
    return states


def _head(states: NDArray[np.int64], tokens: NDArray[np.int64], normalizer: bool) -> NDArray[np.float32]:
    """The logits of some tokens after each state and, where asked for, the log-sum-exp of all tokens'."""
    logits = np.empty((len(states), len(tokens) + normalizer), np.float32)
    fake_kernels.head(states, tokens, _VOCABULARY if normalizer else _VOCABULARY[:0], logits)
    return logits
