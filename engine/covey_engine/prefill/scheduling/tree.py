"""The prefix tree in the arena, as arrays: which prefixes have their KV there, and who keeps them.

A node is a range of the arena: a segment of a prompt under its parent, or a part of a long one. It is kept while an
item holds it, while it has children, or while an order claims its prefix. Prefixes that are in one chunk only are
never nodes here. Node 0 is the empty prompt.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from covey_engine.prefill.scheduling.arena import Arena
from covey_engine.prefill.scheduling.claims import Claim, find
from covey_engine.prefill.scheduling.compiled import Flags, Ints
from covey_engine.prefill.scheduling.groups import Slots
from covey_engine.prefill.scheduling.kinds import Kind
from covey_engine.prefill.scheduling.names import Names
from covey_engine.prefill.scheduling.tree_kernels import UNUSED, add_nodes, nodes_of, prune_nodes

Nodes = Ints
"""Node numbers, int64."""

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
    "name",
)
_NONE = np.empty(0, np.int64)


class Tree:
    """Arrays by node number.

    parent; address, length: its range; end: position after its last token; level: how many segments of the prompt are
    complete with it; offset: how many tokens of the next one are there too; depth: nodes from the top, with itself;
    holds: items that hold it, -1 for a number that is not in use; waiting: those of them whose answer is not known;
    children: nodes under it. Nodes that do not depend on a partner have a name, others only their items can find. By
    name: name; slots: [column segments, nodes] its slots; claimed: whether somebody may want it, see `claimants`.
    numbers: the first `spare` are not in use. ended: nodes with which a text ended that has fewer pieces than others.
    """

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.names = Names()
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
        self.name: Ints
        for name in _FIELDS:
            setattr(self, name, np.zeros(256, np.int64))
        self.slots = np.zeros((0, 256), np.int32)
        self.claimed = np.zeros(256, np.bool_)
        self.claimants: dict[int, list[tuple[Claim, int]]] = {}
        self.ended = set[int]()
        self.holds[1:] = UNUSED
        self.numbers = np.arange(255, -1, -1)
        self.spare = 255

    def add(
        self,
        above: Ints,
        start: Nodes,
        address: Ints,
        length: Ints,
        position: Ints,
        cell: Ints,
        steps: Ints,
        stays: Flags,
        offset: int = 0,
    ) -> Nodes:
        """Add the nodes that stay (whose ranges the caller allocated) of a forest whose parents come first.

        above: each node's parent in the forest, or -1 where that is `start`; position: of its first token; steps: its
        level, by its `cell`. The deepest tree node at or above each.
        """
        while self.spare < len(above):
            self._grow()
        found = np.empty(len(above), np.int64)
        self.spare = add_nodes(
            above,
            start,
            address,
            length,
            position,
            cell,
            steps,
            offset,
            stays,
            self.numbers,
            self.spare,
            found,
            self.parent,
            self.address,
            self.length,
            self.end,
            self.level,
            self.offset,
            self.depth,
            self.holds,
            self.waiting,
            self.children,
        )
        return found

    def give_names(self, nodes: Nodes, kind: Kind, slots: Ints, columns: Sequence[Slots]) -> None:
        """Make nodes findable by kind and slots, so that other items and orders meet there.

        slots: those of the nodes' own segments; columns: of all column segments up to there.
        """
        while len(self.slots) < len(columns):
            self.slots = np.concatenate([self.slots, np.zeros((1, len(self.name)), np.int32)])
        for number, column in enumerate(columns):
            self.slots[number, nodes] = column
        self.names.give(self.parent, self.name, nodes, kind.id, slots)

    def promise(self, nodes: Nodes, claim: Claim, groups: Ints) -> None:
        """A claim may want nodes, by its groups (-1: not this one)."""
        for node, group in zip(nodes.tolist(), groups.tolist(), strict=True):
            if group >= 0:
                self.claimed[node] = True
                self.claimants.setdefault(node, []).append((claim, group))

    def attach(self, claim: Claim) -> None:
        """Let a new claim keep the nodes that it wants."""
        for kind in claim.kinds:
            # A kind that nobody else ever claimed has none.
            nodes = self._nodes_of([kind]) if kind.shared else _NONE
            if len(nodes):
                self.promise(nodes, claim, find(claim, self._columns(kind, nodes), len(nodes)))

    def detach(self, claim: Claim) -> None:
        """Forget a claim that is withdrawn."""
        nodes = self._nodes_of(claim.kinds)
        for node in nodes[self.claimed[nodes]].tolist():
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
        before = self.spare
        while len(nodes):
            self.spare, claimed = prune_nodes(
                nodes, self.parent, self.holds, self.children, self.claimed, self.numbers, self.spare
            )
            gone = [n for n in set(claimed.tolist()) if not self._wanted(n)]
            if not gone:
                break
            nodes = np.array(gone, np.int64)
            self._forget(nodes)
            self._forget_above(gone)
        self._clear(self.numbers[before : self.spare])

    def sweep(self, kinds: Collection[Kind]) -> None:
        """Free the nodes of some kinds that were kept for claims which are gone."""
        if kinds:
            self.prune(self._nodes_of(kinds))

    def evict(self, nodes: Nodes) -> None:
        """Drop nodes without children although they are kept; whoever holds them must take `parent` instead."""
        assert (self.children[nodes] == 0).all()
        for node in nodes[self.claimed[nodes]].tolist():
            for claim, group in self.claimants[node]:
                if claim.wants_one(group):
                    claim.lose(np.array([group]), self.end[[node]])
        self._forget(nodes[self.claimed[nodes]])
        parents = self.parent[nodes]
        np.add.at(self.holds, parents, self.holds[nodes])
        np.add.at(self.waiting, parents, self.waiting[nodes])
        np.subtract.at(self.children, parents, 1)
        self.holds[nodes] = UNUSED
        self.numbers[self.spare : self.spare + len(nodes)] = nodes
        self.spare += len(nodes)
        self._clear(nodes)

    def used(self) -> Nodes:
        """All nodes."""
        return (self.holds[1:] >= 0).nonzero()[0] + 1

    def _wanted(self, node: int) -> bool:
        return any(claim.wants_one(group) for claim, group in self.claimants[node])

    def _forget(self, nodes: Nodes) -> None:
        """Drop what was promised of nodes."""
        self.claimed[nodes] = False
        for node in nodes.tolist():
            del self.claimants[node]

    def _forget_above(self, nodes: Iterable[int]) -> None:
        """Drop what was promised of nodes above, as far as nobody wants them: `prune` then goes on to them at once."""
        for node in nodes:
            above = int(self.parent[node])
            while above and self.claimed[above] and not self._wanted(above):
                self._forget(np.array([above]))
                above = int(self.parent[above])

    def _nodes_of(self, kinds: Iterable[Kind]) -> Nodes:
        return nodes_of(self.name, np.array([kind.id for kind in kinds], np.int64))

    def _columns(self, kind: Kind, nodes: Nodes) -> list[Slots]:
        return list(self.slots[: kind.columns, nodes])

    def _clear(self, nodes: Nodes) -> None:
        """Give back what nodes had that are not in use any more."""
        if len(nodes):
            self.arena.release(self.address[nodes], self.length[nodes])
            self.names.drop(self.parent[nodes], self.name[nodes])
            self.name[nodes] = 0
            if self.ended:
                self.ended.difference_update(nodes.tolist())

    def _grow(self) -> None:
        size = len(self.parent)
        for name in _FIELDS:
            setattr(self, name, np.concatenate([getattr(self, name), np.zeros(size, np.int64)]))
        self.slots = np.concatenate([self.slots, np.zeros_like(self.slots)], axis=1)
        self.claimed = np.concatenate([self.claimed, np.zeros(size, np.bool_)])
        self.holds[size:] = UNUSED
        new = np.arange(2 * size - 1, size - 1, -1)
        self.numbers = np.concatenate([new, self.numbers])
        self.spare += size
