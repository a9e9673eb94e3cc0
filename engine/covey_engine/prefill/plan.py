"""A chunk goes in; the attention calls that compute it, as few as its shape allows, come out; torch-free.

Many short segments become one batched call, padded where their lengths differ a little: padding stands after
a segment's own tokens, where the causal mask hides it. Contexts over the same keys, or over keys that follow
each other, become one call.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.ranges import join_keys, join_rows

Rows = NDArray[np.int64]

_CLASSES = np.array([4, 8, 12, 16, 24, 32, 48, 64])
"""Segments up to the last of these lengths are batched class by class; longer ones stand alone."""
_RUN = 8
"""Adjacent segments of one length need no gathering if there are at least so many."""


@dataclass(frozen=True, eq=False)
class SelfCall:
    """Causal attention within `count` segments padded to `length` rows each.

    rows: a slice where the segments lie side by side and have this very length, else the row of every entry
    [count * length]; valid: the entries that are no padding, None for all.
    """

    count: int
    length: int
    rows: slice | Rows
    valid: Rows | None = None


@dataclass(frozen=True, eq=False)
class AnswerCall:
    """Attention of `count` answer rows to their own segment, up to themselves, padded to `keys` rows each.

    answers: which answers [count]; rows: the key row of every entry [count * keys]; hidden: bool [count,
    keys], the padding, None for none.
    """

    count: int
    keys: int
    answers: Rows
    rows: Rows
    hidden: NDArray[np.bool_] | None


@dataclass(frozen=True)
class ContextCall:
    """Full attention of query rows first..stop-1 to a KV range; answer_*: those rows as answer numbers."""

    first: int
    stop: int
    kv_first: int
    kv_stop: int
    answer_first: int
    answer_stop: int


@dataclass(frozen=True, eq=False)
class Plan:
    """Calls of one chunk. answer_rows: ascending; order: `chunk.answers == answer_rows[order]`."""

    answer_rows: Rows
    order: Rows
    selves: tuple[SelfCall, ...]
    answers: tuple[AnswerCall, ...]
    contexts: tuple[ContextCall, ...]


def plan_chunk(chunk: Chunk) -> Plan:
    """Plan the attention of a chunk. AssertionError where it breaks its contract."""
    segments = chunk.segments[chunk.segments[:, 1] > 0]
    segments = segments[np.argsort(segments[:, 0], kind="stable")]
    _check(chunk, segments)
    answer_rows, order = np.unique(chunk.answers.astype(np.int64), return_inverse=True)
    return Plan(
        answer_rows=answer_rows,
        order=order.reshape(-1),
        selves=tuple(_self_calls(segments[:, 0], segments[:, 1])),
        answers=tuple(_answer_calls(segments[:, 0], answer_rows)),
        contexts=tuple(_context_calls(chunk.contexts, answer_rows)),
    )


def _check(chunk: Chunk, segments: Rows) -> None:
    first, length = segments[:, 0], segments[:, 1]
    ends = np.cumsum(length)
    covered = len(chunk) == (ends[-1] if len(ends) else 0) and bool((first == ends - length).all())
    assert covered, "the segments must cover every row once"
    expected = np.repeat(segments[:, 2] - first, length) + np.arange(len(chunk))
    assert (expected == chunk.kv_address).all(), (
        "a segment's keys must lie one after another from its first address"
    )
    contexts = chunk.contexts
    assert (contexts[:, 0] >= 0).all(), "a context begins before the chunk"
    assert (contexts[:, 0] + contexts[:, 1] <= len(chunk)).all(), "a context ends behind the chunk"


def _self_calls(first: Rows, length: Rows) -> Iterator[SelfCall]:
    for index in np.flatnonzero(length > _CLASSES[-1]):
        yield SelfCall(1, int(length[index]), slice(int(first[index]), int(first[index] + length[index])))
    classes = np.searchsorted(_CLASSES, length)
    for number in range(len(_CLASSES)):
        members = np.flatnonzero(classes == number)
        if len(members):
            yield from _short_calls(first[members], length[members])


def _short_calls(first: Rows, length: Rows) -> Iterator[SelfCall]:
    breaks = np.flatnonzero((first[1:] != first[:-1] + length[:-1]) | (length[1:] != length[:-1])) + 1
    bounds = np.concatenate([[0], breaks, [len(first)]])
    scattered = []
    for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        if stop - start >= _RUN or len(first) == stop - start:
            each = int(length[start])
            row = int(first[start])
            yield SelfCall(stop - start, each, slice(row, row + each * (stop - start)))
        else:
            scattered.append(np.arange(start, stop))
    if scattered:
        chosen = np.concatenate(scattered)
        yield _padded(first[chosen], length[chosen])


def _padded(first: Rows, length: Rows) -> SelfCall:
    longest = int(length.max())
    offsets = np.minimum(np.arange(longest), length[:, None] - 1)
    real = np.arange(longest) < length[:, None]
    rows = (first[:, None] + offsets).reshape(-1)
    return SelfCall(len(first), longest, rows, None if real.all() else np.flatnonzero(real))


def _answer_calls(first: Rows, answer_rows: Rows) -> Iterator[AnswerCall]:
    if not len(answer_rows):
        return
    starts = first[np.searchsorted(first, answer_rows, side="right") - 1]
    keys = answer_rows - starts + 1
    # Twice the keys of a class's shortest member at most: padding never doubles the work.
    classes = np.frexp(keys.astype(np.float64))[1]
    for number in np.unique(classes):
        members = np.flatnonzero(classes == number)
        own, start = keys[members], starts[members]
        longest = int(own.max())
        hidden = np.arange(longest) >= own[:, None]
        rows = start[:, None] + np.minimum(np.arange(longest), own[:, None] - 1)
        yield AnswerCall(len(members), longest, members, rows.reshape(-1), hidden if hidden.any() else None)


def _context_calls(contexts: Rows, answer_rows: Rows) -> Iterator[ContextCall]:
    merged = contexts[(contexts[:, 1] > 0) & (contexts[:, 3] > 0)]
    merged = join_keys(join_rows(merged))
    merged = merged[np.lexsort((merged[:, 2], merged[:, 0]))]
    ends = merged[:, :4:2] + merged[:, 1:4:2]
    answer_first = np.searchsorted(answer_rows, merged[:, 0])
    answer_stop = np.searchsorted(answer_rows, ends[:, 0])
    columns = (merged[:, 0], ends[:, 0], merged[:, 2], ends[:, 1], answer_first, answer_stop)
    for row in np.stack(columns, axis=1).tolist():
        yield ContextCall(*row)
