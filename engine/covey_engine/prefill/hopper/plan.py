"""A chunk's segments and contexts go in, batched attention calls come out; never touches the device.

A *pair* is (first query row, query rows, first key address, keys). Pairs are made few and long before they
become calls: contexts with the same keys and neighbouring rows are one; a context that ends where its only
segment begins is absorbed by the segment's causal call, which is aligned at the bottom right; segments that
then see the same keys, one after the other, are one; contexts that follow each other are ranges of disjoint
rows. Short heads are copied before what follows them (`heads`), and short segments have a kernel of their own.
What is left to merge are calls of which a row is in more than one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.hopper.heads import pack_heads
from covey_engine.prefill.hopper.pairs import Ints, covered_rows, levels_of, simplify
from covey_engine.prefill.hopper.placing import Placement, place_rows

Packed = NDArray[np.int32]

SHORT = 32
"""Longest segment of the kernel for short ones."""

MANY = 32
"""Short segments from which that kernel is worth its launch."""


class Keys(Enum):
    """Where a call finds its keys: in the arena; among the packed copies; at its own rows' addresses."""

    ARENA = "arena"
    PACKED = "packed"
    OWN_ROWS = "own rows"


@dataclass(frozen=True, eq=False)
class Call:
    """A batched attention call over pairs, int64 [n, 4], of disjoint query rows."""

    pairs: Ints
    keys: Keys
    causal: bool


@dataclass(frozen=True, eq=False)
class AttentionPlan:
    """Calls that together cover a set of query rows, each row by at least one.

    coverages: int32 [rows] for each round of merging, bit i set where its i-th partial holds the row. A round
    takes `width` partials, of which the first is the round before it.
    """

    calls: tuple[Call, ...]
    coverages: tuple[Packed, ...]


@dataclass(frozen=True, eq=False)
class ChunkPlan:
    """What the runner computes for a chunk.

    every: attention of all rows; answers: of the answer rows alone, as if they stood one after another;
    spans: int32 [answers, ranges, 2], the (first address, length) ranges that an answer reads; placement: where
    keys and values are written, and what is copied, before the calls; first: int32 [rows], the first row of a
    short segment's rows, -1 for all others.
    """

    every: AttentionPlan
    answers: AttentionPlan
    spans: Packed
    placement: Placement
    first: Packed


def plan_chunk(chunk: Chunk, room: int, width: int) -> ChunkPlan:
    """Plan a chunk with ascending answers. room: most rows of packed keys; width: partials of a merge."""
    assert (np.diff(chunk.answers) >= 0).all(), "answer rows are not ascending"
    segments = chunk.segments[chunk.segments[:, 1] > 0]
    assert int(segments[:, 1].sum()) == len(chunk), "segments do not cover the chunk"
    own, contexts = simplify(segments, chunk.contexts)
    answers = chunk.answers.astype(np.int64)
    spans = _spans(answers, own, contexts)
    heads = pack_heads(own, contexts, len(chunk), room, SHORT)
    short = ~heads.packed_own & (own[:, 1] <= SHORT) & (own[:, 1] == own[:, 3])
    if short.sum() < MANY:
        short[:] = False
    first = np.full(len(chunk), -1, np.int32)
    _paint(first, own[short], own[short, 0])
    levels = [
        *(Call(pairs, Keys.ARENA, causal=False) for pairs in levels_of(heads.contexts)),
        *(Call(pairs, Keys.PACKED, causal=False) for pairs in levels_of(heads.packed_contexts)),
    ]
    owners = (
        Call(own[~short & ~heads.packed_own], Keys.ARENA, causal=True),
        Call(heads.own, Keys.PACKED, causal=True),
        Call(own[short], Keys.OWN_ROWS, causal=True),
    )
    every = _plan([*owners, *levels], len(chunk), width)
    in_place = [call.pairs for call in (*owners, *levels) if call.keys is not Keys.PACKED]
    placement = place_rows(chunk, heads.source, np.concatenate(in_place))
    return ChunkPlan(every, _answer_plan(answers, owners, levels, width), spans, placement, first)


def _plan(calls: list[Call], rows: int, width: int) -> AttentionPlan:
    filled = tuple(call for call in calls if len(call.pairs))
    masks = [covered_rows(call.pairs, rows) for call in filled]
    coverages = [_bits(masks[:width], rows)]
    for begin in range(width, len(masks), width - 1):
        before = np.logical_or.reduce(masks[:begin])
        coverages.append(_bits([before, *masks[begin : begin + width - 1]], rows))
    return AttentionPlan(filled, tuple(coverages))


def _bits(masks: list[NDArray[np.bool_]], rows: int) -> Packed:
    bits = np.zeros(rows, np.int32)
    for index, mask in enumerate(masks):
        bits |= mask.astype(np.int32) << index
    return bits


def _paint(target: Packed, pairs: Ints, values: Ints) -> None:
    """Set the query rows of each pair to its value."""
    rows = np.repeat(pairs[:, 0] - np.cumsum(pairs[:, 1]) + pairs[:, 1], pairs[:, 1])
    target[rows + np.arange(len(rows))] = np.repeat(values, pairs[:, 1])


def _spans(answers: Ints, own: Ints, contexts: Ints) -> Packed:
    levels = levels_of(contexts)
    spans = np.zeros((len(answers), 1 + len(levels), 2), np.int32)
    narrowed = _last_rows(own, answers)
    spans[:, 0] = narrowed[:, 2:]
    for index, pairs in enumerate(levels):
        holder, inside = _holders(pairs, answers)
        spans[inside, 1 + index] = pairs[holder[inside], 2:]
    return spans


def _answer_plan(answers: Ints, owners: tuple[Call, ...], levels: list[Call], width: int) -> AttentionPlan:
    """Owners become one query each; a level's pairs keep the answers among their rows."""
    calls = []
    for keys in (Keys.ARENA, Keys.PACKED):
        parts = [owner.pairs for owner in owners if (owner.keys is Keys.PACKED) == (keys is Keys.PACKED)]
        pairs = np.concatenate(parts)
        pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
        calls.append(Call(_last_rows(pairs, answers), keys, causal=False))
    for level in levels:
        begin = np.searchsorted(answers, level.pairs[:, 0])
        end = np.searchsorted(answers, level.pairs[:, 0] + level.pairs[:, 1])
        narrowed = np.column_stack([begin, end - begin, level.pairs[:, 2:]])
        calls.append(Call(narrowed[end > begin], level.keys, causal=False))
    return _plan(calls, len(answers), width)


def _last_rows(own: Ints, answers: Ints) -> Ints:
    """One pair an answer, numbered by answer, with the keys that its row sees of its own pair."""
    holder, inside = _holders(own, answers)
    number, holder, row = np.flatnonzero(inside), holder[inside], answers[inside]
    hidden = own[holder, 0] + own[holder, 1] - 1 - row
    return np.column_stack([number, np.ones_like(number), own[holder, 2], own[holder, 3] - hidden])


def _holders(pairs: Ints, rows: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """For each row the pair that could hold its query, and whether it does; pairs ascend and are disjoint."""
    if not len(pairs):
        return np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_)
    holder = np.searchsorted(pairs[:, 0], rows, "right") - 1
    return holder, (holder >= 0) & (rows < pairs[holder, 0] + pairs[holder, 1])
