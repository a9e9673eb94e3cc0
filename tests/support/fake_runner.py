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
from numpy.typing import NDArray

_MASK = (1 << 64) - 1
_VOCABULARY = range(24)


class FakeRunner:
    """Implements the Runner protocol over a list of states, one an address; None where nothing was written.

    bad: tokens whose prompts, where they are the last one, answer with a logit that is not finite. embedded: tokens
    that entered the embedding so far.
    """

    def __init__(self, arena_tokens: int, chunk_tokens: int, context_length: int = 1 << 20) -> None:
        self.arena_tokens = arena_tokens
        self.info = EngineInfo("fake", "fake", "cpu", "none", context_length, arena_tokens, chunk_tokens, 0.0)
        self.bad: frozenset[int] = frozenset()
        self.embedded = 0
        self.attention_pairs = 0
        self.chunks = 0
        self._states: list[int | None] = [None] * arena_tokens
        self._answer_tokens: tuple[int, ...] = ()
        self._normalizer = False

    def set_answer_tokens(self, ids: tuple[int, ...], normalizer: bool = False) -> None:
        self._answer_tokens, self._normalizer = ids, normalizer

    def forget(self, starts: Iterable[int], lengths: Iterable[int]) -> None:
        """Make ranges unreadable, as if they were never written."""
        for start, length in zip(starts, lengths, strict=True):
            self._states[start : start + length] = [None] * length

    def launch(self, chunk: Chunk) -> Computed:
        return Computed.by(self.run, chunk)

    def run(self, chunk: Chunk) -> NDArray[np.float32]:
        check_chunk(chunk, self.arena_tokens, self.info.chunk_tokens)
        self.chunks += 1
        self.embedded += len(chunk)
        self.attention_pairs += chunk.attention_pairs
        states, addresses = self._states, chunk.kv_address.tolist()
        for address in addresses:
            states[address] = None
        tokens, positions = chunk.tokens.tolist(), chunk.positions.tolist()
        by_row: dict[int, list[tuple[int, int, int]]] = {}
        for row, rows, start, keys in chunk.contexts.tolist():
            by_row.setdefault(row, []).append((row + rows, start, keys))
        active: list[tuple[int, int, int]] = []
        for first, length, _ in chunk.segments.tolist():
            own = 0
            for own_count, row in enumerate(range(first, first + length)):
                if row in by_row or any(end <= row for end, *_ in active):
                    active = [context for context in active if context[0] > row]
                    active += [
                        (end, keys, self._total(start, keys)) for end, start, keys in by_row.pop(row, [])
                    ]
                seen = sum(keys for _, keys, _ in active) + own_count
                if seen != positions[row]:
                    raise AssertionError(
                        f"row {row} at position {positions[row]} attends to {seen} earlier tokens"
                    )
                before = (sum(total for *_, total in active) + own) & _MASK
                state = _mix(tokens[row], positions[row], before)
                states[addresses[row]] = state
                own += state
        assert not by_row, "a context begins at a row that no segment has"
        logits = np.array([self._logits(chunk, row) for row in chunk.answers.tolist()], np.float32).reshape(
            len(chunk.answers), len(self._answer_tokens) + self._normalizer
        )
        self.forget([0], [chunk.scratch])
        return logits

    def _total(self, start: int, keys: int) -> int:
        values = self._states[start : start + keys]
        if None in values:
            raise AssertionError(f"a context reads {start}..{start + keys} before it is written")
        return sum(values)  # type: ignore[arg-type]

    def _logits(self, chunk: Chunk, row: int) -> list[float]:
        state = self._states[int(chunk.kv_address[row])]
        assert state is not None
        if int(chunk.tokens[row]) in self.bad:
            return [math.nan] * (len(self._answer_tokens) + self._normalizer)
        return [_logit(state, token) for token in self._answer_tokens] + [
            _normalizer(state)
        ] * self._normalizer


def check_chunk(chunk: Chunk, arena_tokens: int, chunk_tokens: int) -> None:
    """Assert what every chunk must keep whatever it computes."""
    size = len(chunk)
    assert 0 < size <= chunk_tokens
    assert chunk.tokens.dtype == chunk.positions.dtype == chunk.answers.dtype == np.int32
    assert chunk.kv_address.dtype == chunk.segments.dtype == chunk.contexts.dtype == np.int64
    assert chunk.positions.shape == chunk.kv_address.shape == (size,)
    assert chunk.kv_address.min() >= 0
    assert chunk.kv_address.max() < arena_tokens
    assert len(np.unique(chunk.kv_address)) == size, "two rows write one address"
    first, length, address = chunk.segments.T
    assert (length > 0).all()
    assert (first == np.cumsum(length) - length).all(), "segments do not stand one after another"
    assert length.sum() == size
    within = np.arange(size) - np.repeat(first, length)
    assert (chunk.kv_address == np.repeat(address, length) + within).all()
    if len(chunk.contexts):
        row, rows, start, keys = chunk.contexts.T
        assert (rows > 0).all()
        assert (keys > 0).all()
        assert (row >= 0).all()
        assert (row + rows <= size).all()
        assert (start >= 0).all()
        assert (start + keys <= arena_tokens).all()
    assert (np.diff(chunk.answers) > 0).all(), "answer rows do not ascend"
    assert all(0 <= row < size for row in chunk.answers.tolist())


def plain_margin(tokens: Sequence[int], readout: YesNo) -> float:
    """The margin of one prompt computed alone."""
    state = _state(tokens)
    yes = [_logit(state, token) for token in readout.yes]
    no = [_logit(state, token) for token in readout.no]
    return float(np.logaddexp.reduce(np.array(yes)) - np.logaddexp.reduce(np.array(no)))


def plain_scores(tokens: Sequence[int], readout: Labels) -> list[float]:
    """The log-probability of each label after one prompt, every token's computed alone."""
    scores = []
    for label in readout.labels:
        states = [_state((*tokens, *label[:n])) for n in range(len(label))]
        scores.append(
            sum(_logit(state, token) - _normalizer(state) for state, token in zip(states, label, strict=True))
        )
    return scores


def _state(tokens: Sequence[int]) -> int:
    before = state = 0
    for position, token in enumerate(tokens):
        state = _mix(int(token), position, before)
        before = (before + state) & _MASK
    return state


def _normalizer(state: int) -> float:
    return float(np.logaddexp.reduce([_logit(state, token) for token in _VOCABULARY]))


def _mix(token: int, position: int, before: int) -> int:
    value = (
        before ^ (token * 0x9E3779B97F4A7C15) ^ (position * 0xC2B2AE3D27D4EB4F)
    ) + 0x165667B19E3779F9 & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def _logit(state: int, token: int) -> float:
    return float(np.float32((_mix(token, 1, state) >> 40) / (1 << 20) - 8.0))
