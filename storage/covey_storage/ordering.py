"""Token lists in; out come their lexicographic order and what neighbours begin with alike; knows no files.

The sorted longest-common-prefix index: two texts have in common what the least of the numbers between them says.
Everything is vectorized over texts; memory beside the result is bounded by `_BLOCK` tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Slots = NDArray[np.int32]

_BLOCK = 1 << 21
_WIDEST = 512


class Texts(Protocol):
    """Token lists by slot."""

    @property
    def lengths(self) -> NDArray[np.int32]:
        """Tokens of each slot."""
        ...

    def copy(self, slots: NDArray[np.int32], begins: Ints, lengths: Ints, out: NDArray[np.int32]) -> None:
        """Copy tokens begins[i]..begins[i] + lengths[i] - 1 of each slots[i], one after another, to `out`."""
        ...


@dataclass(frozen=True, eq=False)
class Order:
    """Texts in lexicographic order of their tokens, a text before those that it begins.

    slots: int32 [n]; common: int32 [n], how many tokens each has in common with the one before it, 0 for the first.
    """

    slots: Slots
    common: Slots


def sort_texts(texts: Texts, slots: Slots) -> Order:
    """Sort some of the texts: those that agree so far by two more tokens, or past all that none of them parts at."""
    slots = slots.copy()
    common = np.zeros(len(slots), np.int32)
    starts, sizes, depth = np.zeros(1, np.int64), np.array([len(slots)]), np.zeros(1, np.int64)
    if len(slots) < 2:
        return Order(slots, common)
    while len(starts):
        at, group = spans(starts, sizes), np.arange(len(starts)).repeat(sizes)
        pairs = _pairs_at(texts, slots[at], depth[group])
        ranked = np.lexsort((pairs, group)) if len(starts) > 1 else np.argsort(pairs, kind="stable")
        slots[at], pairs = slots[at[ranked]], pairs[ranked]
        new = np.ones(len(at), np.bool_)
        new[1:] = pairs[1:] != pairs[:-1]
        firsts = sizes.cumsum() - sizes
        new[firsts] = False
        splits = new.nonzero()[0]
        common[at[splits]] = depth[group[splits]] + (pairs[splits] >> 32 == pairs[splits - 1] >> 32)
        new[firsts] = True
        heads = new.nonzero()[0]
        counts = np.diff(heads, append=len(at))
        ended = (pairs[heads] & 0xFFFFFFFF) == 0
        alike = at[ended.repeat(counts) & ~new]
        common[alike] = texts.lengths[slots[alike]]
        open_ = (counts > 1) & ~ended
        above = group[heads[open_]]
        together = counts[open_] == sizes[above]
        starts, sizes, depth = at[heads[open_]], counts[open_], depth[above] + 2
        _skip(texts, slots, starts, sizes, depth, together.nonzero()[0])
    return Order(slots, common)


def extend(texts: Texts, known: Order, stop: int) -> Order:
    """The order of slots 0..stop - 1, of which the first ones are known."""
    start = len(known.slots)
    if start == stop:
        return known
    if 8 * (stop - start) > stop:
        return sort_texts(texts, np.arange(stop, dtype=np.int32))
    added = sort_texts(texts, np.arange(start, stop, dtype=np.int32))
    places = _places(texts, known, added)
    slots = np.insert(known.slots, places, added.slots)
    common = np.insert(known.common, places, added.common)
    changed = places + np.arange(len(places))
    changed = np.unique(np.concatenate([changed, changed + 1]))
    changed = changed[(changed > 0) & (changed < stop)]
    common[changed] = compare(texts, slots[changed - 1], slots[changed])[0]
    common[0] = 0
    return Order(slots, common)


def compare(texts: Texts, left: Slots, right: Slots) -> tuple[Ints, NDArray[np.bool_]]:
    """Of each pair of texts, how many first tokens they share, and whether the left one comes first."""
    alike = np.zeros(len(left), np.int64)
    before = np.zeros(len(left), np.bool_)
    open_, width = np.arange(len(left)), 8
    while len(open_):
        still = []
        for some in _slices(open_, width):
            ours = _read(texts, left[some], alike[some], width)
            theirs = _read(texts, right[some], alike[some], width)
            same = _alike(ours, theirs)
            alike[some] += same
            at = np.minimum(same, width - 1)[:, None]
            before[some] = (np.take_along_axis(ours, at, 1) < np.take_along_axis(theirs, at, 1))[:, 0]
            still.append(some[same == width])
        open_, width = np.concatenate(still), min(2 * width, _WIDEST)
    return alike, before


def _places(texts: Texts, known: Order, added: Order) -> Ints:
    """Before which of the known texts each added one belongs."""
    low, high = np.zeros(len(added.slots), np.int64), np.full(len(added.slots), len(known.slots))
    while True:
        open_ = (low < high).nonzero()[0]
        if len(open_) == 0:
            return low
        middle = (low[open_] + high[open_]) // 2
        _, before = compare(texts, added.slots[open_], known.slots[middle])
        high[open_[before]] = middle[before]
        low[open_[~before]] = middle[~before] + 1


def _skip(texts: Texts, slots: Slots, starts: Ints, sizes: Ints, depth: Ints, open_: Ints) -> None:
    """Add to the depth of some groups, in place, what all texts of each have in common from there."""
    width = 8
    while len(open_):
        some = sizes[open_]
        at, group = spans(starts[open_], some), open_.repeat(some)
        alike = np.empty(len(at), np.int64)
        for part in _slices(np.arange(len(at)), width):
            theirs = group[part]
            first = _read(texts, slots[starts[theirs]], depth[theirs], width)
            alike[part] = _alike(_read(texts, slots[at[part]], depth[theirs], width), first)
        least = np.minimum.reduceat(alike, some.cumsum() - some)
        depth[open_] += least
        open_, width = open_[least == width], min(2 * width, _WIDEST)


def _pairs_at(texts: Texts, slots: Slots, begins: Ints) -> NDArray[np.uint64]:
    """Two tokens of each text from a position on, as one number that sorts as they do; 0 stands for the end."""
    pairs = np.empty(len(slots), np.uint64)
    for part in _slices(np.arange(len(slots)), 2):
        two = (_read(texts, slots[part], begins[part], 2) + np.int64(1)).astype(np.uint64)
        pairs[part] = two[:, 0] << np.uint64(32) | two[:, 1]
    return pairs


def _read(texts: Texts, slots: Slots, begins: Ints, width: int) -> NDArray[np.int32]:
    """The `width` tokens of each text from a position on, int32 [n, width]; -1 beyond its end."""
    counts = np.clip(texts.lengths[slots] - begins, 0, width)
    total = int(counts.sum())
    block = np.full((len(slots), width), -1, np.int32)
    if total == block.size:
        texts.copy(slots, begins, counts, block.reshape(-1))
    elif total:
        found = np.empty(total, np.int32)
        texts.copy(slots, begins, counts, found)
        block[np.arange(width) < counts[:, None]] = found
    return block


def _alike(left: NDArray[np.int32], right: NDArray[np.int32]) -> Ints:
    """How many first tokens of each row agree; two ends do not."""
    differ = (left != right) | (left < 0)
    alike: Ints = np.where(differ.any(axis=1), differ.argmax(axis=1), np.int64(left.shape[1]))
    return alike


def _slices(what: Ints, width: int) -> list[Ints]:
    step = max(1, _BLOCK // width)
    return [what[at : at + step] for at in range(0, len(what), step)]


def spans(begins: Ints, lengths: Ints) -> Ints:
    """The positions begin, begin + 1, … of each span, one span after another."""
    ends = np.cumsum(lengths, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(begins - (ends - lengths), lengths) + np.arange(total, dtype=np.int64)
