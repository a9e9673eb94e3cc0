"""A runner goes in, the rates of its device come out: a few synthetic chunks are timed and a linear model is fitted.

Five kinds of chunk tell the four rates apart: many short prompts, few of them, one long prompt, many questions on one
resident prefix, and few questions on each of many. They go through the runner as any others, one launched while the one
before it runs, again and again until the time is up; the later rounds count, since a device that has become warm is
the one that queries meet.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.api import Rates
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.runner import Pending, Runner

SECONDS = 3.0
"""How long a calibration may take."""

LEAST_TOKENS = 64
"""Chunks smaller than this tell nothing."""

MOST_ROUNDS = 20
"""More do not tell more."""

_SHORT, _FEW = 32, 4
"""Tokens of a short prompt, and of the questions on one of many prefixes."""

_ROUND = 2.6
"""The seconds of a round, in those of its first chunk, attention left out."""

_TOKEN_IDS = 32
"""Ids below this are in every vocabulary."""

Clock = Callable[[], float]


def measure(runner: Runner, seconds: float = SECONDS, clock: Clock = time.perf_counter) -> Rates | None:
    """The device's rates; None where no chunk can be large enough to tell, or all take too long. Raises EngineError.

    It writes over the arena and sets the answer tokens: nothing may be resident and no chunk on its way. It takes
    about `seconds` at most: a slow device gets smaller chunks, and one that is too slow for those is not measured.
    """
    info = runner.info
    most = min(info.chunk_tokens, runner.arena_tokens // 2, info.context_length - _SHORT)
    if most < LEAST_TOKENS:
        return None
    began = clock()
    runner.set_answer_tokens((0,))
    tokens, took = _fitting_tokens(runner, most, seconds)
    if clock() - began + took * _ROUND > seconds:
        return None
    chunks = synthetic_chunks(tokens)
    rounds: list[list[float]] = []
    longest = 0.0
    while not rounds or (len(rounds) < MOST_ROUNDS and clock() - began + longest <= seconds):
        before = clock()
        rounds.append(_seconds_of(runner, chunks))
        longest = max(longest, clock() - before)
    counted = rounds[len(rounds) // 2 :]
    return fit(chunks, [statistics.median(times) for times in zip(*counted, strict=True)])


def _fitting_tokens(runner: Runner, most: int, seconds: float) -> tuple[int, float]:
    """Tokens of the largest chunk of which two rounds fit into the time, and how long one takes."""
    tokens = LEAST_TOKENS
    (took,) = _seconds_of(runner, [_short_prompts(tokens)])
    if took * _ROUND < seconds / 4:
        # The first pass of all took longer than others do.
        (took,) = _seconds_of(runner, [_short_prompts(tokens)])
    while tokens < most:
        more = min(4 * tokens, most)
        if took * more / tokens * _ROUND > seconds / 2:
            break
        tokens = more
        (took,) = _seconds_of(runner, [_short_prompts(tokens)])
    return tokens, took


def _seconds_of(runner: Runner, chunks: Sequence[Chunk]) -> list[float]:
    """The device's time for each chunk, one launched while the one before it runs."""
    times: list[float] = []
    running: Pending | None = None
    for chunk in chunks:
        launched = runner.launch(chunk)
        if running is not None:
            times.append(_wait(running))
        running = launched
    if running is not None:
        times.append(_wait(running))
    return times


def _wait(pending: Pending) -> float:
    pending.result()
    return pending.seconds()


def synthetic_chunks(tokens: int) -> tuple[Chunk, ...]:
    """The five kinds, of at most so many tokens each, in the order in which they may run: later ones read the keys and
    values that the long prompt leaves at addresses tokens..2 * tokens - 1.
    """
    return (
        _short_prompts(tokens),
        _short_prompts(tokens // 8),
        _chunk([tokens], address=tokens, answered=False),
        _questions_on_one(tokens),
        _questions_on_many(tokens),
    )


def _short_prompts(tokens: int) -> Chunk:
    return _chunk(_cut(tokens))


def _questions_on_one(tokens: int) -> Chunk:
    lengths = _cut(tokens // 4)
    return _chunk(lengths, position=tokens, contexts=[(0, sum(lengths), tokens, tokens)])


def _questions_on_many(tokens: int) -> Chunk:
    """Every prefix is half of what is resident, from another place on."""
    groups, keys = max(1, tokens // 64), tokens // 2
    contexts = [
        (_FEW * group, _FEW, tokens + group * (tokens - keys) // groups, keys) for group in range(groups)
    ]
    return _chunk([_FEW] * groups, position=keys, contexts=contexts)


def _cut(tokens: int) -> list[int]:
    """Lengths of short prompts that have so many tokens together."""
    whole, rest = divmod(tokens, _SHORT)
    return [_SHORT] * whole + [rest] * (rest > 0)


def _chunk(
    lengths: Sequence[int],
    *,
    address: int = 0,
    position: int = 0,
    contexts: Sequence[tuple[int, int, int, int]] = (),
    answered: bool = True,
) -> Chunk:
    """Segments of these lengths, all from one position on, written from `address` on; their last tokens are read."""
    counts = np.array(lengths, np.int64)
    ends = np.cumsum(counts)
    starts = ends - counts
    rows = np.arange(ends[-1])
    return Chunk(
        tokens=np.random.default_rng(0).integers(0, _TOKEN_IDS, len(rows)).astype(np.int32),
        positions=(position + rows - np.repeat(starts, counts)).astype(np.int32),
        kv_address=address + rows,
        segments=np.column_stack([starts, counts, address + starts]),
        contexts=np.array(contexts, np.int64).reshape(-1, 4),
        answers=(ends - 1 if answered else ends[:0]).astype(np.int32),
    )


def work(chunk: Chunk) -> tuple[int, int, int, int]:
    """What the rates are multiplied with: fresh tokens, query-key pairs, cached tokens read, chunks."""
    own = np.isin(chunk.contexts[:, 2], chunk.kv_address)
    return len(chunk), chunk.attention_pairs, int(chunk.contexts[~own, 3].sum()), 1


def fit(chunks: Sequence[Chunk], seconds: Sequence[float]) -> Rates:
    """The rates, none below zero, that come closest to these seconds, in parts of each of them."""
    took = np.maximum(np.array(seconds, np.float64), 1e-9)
    parts = np.array([work(chunk) for chunk in chunks], np.float64) / took[:, None]
    size = np.linalg.norm(parts, axis=0)
    size[size == 0] = 1.0
    best, error = np.zeros(parts.shape[1]), math.inf
    for count in range(parts.shape[1], 0, -1):
        for columns in combinations(range(parts.shape[1]), count):
            found, off = _least_squares(parts / size, list(columns))
            if (found >= 0).all() and off < error - 1e-12:
                best, error = found, off
    return Rates(*(float(rate) for rate in best / size))


def _least_squares(parts: NDArray[np.float64], columns: list[int]) -> tuple[NDArray[np.float64], float]:
    """What these columns have to be multiplied with for rows of ones, zero for the others; how far off it is."""
    found = np.zeros(parts.shape[1])
    found[columns] = np.linalg.lstsq(parts[:, columns], np.ones(len(parts)), rcond=None)[0]
    return found, float(np.square(parts @ found - 1).sum())
