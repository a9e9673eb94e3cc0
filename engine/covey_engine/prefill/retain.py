"""A chunk's trie goes in; out come the addresses of its nodes, and those that somebody may want again as tree nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill import claims
from covey_engine.prefill.claims import Claim
from covey_engine.prefill.groups import Ints, Slots
from covey_engine.prefill.kinds import Kind
from covey_engine.prefill.outline import Outline, Strip
from covey_engine.prefill.tree import Nodes, Tree

Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class _Level:
    """The new nodes of one strip at one level, none depending on a partner; columns: their slots by column segment."""

    kind: Kind
    own: Claim
    rows: Ints
    nodes: Ints
    columns: list[Slots]

    def path(self, which: Flags) -> list[tuple[int, ...]]:
        """The slots of some of the nodes, node by node."""
        if not self.columns:
            return [()] * int(which.sum())
        return list(zip(*(column[which].tolist() for column in self.columns), strict=True))


class Retention:
    """What of one chunk stays in the arena.

    address: int64 [nodes], the row number as scratch for what does not stay; again: how many tokens of each node were
    computed before.
    """

    def __init__(self, outline: Outline, tree: Tree) -> None:
        self._outline = outline
        self._tree = tree
        self._levels = [level for strip in outline.strips for level in _levels(outline, strip)]
        self.again = self._lost_before()
        keep, others = self._wanted()
        self.address, self._stays = self._place(keep, others)
        self._node = self._persist()
        for level in self._levels:
            self._name(level)

    def deepest(self, strip: Strip, steps: int) -> Nodes:
        """The deepest node of each item's prompt that stays, within its first `steps` steps."""
        if steps <= strip.first:
            return self._tree.climb(self._outline.start[strip.where], steps)
        return self._node[self._outline.current[strip.where, steps - strip.first - 1] - 1]

    def ends(self, strip: Strip, steps: int) -> Ints:
        """The position after each item's first `steps` steps."""
        if steps <= strip.first:
            return np.zeros(len(strip.batch), np.int64)
        nodes = self._outline.current[strip.where, steps - strip.first - 1] - 1
        return self._outline.position[nodes] + self._outline.length[nodes]

    def _lost_before(self) -> Ints:
        outline = self._outline
        lost = np.zeros(len(outline.length), np.int64)
        for level in self._levels:
            known = claims.recall(level.kind, level.columns, len(level.nodes))
            if known is not None:
                lost[level.nodes] = known
        if any(strip.batch.lost is not None for strip in outline.strips) and len(lost):
            theirs = np.zeros(len(outline.start), np.int64)
            for strip in outline.strips:
                if strip.batch.lost is not None:
                    theirs[strip.where] = strip.batch.lost
            lost = np.maximum(lost, outline.over(np.maximum, theirs))
        again: Ints = np.clip(lost - outline.position, 0, outline.length)
        return again

    def _wanted(self) -> tuple[Flags, Flags]:
        """Nodes that their items or their own order keep, and those that only other orders want."""
        outline = self._outline
        keep = np.zeros(len(outline.length), np.bool_)
        others = keep.copy()
        for strip in outline.strips:
            hold = strip.batch.job.paths[strip.batch.ask].hold - strip.first
            if hold > 0:
                keep[outline.current[strip.where, hold - 1] - 1] = True
        for level in self._levels:
            wanted = claims.wanted(level.kind, level.columns, len(level.nodes))
            mine = wanted & level.own.wants(level.own.groups.of(level.rows))
            keep[level.nodes[mine]] = True
            others[level.nodes[wanted & ~mine]] = True
        return self._with_parents(keep), self._with_parents(others)

    def _with_parents(self, keep: Flags) -> Flags:
        parent = self._outline.parent
        above = parent[keep]
        while len(above):
            above = above[above >= 0]
            above = above[~keep[above]]
            keep[above] = True
            above = parent[above]
        return keep & (self._outline.length > 0)

    def _place(self, keep: Flags, others: Flags) -> tuple[Ints, Flags]:
        outline, arena = self._outline, self._tree.arena
        # What only others want later may not take the room that items on their way need.
        wish = keep | others
        if arena.free - int(outline.length[wish].sum()) < arena.total // 4:
            wish = keep
        address = outline.begin.copy()
        stays = np.zeros(len(wish), np.bool_)
        chosen = np.flatnonzero(wish)
        if len(chosen) == 0:
            return address, stays
        places = arena.allocate(outline.length[chosen])
        stays[chosen] = places >= 0
        if not stays[chosen].all():
            # A node is of use only below its parents.
            useful = self._below_staying(stays)
            useless = stays[chosen] & ~useful[chosen]
            arena.release(places[useless], outline.length[chosen[useless]])
            stays &= useful
        address[stays] = places[stays[chosen]]
        return address, stays

    def _below_staying(self, stays: Flags) -> Flags:
        """Nodes all of whose ancestors stay, or are empty."""
        outline = self._outline
        passable = stays | (outline.length == 0)
        useful = np.ones(len(stays), np.bool_)
        for level in range(1, outline.current.shape[1]):
            nodes = np.flatnonzero(outline.level == level)
            above = outline.parent[nodes]
            useful[nodes] = useful[above] & passable[above]
        return useful

    def _persist(self) -> Nodes:
        """The deepest tree node at or above each node; adds those that stay."""
        outline, tree = self._outline, self._tree
        start = outline.start[outline.item]
        if not self._stays.any():
            return start
        first = np.array([strip.first for strip in outline.strips], np.int64)
        found = start.copy()
        for level in range(outline.current.shape[1]):
            nodes = np.flatnonzero(outline.level == level)
            if level:
                found[nodes] = found[outline.parent[nodes]]
            new = nodes[self._stays[nodes]]
            if len(new):
                ends = outline.position[new] + outline.length[new]
                depth = first[outline.strip[new]] + level + 1
                found[new] = tree.add(found[new], self.address[new], outline.length[new], ends, depth)
        return found

    def _name(self, level: _Level) -> None:
        """Make nodes findable; tell those who want what does not stay."""
        stays = self._stays[level.nodes]
        if stays.any():
            nodes = level.nodes[stays]
            slots = self._outline.slot[nodes].tolist()
            self._tree.name(self._node[nodes], level.kind, slots, level.path(stays))
        if not stays.all():
            gone = level.nodes[~stays]
            ends = self._outline.position[gone] + self._outline.length[gone]
            claims.lose(level.kind, [column[~stays] for column in level.columns], ends)


def _levels(outline: Outline, strip: Strip) -> list[_Level]:
    """A strip's levels whose nodes may stay."""
    batch = strip.batch
    path = batch.job.paths[batch.ask]
    found = []
    for level in range(strip.first, path.fixed):
        kind, own = path.steps[level].kind, path.claims[level]
        if not kind.shared and own.counts is None and path.hold <= level:
            continue
        items, nodes = outline.nodes_at(strip, level - strip.first)
        if len(nodes):
            rows = batch.rows[items]
            sides = (batch.job.prepared.anchors[n] for n in path.arguments[level])
            found.append(_Level(kind, own, rows, nodes, [side.slots[rows] for side in sides]))
    return found
