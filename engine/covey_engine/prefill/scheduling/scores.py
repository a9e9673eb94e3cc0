"""Labels go in, their trie comes out; logits at its nodes go in, scores of whole items come out; schedules nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.api import Labels
from covey_engine.prefill.readout import Head
from covey_engine.prefill.scheduling.groups import Ints


@dataclass(frozen=True, eq=False)
class Trie:
    """The inner nodes of some labels' trie, depth first.

    paths: int32 [nodes, levels], each node's tokens, then -1. Edges stand by node: tokens: int64 [edges], the child's
    token; first: int64 [nodes + 1], each node's first edge. steps: the edges of every label, label after label;
    begins: where each label's begin.
    """

    paths: NDArray[np.int32]
    tokens: Ints
    first: Ints
    steps: Ints
    begins: Ints

    @staticmethod
    def of(labels: Labels) -> Trie:
        """The trie of token tuples, none empty."""
        inner = sorted({label[:n] for label in labels.labels for n in range(len(label))})
        number = {node: n for n, node in enumerate(inner)}
        walks = [[(number[label[:n]], token) for n, token in enumerate(label)] for label in labels.labels]
        edges = sorted({edge for walk in walks for edge in walk})
        place = {edge: n for n, edge in enumerate(edges)}
        paths = np.full((len(inner), max(map(len, inner))), -1, np.int32)
        for node, path in zip(inner, paths, strict=True):
            path[: len(node)] = node
        return Trie(
            paths,
            np.array([token for _, token in edges]),
            np.searchsorted([node for node, _ in edges], np.arange(len(inner) + 1)),
            np.array([place[edge] for walk in walks for edge in walk]),
            np.cumsum([0, *map(len, walks[:-1])]),
        )

    def __len__(self) -> int:
        return len(self.paths)


class Scores:
    """What is known of the items of an ask for labels, from the first of an item's nodes to its last."""

    def __init__(self, trie: Trie) -> None:
        self._trie = trie
        self._items = np.empty(0, np.int64)
        self._left = np.empty(0, np.int64)
        self._edges = np.empty((0, len(trie.tokens)), np.float32)

    def take(
        self, numbers: Ints, logits: NDArray[np.float32], head: Head
    ) -> tuple[Ints, NDArray[np.float32]]:
        """Read the answers of a join's items; the items that are complete now, and their scores [items, labels].

        Scores that are not finite are NaN, and then all of the item's.
        """
        items, which = np.unique(numbers // len(self._trie), return_inverse=True)
        edges = np.empty((len(items), len(self._trie.tokens)), np.float32)
        left = np.full(len(items), len(self._trie))
        _, here, there = np.intersect1d(items, self._items, assume_unique=True, return_indices=True)
        edges[here], left[here] = self._edges[there], self._left[there]
        self._read(edges, which, numbers % len(self._trie), logits, head)
        left -= np.bincount(which, minlength=len(items))
        assert (left >= 0).all()
        others = np.ones(len(self._items), np.bool_)
        others[there] = False
        open_ = left > 0
        self._items = np.concatenate([self._items[others], items[open_]])
        self._left = np.concatenate([self._left[others], left[open_]])
        self._edges = np.concatenate([self._edges[others], edges[open_]])
        return items[~open_], self._summed(edges[~open_])

    def _read(
        self, edges: NDArray[np.float32], items: Ints, nodes: Ints, logits: NDArray[np.float32], head: Head
    ) -> None:
        """Write the log-probabilities of the nodes' children."""
        assert head.normalizer
        trie = self._trie
        begins, counts = trie.first[nodes], trie.first[nodes + 1] - trie.first[nodes]
        edge = (begins - (counts.cumsum() - counts)).repeat(counts) + np.arange(counts.sum())
        row = np.arange(len(nodes)).repeat(counts)
        column = np.searchsorted(head.tokens, trie.tokens)
        with np.errstate(invalid="ignore"):
            edges[items[row], edge] = logits[row, column[edge]] - logits[row, -1]

    def _summed(self, edges: NDArray[np.float32]) -> NDArray[np.float32]:
        trie = self._trie
        with np.errstate(invalid="ignore"):
            steps = edges.astype(np.float64)[:, trie.steps]
            scores = np.add.reduceat(steps, trie.begins, axis=1).astype(np.float32)
        scores[~np.isfinite(scores).all(axis=1)] = np.nan
        return scores
