"""Pairs (query row, rows, key address, keys), int64 [n, 4], go in; fewer and longer ones come out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.ranges import collapse, join_keys, join_rows

Ints = NDArray[np.int64]


def simplify(segments: Ints, contexts: Ints) -> tuple[Ints, Ints]:
    """Own pairs and contexts of segments [n, 3], joined as far as can be.

    Own pairs ascend by row; their last query sees all their keys, each earlier one a key less. Contexts
    ascend by row, outer before inner. Every row sees what it saw before.
    """
    ordered = segments[np.argsort(segments[:, 0], kind="stable")]
    own = np.column_stack([ordered, ordered[:, 1]])
    contexts = join_keys(contexts[(contexts[:, 1] > 0) & (contexts[:, 3] > 0)])
    while True:
        extended, left = _absorb(own, contexts)
        fused, left = fuse(extended), _outer_first(join_keys(join_rows(left)))
        if len(left) == len(contexts) and len(fused) == len(own):
            return fused, _unnest(left)
        own, contexts = fused, left


def levels_of(contexts: Ints) -> list[Ints]:
    """Contexts by levels of disjoint rows: each goes to the first level with room, outer ones first."""
    ends: list[int] = []
    chosen: list[list[int]] = []
    for index, (first, rows) in enumerate(contexts[:, :2].tolist()):
        level = next((level for level, end in enumerate(ends) if end <= first), len(ends))
        if level == len(ends):
            ends.append(0)
            chosen.append([])
        ends[level] = first + rows
        chosen[level].append(index)
    return [contexts[indices] for indices in chosen]


def in_row_order(contexts: Ints) -> Ints:
    """Ascending by row, outer before inner."""
    return contexts[np.lexsort((-contexts[:, 1], contexts[:, 0]))]


def fuse(own: Ints) -> Ints:
    """Of own pairs in row order, neighbours of which the second sees the first's keys and then its own become one."""
    if not len(own):
        return own
    follows = own[:-1, 0] + own[:-1, 1] == own[1:, 0]
    follows &= own[:-1, 2] == own[1:, 2]
    follows &= own[:-1, 3] + own[1:, 1] == own[1:, 3]
    fused = collapse(own, follows, column=1)
    fused[:, 3] = own[np.concatenate([~follows, [True]]), 3]
    return fused


def depths(pairs: Ints, rows: int) -> Ints:
    """How many of the pairs have each of `rows` query rows."""
    begins, ends = pairs[:, 0], pairs[:, 0] + pairs[:, 1]
    edges = np.bincount(begins, minlength=rows + 1) - np.bincount(ends, minlength=rows + 1)
    return np.cumsum(edges[:-1])


def covered_rows(pairs: Ints, rows: int) -> NDArray[np.bool_]:
    """Which of `rows` query rows any of the pairs has."""
    covered: NDArray[np.bool_] = depths(pairs, rows) > 0
    return covered


def without_rows(contexts: Ints, gone: NDArray[np.bool_]) -> Ints:
    """The contexts over the runs of their rows that are not gone, outer before inner by row; gone: bool [rows]."""
    kept = np.concatenate([[0], np.cumsum(~gone)])
    begins, ends = contexts[:, 0], contexts[:, 0] + contexts[:, 1]
    left = kept[ends] - kept[begins]
    parts = [contexts[left == contexts[:, 1]]]
    for first, rows, address, keys in contexts[(left > 0) & (left < contexts[:, 1])].tolist():
        edges = np.flatnonzero(
            np.diff(np.concatenate([[True], gone[first : first + rows], [True]]).astype(np.int8))
        )
        runs = edges.reshape(-1, 2)
        parts.append(
            np.column_stack(
                [first + runs[:, 0], runs[:, 1] - runs[:, 0], np.broadcast_to((address, keys), runs.shape)]
            )
        )
    return in_row_order(np.concatenate(parts))


def _absorb(own: Ints, contexts: Ints) -> tuple[Ints, Ints]:
    """Extend each own pair over the context of exactly its rows that ends where its keys begin."""
    holder = np.searchsorted(own[:, 0], contexts[:, 0], "right") - 1
    meets = (own[holder, :2] == contexts[:, :2]).all(axis=1)
    meets &= contexts[:, 2] + contexts[:, 3] == own[holder, 2]
    extended = own.copy()
    extended[holder[meets], 2] = contexts[meets, 2]
    extended[holder[meets], 3] += contexts[meets, 3]
    return extended, contexts[~meets]


def _outer_first(contexts: Ints) -> Ints:
    return contexts[np.lexsort((contexts[:, 2], -contexts[:, 1], contexts[:, 0]))]


def _unnest(contexts: Ints) -> Ints:
    """Contexts of which one ends where another begins, above the same rows, become ranges of disjoint rows.

    What follows is read with what it follows, in one call: nothing is left to merge there.
    """
    ends = contexts[:, 2] + contexts[:, 3]
    if not np.isin(contexts[:, 2], ends).any():
        return contexts
    found = [context.copy() for context in contexts]
    inner = [
        np.flatnonzero((contexts[:, 2] == end) & _inside(contexts, outer))
        for outer, end in zip(contexts, ends, strict=True)
    ]
    left: list[Ints] = []
    for outer, children in zip(found, inner, strict=True):
        for child in children:
            found[child][2] = outer[2]
            found[child][3] += outer[3]
        left.append(_rows_without(outer, contexts[children]) if len(children) else outer[None])
    return _outer_first(np.concatenate(left))


def _inside(contexts: Ints, outer: Ints) -> NDArray[np.bool_]:
    begins = contexts[:, 0]
    within: NDArray[np.bool_] = (begins >= outer[0]) & (begins + contexts[:, 1] <= outer[0] + outer[1])
    return within


def _rows_without(outer: Ints, inner: Ints) -> Ints:
    """The outer context over the runs of its rows that none of the inner ones, which ascend, has."""
    edges = np.concatenate(
        [outer[:1], np.column_stack([inner[:, 0], inner[:, 0] + inner[:, 1]]).ravel(), [outer[0] + outer[1]]]
    )
    runs = edges.reshape(-1, 2)
    runs = runs[runs[:, 1] > runs[:, 0]]
    return np.column_stack([runs[:, 0], runs[:, 1] - runs[:, 0], np.broadcast_to(outer[2:], runs.shape)])
