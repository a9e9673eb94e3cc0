"""The prefix tree in the arena, as arrays: which prefixes have their KV there, and who keeps them.

A node is a range of the arena: a segment of a prompt under its parent, or a part of a long one. It is kept while an
item holds it, while it has children, or while an order claims its prefix. Prefixes that are in one chunk only are
never nodes here. Node 0 is the empty prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from covey_engine.prefill.scheduling.arena import Arena
from covey_engine.prefill.scheduling.claims import Claim, find
from covey_engine.prefill.scheduling.groups import Ints
from covey_engine.prefill.scheduling.kinds import Kind, key

Nodes = Ints
"""Node numbers, int64."""


class Tree:
    """Arrays by node number.

    parent; address, length: its range; end: position after its last token; level: how many segments of the prompt are
    complete with it; offset: how many tokens of the next one are there too; depth: nodes from the top, with itself;
    holds: items that hold it; waiting: those of them whose answer is not known; children: nodes under it. By name, for
    nodes that do not depend on a partner (others only their items can find): kinds, paths: its kind, and its slots by
    column segment; claimants: who may want it, with the group.
    """

    _FIELDS = (
        "parent",
        "address",
        "length",
        "end",
        "level",
        "offset",
        "depth",
        "holds",
        "waiting",
        "children",
    )

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.parent: Nodes
        self.address: Ints
        self.length: Ints
        self.end: Ints
        self.level: Ints
        self.offset: Ints
        self.depth: Ints
        self.holds: Ints
        self.waiting: Ints
        self.children: Ints
        for name in self._FIELDS:
            setattr(self, name, np.zeros(256, np.int64))
        self.kinds: list[Kind | None] = [None] * 256
        self.paths: list[tuple[int, ...]] = [()] * 256
        self.claimants: list[list[tuple[Claim, int]]] = [[]] * 256
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
        self.depth[nodes] = self.depth[parents] + 1
        self.holds[nodes] = self.waiting[nodes] = self.children[nodes] = 0
        np.add.at(self.children, parents, 1)
        return nodes

    def name(
        self,
        nodes: Nodes,
        kind: Kind,
        slots: Sequence[int],
        paths: Iterable[tuple[int, ...]],
        claimants: Iterable[list[tuple[Claim, int]]],
    ) -> None:
        """Make nodes findable by kind and slots, so that other items and orders meet there."""
        parents = self.parent[nodes].tolist()
        for node, parent, slot, path, wanted in zip(
            nodes.tolist(), parents, slots, paths, claimants, strict=True
        ):
            self.kinds[node], self.paths[node], self.claimants[node] = kind, path, wanted
            self._keys[node] = key(parent, slot)
            kind.live[self._keys[node]] = node
        self._named[nodes] = True

    def attach(self, claim: Claim) -> None:
        """Let a new claim keep the nodes that it wants."""
        for kind in claim.kinds:
            nodes = list(kind.live.values())
            columns = [
                np.array(column, np.int32) for column in zip(*(self.paths[n] for n in nodes), strict=True)
            ]
            for node, group in zip(
                nodes, find(claim, columns, len(nodes)).tolist() if nodes else (), strict=True
            ):
                if group >= 0:
                    self.claimants[node].append((claim, group))

    def detach(self, claim: Claim) -> None:
        """Forget a claim that is withdrawn."""
        for kind in claim.kinds:
            for node in kind.live.values():
                self.claimants[node] = [found for found in self.claimants[node] if found[0] is not claim]

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
        while True:
            nodes = nodes[(self.holds[nodes] == 0) & (self.children[nodes] == 0) & (nodes > 0)]
            if len(nodes) > 1:
                nodes = np.unique(nodes)
            named = self._named[nodes]
            if named.any():
                kept = named.copy()
                kept[named] = [self._wanted(node) for node in nodes[named].tolist()]
                nodes = nodes[~kept]
            if len(nodes) == 0:
                return
            parents = self.parent[nodes]
            self._remove(nodes)
            nodes = parents

    def _wanted(self, node: int) -> bool:
        return any(claim.wants_one(group) for claim, group in self.claimants[node])

    def sweep(self, kinds: Iterable[Kind]) -> None:
        """Free the nodes of some kinds that were kept for claims which are gone."""
        found = [node for kind in kinds for node in kind.live.values()]
        if found:
            self.prune(np.array(found, np.int64))

    def evict(self, nodes: Nodes) -> None:
        """Drop nodes without children although they are kept; whoever holds them must take `parent` instead."""
        assert (self.children[nodes] == 0).all()
        for node in nodes[self._named[nodes]].tolist():
            for claim, group in self.claimants[node]:
                if claim.wants_one(group):
                    claim.lose(np.array([group]), self.end[[node]])
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
        wanted = np.array([self._named[node] and self._wanted(node) for node in nodes.tolist()], np.bool_)
        self.arena.check(self.address[nodes], self.length[nodes], reserved & ~wanted)
        kept = (self.holds[nodes] > 0) | (self.children[nodes] > 0)
        assert (kept | wanted).all(), "kept for nobody"
        counts = np.bincount(self.parent[nodes], minlength=len(self.parent))
        assert (counts[nodes] == self.children[nodes]).all()
        for node in nodes[self._named[nodes]].tolist():
            kind = self.kinds[node]
            assert kind is not None
            columns = [np.array([slot], np.int32) for slot in self.paths[node]]
            groups = [(claim, int(find(claim, columns, 1)[0])) for claim in kind.claims]
            theirs = [(claim, group) for claim, group in self.claimants[node] if group >= 0]
            assert sorted(map(repr, theirs)) == sorted(repr(found) for found in groups if found[1] >= 0)

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
        self.claimants += [[]] * size
        self._keys += [0] * size
        self._named = np.concatenate([self._named, np.zeros(size, np.bool_)])
        self._unused = np.concatenate([np.arange(2 * size - 1, size - 1, -1, dtype=np.int64), self._unused])
