"""Pairs under short shared contexts go in, pairs over packed rows come out; writes and copies nothing itself.

Short contexts that many rows share are copied before what follows them, so that nothing is left to merge
there. Merging a level costs every row below it another pass over its queries and results (about 0.5 us a
token on an H200); copying the keys and values of a row costs about a seventh of that. So a head of a few
tokens before every document is copied before each document, and one before the anchors of a join before each
anchor. What begins at one address shares a copy, and one question is copied behind its document, so that it needs no
merge at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.hopper.pairs import Ints, covered_rows, fuse, in_row_order, levels_of, without_rows

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
    deeper = covered_rows(np.concatenate([contexts[:0], *levels[2:]]), rows)
    tail_of, has_tail = _tails(own, second, deeper)
    replaced = np.zeros(len(second), np.bool_)
    likely = (outer[:, 1] >= HEAD_ROWS) & (outer[:, 3] <= HEAD_KEYS)
    kept.append(outer[~likely])
    for head in outer[likely]:
        inner = np.flatnonzero(_within(second, head))
        mine = np.flatnonzero(_within(own, head) & direct)
        followers = np.concatenate([second[inner], own[mine]])
        carriers = np.flatnonzero(has_tail[inner])
        packed = packer.pack(head, followers, carriers, own[tail_of[inner[carriers]]])
        if packed is None:
            kept.append(head[None])
            continue
        pairs, tails, carried = packed
        left_over = np.ones(len(inner), np.bool_)
        left_over[carriers[carried]] = False
        taken_second.append(pairs[: len(inner)][left_over])
        taken_own += [pairs[len(inner) :], tails]
        replaced[inner] = True
        packed_own[mine] = True
        packed_own[tail_of[inner[carriers[carried]]]] = True
        kept.append(without_rows(head[None], covered_rows(followers, rows)))
    left = np.concatenate([*kept, second[~replaced]])
    own_pairs = fuse(_ordered(taken_own))
    return PackedHeads(packed_own, own_pairs, in_row_order(left), _ordered(taken_second), packer.source())


def _tails(own: Ints, contexts: Ints, deeper: NDArray[np.bool_]) -> tuple[Ints, NDArray[np.bool_]]:
    """For each context the own pair of exactly its rows, and whether there is one that sees nothing else besides."""
    if not len(own):
        return np.zeros(len(contexts), np.int64), np.zeros(len(contexts), np.bool_)
    holder = np.searchsorted(own[:, 0], contexts[:, 0], "right") - 1
    found: NDArray[np.bool_] = (own[holder, :2] == contexts[:, :2]).all(axis=1) & ~deeper[contexts[:, 0]]
    return holder, found & (own[holder, 1] == own[holder, 3])


class _Packer:
    def __init__(self, room: int) -> None:
        self._room = room
        self._used = 0
        self._parts: list[Ints] = []

    def pack(
        self, head: Ints, followers: Ints, carriers: Ints, tails: Ints
    ) -> tuple[Ints, Ints, NDArray[np.bool_]] | None:
        """Followers with the head before their keys, addressed by position among the packed rows.

        Followers whose keys begin at one address share a copy. tails: own pairs of the rows of some followers, the
        carriers; one a copy is packed behind it, so that it sees all its keys in one range. Returns the followers, the
        tails that were packed, and which those are; None where copying costs more than merging the head for each
        follower, or does not fit.
        """
        begins, which = np.unique(followers[:, 2], return_inverse=True)
        longest = np.zeros(len(begins), np.int64)
        np.maximum.at(longest, which, followers[:, 3])
        whole = np.flatnonzero(followers[carriers, 3] == longest[which[carriers]])
        copies, first = np.unique(which[carriers[whole]], return_index=True)
        chosen = whole[first]
        behind = np.zeros((len(begins), 2), np.int64)
        behind[copies] = tails[chosen][:, 2:]
        lengths = head[3] + longest + behind[:, 1]
        copied, worth = int(lengths.sum()), WORTH * int(followers[:, 1].sum())
        if not len(begins) or copied > min(worth, self._room - self._used):
            return None
        starts = self._used + np.cumsum(lengths) - lengths
        ranges = np.empty((3 * len(begins), 2), np.int64)
        ranges[0::3] = head[2:]
        ranges[1::3] = np.column_stack([begins, longest])
        ranges[2::3] = behind
        self._parts.append(ranges)
        self._used += copied
        carried = np.zeros(len(carriers), np.bool_)
        carried[chosen] = True
        placed = np.column_stack([tails[chosen][:, :2], starts[copies], lengths[copies]])
        return (
            np.column_stack([followers[:, :2], starts[which], followers[:, 3] + head[3]]),
            placed,
            carried,
        )

    def source(self) -> NDArray[np.int32]:
        """The arena address of every packed row."""
        ranges = np.concatenate([np.zeros((0, 2), np.int64), *self._parts])
        starts, lengths = ranges[:, 0], ranges[:, 1]
        before = np.cumsum(lengths) - lengths
        return (np.repeat(starts - before, lengths) + np.arange(self._used)).astype(np.int32)


def _within(pairs: Ints, context: Ints) -> NDArray[np.bool_]:
    inside: NDArray[np.bool_] = (pairs[:, 0] >= context[0]) & (pairs[:, 0] < context[0] + context[1])
    return inside


def _ordered(parts: list[Ints]) -> Ints:
    pairs = np.concatenate(parts)
    return pairs[np.argsort(pairs[:, 0], kind="stable")]
