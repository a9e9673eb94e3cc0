"""The prefix tree in the arena, as arrays: which prefixes have their KV there, and who keeps them.

A node is a range of the arena: a segment of a prompt under its parent, or a part of a long one. It is kept while an
item holds it, while it has children, or while an order claims its prefix. Prefixes that are in one chunk only are
never nodes here. Node 0 is the empty prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill import claims
from covey_engine.prefill.arena import Arena
from covey_engine.prefill.groups import Ints
from covey_engine.prefill.kinds import Kind, key

Nodes = Ints
"""Node numbers, int64."""


class Tree:
    """Arrays by node number.

    parent; address, length: its range; end: position after its last token; level: how many segments of the prompt are
    complete with it; offset: how many tokens of the next one are there too; holds: items that hold it; waiting: those
    of them whose answer is not known; children: nodes under it. kinds, paths: its kind, and its slots by column
    segment; None for prefixes that depend on a partner, which only their items can find.
    """

    _FIELDS = ("parent", "address", "length", "end", "level", "offset", "holds", "waiting", "children")

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.parent: Nodes
        self.address: Ints
        self.length: Ints
        self.end: Ints
        self.level: Ints
        self.offset: Ints
        self.holds: Ints
        self.waiting: Ints
        self.children: Ints
        for name in self._FIELDS:
            setattr(self, name, np.zeros(256, np.int64))
        self.kinds: list[Kind | None] = [None] * 256
        self.paths: list[tuple[int, ...]] = [()] * 256
        self._keys: list[int] = [0] * 256
        self._named = np.zeros(256, np.bool_)
        self._unused = np.arange(255, 0, -1, dtype=np.int64)

    def add(
        self,
        parents: Nodes,
        addresses: Ints,
        lengths: Ints,
        ends: Ints,
        levels: Ints,
        offsets: Ints | int = 0,
    ) -> Nodes:
        """Add nodes whose ranges the caller allocated; parents may be among the new ones of an earlier call only."""
        count = len(parents)
        while len(self._unused) < count:
            self._grow()
        nodes, self._unused = (
            self._unused[-count:][::-1] if count else self._unused[:0],
            self._unused[: len(self._unused) - count],
        )
        self.parent[nodes] = parents
        self.address[nodes] = addresses
        self.length[nodes] = lengths
        self.end[nodes] = ends
        self.level[nodes] = levels
        self.offset[nodes] = offsets
        self.holds[nodes] = self.waiting[nodes] = self.children[nodes] = 0
        np.add.at(self.children, parents, 1)
        return nodes

    def name(self, nodes: Nodes, kind: Kind, slots: Sequence[int], paths: Iterable[tuple[int, ...]]) -> None:
        """Make nodes findable by kind and slots, so that other items and orders meet there."""
        parents = self.parent[nodes].tolist()
        for node, parent, slot, path in zip(nodes.tolist(), parents, slots, paths, strict=True):
            self.kinds[node], self.paths[node] = kind, path
            self._keys[node] = key(parent, slot)
            kind.live[self._keys[node]] = node
        self._named[nodes] = True

    def hold(self, nodes: Nodes, waiting: bool) -> None:
        """Items take hold of nodes (0: of nothing)."""
        np.add.at(self.holds, nodes, 1)
        if waiting:
            np.add.at(self.waiting, nodes, 1)

    def release(self, nodes: Nodes, waiting: bool) -> None:
        """Items let go; nobody is freed before `prune`."""
        np.subtract.at(self.holds, nodes, 1)
        if waiting:
            np.subtract.at(self.waiting, nodes, 1)

    def climb(self, nodes: Nodes, level: int) -> Nodes:
        """The deepest node above (or at) each that is not beyond the first `level` segments."""
        while True:
            beyond = (self.level[nodes] > level) | ((self.level[nodes] == level) & (self.offset[nodes] > 0))
            if not beyond.any():
                return nodes
            nodes = np.where(beyond, self.parent[nodes], nodes)

    def prune(self, nodes: Nodes) -> None:
        """Free those of the nodes that nobody keeps, and then their parents likewise."""
        nodes = np.unique(nodes)
        while len(nodes):
            nodes = nodes[(self.holds[nodes] == 0) & (self.children[nodes] == 0) & (nodes > 0)]
            nodes = self._unclaimed(nodes)
            if len(nodes) == 0:
                return
            parents = self.parent[nodes]
            self._remove(nodes)
            nodes = np.unique(parents)

    def sweep(self, kinds: Iterable[Kind]) -> None:
        """Free the nodes of some kinds that were kept for claims which are gone."""
        found = [node for kind in kinds for node in kind.live.values()]
        if found:
            self.prune(np.array(found, np.int64))

    def evict(self, nodes: Nodes) -> None:
        """Drop nodes without children although they are kept; whoever holds them must take `parent` instead."""
        assert (self.children[nodes] == 0).all()
        for kind, members in self._by_kind(nodes):
            columns, ends = self._columns(kind, members), self.end[members]
            claims.lose(kind, columns, ends)
        parents = self.parent[nodes]
        np.add.at(self.holds, parents, self.holds[nodes])
        np.add.at(self.waiting, parents, self.waiting[nodes])
        self._remove(nodes)

    def used(self) -> Nodes:
        """All nodes."""
        used = np.ones(len(self.parent), np.bool_)
        used[self._unused] = False
        used[0] = False
        return np.flatnonzero(used)

    def check(self) -> None:
        """Assert that nodes and arena agree: free + resident + reserved = total."""
        nodes = self.used()
        reserved = (self.holds[nodes] == self.waiting[nodes]) & (self.holds[nodes] > 0)
        for kind, members in self._by_kind(nodes):
            wanted = claims.wanted(kind, self._columns(kind, members), len(members))
            reserved[np.isin(nodes, members[wanted])] = False
        self.arena.check(self.address[nodes], self.length[nodes], reserved)
        kept = (self.holds[nodes] > 0) | (self.children[nodes] > 0)
        for kind, members in self._by_kind(nodes[~kept]):
            assert claims.wanted(kind, self._columns(kind, members), len(members)).all(), "kept for nobody"
        assert self._named[nodes[~kept]].all(), "kept for nobody"
        counts = np.bincount(self.parent[nodes], minlength=len(self.parent))
        assert (counts[nodes] == self.children[nodes]).all()

    def _unclaimed(self, nodes: Nodes) -> Nodes:
        """Those of the nodes that no order claims."""
        free = np.ones(len(nodes), np.bool_)
        for kind, members in self._by_kind(nodes):
            # A row that counts nothing and shares with nobody has begun, or it would have no node.
            if kind.shared or any(claim.counts is not None for claim in kind.claims):
                wanted = claims.wanted(kind, self._columns(kind, members), len(members))
                free[np.isin(nodes, members[wanted])] = False
        return nodes[free]

    def _by_kind(self, nodes: Nodes) -> list[tuple[Kind, Nodes]]:
        found: dict[Kind, list[int]] = {}
        for node in nodes[self._named[nodes]].tolist():
            kind = self.kinds[node]
            assert kind is not None
            found.setdefault(kind, []).append(node)
        return [(kind, np.array(members, np.int64)) for kind, members in found.items()]

    def _columns(self, kind: Kind, nodes: Nodes) -> list[NDArray[np.int32]]:
        paths = [self.paths[node] for node in nodes.tolist()]
        return [np.array(column, np.int32) for column in zip(*paths, strict=True)]

    def _remove(self, nodes: Nodes) -> None:
        self.arena.release(self.address[nodes], self.length[nodes])
        np.subtract.at(self.children, self.parent[nodes], 1)
        for node in nodes[self._named[nodes]].tolist():
            kind = self.kinds[node]
            assert kind is not None
            del kind.live[self._keys[node]]
            self.kinds[node] = None
        self._named[nodes] = False
        self._unused = np.concatenate([self._unused, nodes[::-1]])

    def _grow(self) -> None:
        size = len(self.parent)
        for name in self._FIELDS:
            setattr(self, name, np.concatenate([getattr(self, name), np.zeros(size, np.int64)]))
        self.kinds += [None] * size
        self.paths += [()] * size
        self._keys += [0] * size
        self._named = np.concatenate([self._named, np.zeros(size, np.bool_)])
        self._unused = np.concatenate([np.arange(2 * size - 1, size - 1, -1, dtype=np.int64), self._unused])
