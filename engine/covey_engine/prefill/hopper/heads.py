"""Pairs under short shared contexts go in, pairs over packed copies come out; copies nothing itself.

Short contexts that many rows share are copied before what follows them, so that nothing is left to merge
there. Merging a level costs every row below it another pass over its queries and results (about 0.5 us a
token on an H200); copying the keys and values of a row costs about a seventh of that. So a head of a few
tokens before every document is copied before each document, and one before the anchors of a join before each
anchor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.hopper.pairs import Ints, covered_rows, levels_of

WORTH = 5
"""Copied rows that a query row is worth which then needs one merge less."""

HEAD_KEYS = 1024
"""Longest head that is looked at."""

HEAD_ROWS = 256
"""Rows that a head must have below it to be looked at: merging fewer costs less than planning."""


@dataclass(frozen=True, eq=False)
class PackedHeads:
    """Own pairs and contexts after packing.

    packed_own: bool over the own pairs given, those that `own` replaces; contexts: those that read the arena;
    own and packed_contexts: pairs whose addresses are positions in `source`, int32 arena addresses.
    """

    packed_own: NDArray[np.bool_]
    own: Ints
    contexts: Ints
    packed_contexts: Ints
    source: NDArray[np.int32]


def pack_heads(own: Ints, contexts: Ints, rows: int, room: int, short: int) -> PackedHeads:
    """Pack at most `room` rows. Own pairs of at most `short` rows are not worth it: they stay as they are."""
    levels = levels_of(contexts)
    packer = _Packer(room)
    packed_own = np.zeros(len(own), np.bool_)
    if not levels:
        return PackedHeads(packed_own, own[:0], contexts, contexts[:0], packer.source())
    outer = levels[0]
    second = levels[1] if len(levels) > 1 else contexts[:0]
    below = covered_rows(np.concatenate([contexts[:0], *levels[1:]]), rows)
    direct = ~below[own[:, 0]] & (own[:, 1] > short)
    kept, taken_own, taken_second = levels[2:], [own[:0]], [contexts[:0]]
    replaced = np.zeros(len(second), np.bool_)
    likely = (outer[:, 1] >= HEAD_ROWS) & (outer[:, 3] <= HEAD_KEYS)
    kept.append(outer[~likely])
    for head in outer[likely]:
        inner = _within(second, head)
        mine = _within(own, head) & direct
        followers = np.concatenate([second[inner], own[mine]])
        packed = packer.pack(head, followers)
        if packed is None:
            kept.append(head[None])
            continue
        taken_second.append(packed[: inner.sum()])
        taken_own.append(packed[inner.sum() :])
        replaced |= inner
        packed_own |= mine
        kept.append(_without(head, followers, rows))
    left = np.concatenate([*kept, second[~replaced]])
    return PackedHeads(
        packed_own, _ordered(taken_own), _by_rows(left), _ordered(taken_second), packer.source()
    )


class _Packer:
    def __init__(self, room: int) -> None:
        self._room = room
        self._used = 0
        self._parts: list[Ints] = []

    def pack(self, head: Ints, followers: Ints) -> Ints | None:
        """Followers with the head before their keys, addressed by position among the packed rows.

        Followers whose keys begin at one address share a copy. None where copying costs more than merging the head
        for each follower, or does not fit.
        """
        begins, which = np.unique(followers[:, 2], return_inverse=True)
        longest = np.zeros(len(begins), np.int64)
        np.maximum.at(longest, which, followers[:, 3])
        lengths = longest + head[3]
        copied, worth = int(lengths.sum()), WORTH * int(followers[:, 1].sum())
        if not len(begins) or copied > min(worth, self._room - self._used):
            return None
        starts = self._used + np.cumsum(lengths) - lengths
        ranges = np.empty((2 * len(begins), 2), np.int64)
        ranges[0::2] = head[2:]
        ranges[1::2] = np.column_stack([begins, longest])
        self._parts.append(ranges)
        self._used += copied
        return np.column_stack([followers[:, :2], starts[which], followers[:, 3] + head[3]])

    def source(self) -> NDArray[np.int32]:
        """The arena address of every packed row."""
        ranges = np.concatenate([np.zeros((0, 2), np.int64), *self._parts])
        starts, lengths = ranges[:, 0], ranges[:, 1]
        before = np.cumsum(lengths) - lengths
        return (np.repeat(starts - before, lengths) + np.arange(self._used)).astype(np.int32)


def _within(pairs: Ints, context: Ints) -> NDArray[np.bool_]:
    inside: NDArray[np.bool_] = (pairs[:, 0] >= context[0]) & (pairs[:, 0] < context[0] + context[1])
    return inside


def _without(head: Ints, followers: Ints, rows: int) -> Ints:
    """The head's context over the rows that no follower has."""
    left = covered_rows(head[None], rows) & ~covered_rows(followers, rows)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], left, [False]]).astype(np.int8)))
    runs = edges.reshape(-1, 2)
    keys = np.broadcast_to(head[2:], runs.shape)
    return np.column_stack([runs[:, 0], runs[:, 1] - runs[:, 0], keys])


def _ordered(parts: list[Ints]) -> Ints:
    pairs = np.concatenate(parts)
    return pairs[np.argsort(pairs[:, 0], kind="stable")]


def _by_rows(contexts: Ints) -> Ints:
    """In row order, outer before inner."""
    return contexts[np.lexsort((-contexts[:, 1], contexts[:, 0]))]
