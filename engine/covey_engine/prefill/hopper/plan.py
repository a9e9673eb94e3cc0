"""A chunk's segments and contexts go in, batched attention calls come out; never touches the device.

A *pair* is (first query row, query rows, first key address, keys). Pairs are made few and long before they
become calls: contexts with the same keys and neighbouring rows are one; a context that ends where its only
segment begins is absorbed by the segment's causal call, which is aligned at the bottom right; segments that
then see the same keys, one after the other, are one; contexts that follow each other are ranges of disjoint
rows. Short heads are copied before what follows them (`heads`), and short segments have kernels of their own, one of
which reads a few contexts with them (`tails`).
What is left to merge are calls of which a row is in more than one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.hopper.answers import answers_in, last_rows, spans_of
from covey_engine.prefill.hopper.heads import pack_heads
from covey_engine.prefill.hopper.pairs import (
    Ints,
    covered_rows,
    in_row_order,
    levels_of,
    simplify,
    without_rows,
)
from covey_engine.prefill.hopper.placing import Placement, place_rows
from covey_engine.prefill.hopper.tails import Tails, find_tails, is_light, tails_of

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
class TailCall:
    """Short segments that see themselves and few ranges of keys, in the arena or packed."""

    tails: Tails
    keys: Keys

    @property
    def pairs(self) -> Ints:
        """The query rows, int64 [groups, 2]."""
        return self.tails.groups


@dataclass(frozen=True, eq=False)
class AttentionPlan:
    """Calls that together cover a set of query rows, each row by at least one.

    apart: each row by exactly one, so that all calls write to one partial, and nothing is merged. coverages: int32
    [rows] for each round of merging, bit i set where its i-th partial holds the row. A round takes `width` partials,
    of which the first is the round before it.
    """

    calls: tuple[Call | TailCall, ...]
    apart: bool
    coverages: tuple[Packed, ...]


@dataclass(frozen=True, eq=False)
class ChunkPlan:
    """What the runner computes for a chunk.

    every: attention of all rows; answers: of the answer rows alone, as if they stood one after another;
    spans: int32 [answers, ranges, 2], the (first address, length) ranges that an answer reads; placement: where
    keys and values are written, and what is copied, before the calls; first: int32 [rows], the first row of a
    short segment's rows, -1 for all others; alone: the same, but -1 for tails' rows too.
    """

    every: AttentionPlan
    answers: AttentionPlan
    spans: Packed
    placement: Placement
    first: Packed
    alone: Packed


def plan_chunk(chunk: Chunk, room: int, width: int) -> ChunkPlan:
    """Plan a chunk with ascending answers. room: most rows of packed keys; width: partials of a merge."""
    assert (np.diff(chunk.answers) >= 0).all(), "answer rows are not ascending"
    segments = chunk.segments[chunk.segments[:, 1] > 0]
    assert int(segments[:, 1].sum()) == len(chunk), "segments do not cover the chunk"
    own, contexts = simplify(segments, chunk.contexts)
    answers = chunk.answers.astype(np.int64)
    spans = spans_of(answers, own, contexts)
    rows, waiting = len(chunk), _held_out(chunk, own, contexts)
    heads = pack_heads(own, contexts[~waiting], rows, room, SHORT)
    in_arena = in_row_order(np.concatenate([heads.contexts, contexts[waiting]]))
    short = ~heads.packed_own & _is_short(own)
    if short.sum() < MANY:
        short[:] = False
    first = np.full(rows, -1, np.int32)
    _paint(first, own[short], own[short, 0])
    owners = (
        Call(own[~short & ~heads.packed_own], Keys.ARENA, causal=True),
        Call(heads.own, Keys.PACKED, causal=True),
        Call(own[short], Keys.OWN_ROWS, causal=True),
    )
    levels = _levels(in_arena, heads.packed_contexts)
    every = _plan(_with_tails(owners, in_arena, heads.packed_contexts, rows), rows, width)
    alone = first.copy()
    for call in every.calls:
        if isinstance(call, TailCall):
            _paint(alone, call.pairs, np.full(len(call.pairs), -1))
    in_place = [call.pairs for call in (*owners, *levels) if call.keys is not Keys.PACKED]
    placement = place_rows(chunk, heads.source, np.concatenate(in_place))
    return ChunkPlan(every, _answer_plan(answers, owners, levels, width), spans, placement, first, alone)


def _is_short(own: Ints) -> NDArray[np.bool_]:
    short: NDArray[np.bool_] = (own[:, 1] <= SHORT) & (own[:, 1] == own[:, 3])
    return short


def _held_out(chunk: Chunk, own: Ints, contexts: Ints) -> NDArray[np.bool_]:
    """Contexts of tails alone, computed by earlier chunks: reading them in place is cheaper than packing them."""
    long_rows = covered_rows(own[~_is_short(own)], len(chunk))
    before = np.concatenate([[0], np.cumsum(long_rows)])
    tails = before[contexts[:, 0] + contexts[:, 1]] == before[contexts[:, 0]]
    held: NDArray[np.bool_] = tails & is_light(contexts) & ~np.isin(contexts[:, 2], chunk.kv_address)
    return held if held.sum() >= MANY else np.zeros_like(held)


def _levels(in_arena: Ints, packed: Ints) -> list[Call]:
    sources = ((in_arena, Keys.ARENA), (packed, Keys.PACKED))
    return [Call(pairs, keys, causal=False) for contexts, keys in sources for pairs in levels_of(contexts)]


def _with_tails(owners: tuple[Call, ...], in_arena: Ints, packed: Ints, rows: int) -> list[Call | TailCall]:
    """The calls of all rows, where short segments behind a few contexts have calls that see both."""
    *long, short = owners
    own = short.pairs
    tails: list[TailCall] = []
    for contexts, others, keys in ((in_arena, packed, Keys.ARENA), (packed, in_arena, Keys.PACKED)):
        chosen = find_tails(own, contexts, others, rows)
        if chosen.sum() >= MANY:
            tails.append(TailCall(tails_of(own[chosen], contexts), keys))
            own = own[~chosen]
    if tails:
        gone = covered_rows(np.concatenate([call.pairs for call in tails]), rows)
        in_arena, packed = without_rows(in_arena, gone), without_rows(packed, gone)
    return [*long, Call(own, Keys.OWN_ROWS, causal=True), *tails, *_levels(in_arena, packed)]


def _plan(calls: Sequence[Call | TailCall], rows: int, width: int) -> AttentionPlan:
    filled = tuple(call for call in calls if len(call.pairs))
    masks = [covered_rows(call.pairs, rows) for call in filled]
    if sum(int(mask.sum()) for mask in masks) == rows:
        return AttentionPlan(filled, apart=True, coverages=(np.ones(rows, np.int32),))
    coverages = [coverage_of(masks[:width], rows)]
    for begin in range(width, len(masks), width - 1):
        before = np.logical_or.reduce(masks[:begin])
        coverages.append(coverage_of([before, *masks[begin : begin + width - 1]], rows))
    return AttentionPlan(filled, apart=False, coverages=tuple(coverages))


def coverage_of(masks: Sequence[NDArray[np.bool_]], rows: int) -> Packed:
    """Bit i is set where the i-th mask has the row: int32 [rows]."""
    bits = np.zeros(rows, np.int32)
    for index, mask in enumerate(masks):
        bits |= mask.astype(np.int32) << index
    return bits


def _paint(target: Packed, pairs: Ints, values: Ints) -> None:
    """Set the query rows of each pair to its value."""
    rows = np.repeat(pairs[:, 0] - np.cumsum(pairs[:, 1]) + pairs[:, 1], pairs[:, 1])
    target[rows + np.arange(len(rows))] = np.repeat(values, pairs[:, 1])


def _answer_plan(answers: Ints, owners: tuple[Call, ...], levels: list[Call], width: int) -> AttentionPlan:
    """Owners become one query each; a level's pairs keep the answers among their rows."""
    calls = []
    for keys in (Keys.ARENA, Keys.PACKED):
        parts = [owner.pairs for owner in owners if (owner.keys is Keys.PACKED) == (keys is Keys.PACKED)]
        pairs = np.concatenate(parts)
        pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
        calls.append(Call(last_rows(pairs, answers), keys, causal=False))
    calls.extend(Call(answers_in(level.pairs, answers), level.keys, causal=False) for level in levels)
    return _plan(calls, len(answers), width)
