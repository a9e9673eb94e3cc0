"""Texts in lexicographic order go in; out come the beginnings worth sharing, and each text cut into pieces at them.

The prefix tree of the texts has an inner node wherever at least two texts part, or one ends within another. Which of
them to share is decided by `Rule`, in tokens. Everything is vectorized over texts; loops run over levels of the tree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.scheduling.groups import Ints, Slots

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Rule:
    """What a shared beginning costs, in tokens, against what it saves.

    A node of t tokens with k branches is computed once instead of k times: it saves t * (k - 1). It costs `node`, a
    segment and an attention range more in a chunk, and `branch` for each branch, whose first rows fill a tile of the
    attention kernel only partly. Every row below reads and merges one more partial result, hence `row` for each of the
    tokens below, and of `suffix` more a text for what a prompt adds to it: a filter's documents under a shared head
    took 8.27 us a token, alone 7.8 (bench/RESULTS.md). A node is kept where it saves more than it costs.

    level: each piece is one more argument of every order, host time for every text, so a level of the tree must save
    so much a text of the column. depth: pieces that may be shared by one text at most; where beginnings nest deeper,
    those that save most are kept.
    """

    node: float = 16.0
    branch: float = 2.0
    row: float = 1 / 16
    suffix: int = 16
    level: float = 0.25
    depth: int = 16


EVERYTHING = Rule(0.0, 0.0, 0.0, 0, 0.0, 1 << 20)
"""Share whatever two texts begin with."""


@dataclass(frozen=True, eq=False)
class Cut:
    """Consecutive pieces of each text, by slot.

    names: for each piece, int32 [texts], one of the texts that have it too, the same for all of them; -1 where a text
    has fewer pieces. ends: for each piece, int32 [texts], the tokens up to its end; a text's length where it has fewer
    pieces. ranks: int32 [texts], the place of each text's names in their ascending order: those which begin alike are
    neighbours, equal texts have one place.
    """

    names: tuple[Slots, ...]
    ends: tuple[Slots, ...]
    ranks: Slots


def cut_texts(slots: Slots, common: Slots, lengths: Slots, rule: Rule) -> Cut | None:
    """Cut texts at the beginnings worth sharing, None where there are none.

    slots: in lexicographic order; common: what each shares with the one before it; lengths: by slot.
    """
    count = len(slots)
    # No selection saves more than the whole tree does.
    if count < 2 or int(common.sum()) <= rule.level * count:
        return None
    least = int(rule.branch) + 1
    shared = np.where(common < least, 0, common).astype(np.int64)
    if not shared.any():
        return None
    theirs = lengths[slots].astype(np.int64)
    nodes = _Nodes(shared, theirs)
    choice = _choose(nodes, rule)
    levels = _worthwhile(nodes, choice, rule)
    return _cut(slots, theirs, nodes, choice, levels) if levels else None


class _Nodes:
    """The inner nodes of the prefix tree.

    end: int64 [nodes], tokens from the top to its end; first: rank of its first text; texts: how many there are below;
    parent: the node above, -1 for none; own: tokens below the parent; levels: the nodes of each depth, from the top.
    By text: above: the deepest node whose beginning it has, -1 for none; rest: its tokens below that.
    """

    def __init__(self, common: Ints, lengths: Ints) -> None:
        count = len(lengths)
        # One bound more, so that every node lies between two positions that share less.
        shared = np.concatenate([common, [0]])
        marks = shared.nonzero()[0]
        left = _smaller_before(shared, marks)
        right = count - _smaller_before(shared[::-1], count - marks[::-1])[::-1]
        keys = (left << 32) + shared[marks]
        _, firsts, numbers = np.unique(keys, return_index=True, return_inverse=True)
        self.count = len(firsts)
        node = np.full(count + 1, -1)
        node[marks] = numbers.reshape(-1)
        low, high = left[firsts], right[firsts]
        self.end = shared[marks[firsts]]
        self.first = low
        self.texts = high - low
        self.parent = node[np.where(shared[low] >= shared[high], low, high)]
        self.own = self.end - np.where(self.parent >= 0, self.end[self.parent], 0)
        before, after = shared[:-1], shared[1:]
        self.above = np.where(before >= after, node[:-1], node[1:])
        self.rest = lengths - np.where(self.above >= 0, self.end[self.above], 0)
        self.levels = _by_depth(self.parent)


@dataclass(frozen=True, eq=False)
class _Choice:
    """What is shared: keep: bool [nodes]; above: int64 [nodes], the nearest kept node over each, -1 for none; depth:
    kept nodes from the top, with itself."""

    keep: Flags
    above: Ints
    depth: Ints


def _smaller_before(values: Ints, marks: Ints) -> Ints:
    """For each marked position, the nearest one before it with a smaller value; unmarked values are 0, so is the first.

    Each position jumps to where the one it looks at has got: over nothing but values that are not smaller.
    """
    found = np.arange(-1, len(values) - 1)
    open_ = marks
    while True:
        at = found[open_]
        large = values[at] >= values[open_]
        if not large.any():
            return found[marks]
        open_ = open_[large]
        found[open_] = found[at[large]]


def _by_depth(parent: Ints) -> list[Ints]:
    depth = np.ones(len(parent), np.int64)
    jump = parent.copy()
    while (open_ := (jump >= 0).nonzero()[0]).size:
        depth[open_] += depth[jump[open_]]
        jump[open_] = jump[jump[open_]]
    order = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[order], np.arange(1, int(depth.max(initial=0)) + 2))
    return [order[a:b] for a, b in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)]


def _choose(nodes: _Nodes, rule: Rule) -> _Choice:
    """Keep what pays; where that nests too deeply, the nodes of those chains must pay more and more."""
    dues = np.zeros(nodes.count)
    keep, gain = _paying(nodes, rule, dues)
    choice = _nested(nodes, keep)
    for _ in range(64):
        if int(choice.depth.max(initial=0)) <= rule.depth:
            break
        deep = choice.depth.copy()
        for level in reversed(nodes.levels):
            inner = level[nodes.parent[level] >= 0]
            np.maximum.at(deep, nodes.parent[inner], deep[inner])
        chains = keep & (deep > rule.depth)
        dues[deep > rule.depth] *= 1.25
        dues[chains] = np.maximum(dues[chains], gain[chains].min() + 1)
        keep, gain = _paying(nodes, rule, dues)
        choice = _nested(nodes, keep)
    return choice


def _paying(nodes: _Nodes, rule: Rule, dues: NDArray[np.float64]) -> tuple[Flags, NDArray[np.float64]]:
    """Which nodes save more than they cost, and how much by their own; `dues`: what each has to pay besides.

    From the deepest on: a node that is not kept leaves its branches to the one above.
    """
    texts = nodes.above >= 0
    branches = np.bincount(nodes.above[texts], minlength=nodes.count).astype(np.float64)
    rows = np.bincount(nodes.above[texts], nodes.rest[texts], nodes.count)
    keep, gains = np.zeros(nodes.count, np.bool_), np.zeros(nodes.count)
    for level in reversed(nodes.levels):
        own, k, below = nodes.own[level], branches[level], rows[level]
        gain = (
            own * (k - 1)
            - rule.node
            - rule.branch * k
            - rule.row * (below + rule.suffix * nodes.texts[level])
        )
        kept = gain > dues[level]
        keep[level], gains[level] = kept, gain
        parent = nodes.parent[level]
        inner = parent >= 0
        np.add.at(branches, parent[inner], np.where(kept, 1, k)[inner])
        np.add.at(rows, parent[inner], (below + own * np.where(kept, 1, k))[inner])
    return keep, gains


def _nested(nodes: _Nodes, keep: Flags) -> _Choice:
    above, depth = np.full(nodes.count, -1), keep.astype(np.int64)
    for level in nodes.levels[1:]:
        parent = nodes.parent[level]
        above[level] = np.where(keep[parent], parent, above[parent])
        depth[level] += depth[parent]
    return _Choice(keep, above, depth)


def _worthwhile(nodes: _Nodes, choice: _Choice, rule: Rule) -> int:
    """How many levels of kept nodes to use."""
    kept = choice.keep.nonzero()[0]
    kept = kept[choice.depth[kept] <= rule.depth]
    above = choice.above[kept]
    tokens = nodes.end[kept] - np.where(above >= 0, nodes.end[above], 0)
    saved = np.bincount(choice.depth[kept], tokens * (nodes.texts[kept] - 1), 1)[1:]
    balance = saved.cumsum() - rule.level * len(nodes.above) * np.arange(1, len(saved) + 1)
    best = int(balance.argmax()) if len(balance) else 0
    return best + 1 if len(balance) and balance[best] > 0 else 0


def _cut(slots: Slots, lengths: Ints, nodes: _Nodes, choice: _Choice, levels: int) -> Cut:
    count = len(slots)
    at = nodes.above.copy()
    while (off := (at >= 0) & (~choice.keep[at] | (choice.depth[at] > levels))).any():
        at = np.where(off, choice.above[at], at)
    names = [np.full(count, -1, np.int32) for _ in range(levels + 1)]
    whole = np.empty(count, np.int32)
    whole[slots] = lengths
    ends = [whole.copy() for _ in range(levels + 1)]
    shared = np.where(at >= 0, choice.depth[at], 0)
    rest = (lengths > np.where(at >= 0, nodes.end[at], 0)).nonzero()[0]
    for level in range(levels, -1, -1):
        here = (shared > level).nonzero()[0]
        node = at[here]
        names[level][slots[here]] = slots[nodes.first[node]]
        ends[level][slots[here]] = nodes.end[node]
        at[here] = choice.above[node]
        own = slots[rest[shared[rest] == level]]
        names[level][own] = own
    order = np.lexsort(names[::-1])
    apart = np.zeros(count, np.bool_)
    for name in names:
        apart[1:] |= np.diff(name[order]) != 0
    ranks = np.empty(count, np.int32)
    ranks[order] = apart.cumsum(dtype=np.int32)
    return Cut(tuple(names), tuple(ends), ranks)
