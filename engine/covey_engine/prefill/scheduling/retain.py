"""A chunk's trie goes in; out come the addresses of its nodes, and those that somebody may want again as tree nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.scheduling.claims import Claim, find
from covey_engine.prefill.scheduling.compiled import FlagsOut, kernel
from covey_engine.prefill.scheduling.groups import Ints, Slots
from covey_engine.prefill.scheduling.kinds import Kind
from covey_engine.prefill.scheduling.outline import Outline
from covey_engine.prefill.scheduling.strips import Strip
from covey_engine.prefill.scheduling.tree import Nodes, Tree

Flags = NDArray[np.bool_]


@dataclass(eq=False)
class _Level:
    """The new nodes of one cell, none depending on a partner.

    columns: their slots by column segment; own, others: for the order's own claim on them and for those of other
    orders, the groups.
    """

    kind: Kind
    nodes: Ints
    columns: list[Slots]
    own: tuple[Claim, Ints]
    others: list[tuple[Claim, Ints]]

    @property
    def wanting(self) -> list[tuple[Claim, Ints]]:
        """Those that may want some of the nodes."""
        # Where nothing is counted only fresh rows claim, and the order's own are drawn.
        return self.others if self.own[0].counts is None else [self.own, *self.others]


class Retention:
    """What of one chunk stays in the arena. needed: nodes that the next chunk goes on from, among others.

    address: int64 [nodes], the row number as scratch for what does not stay; again: how many tokens of each node were
    computed before, None for none.
    """

    def __init__(self, outline: Outline, tree: Tree, needed: Sequence[int] = ()) -> None:
        self._outline = outline
        self._tree = tree
        self._levels = _levels(outline)
        # Whether something that is wanted found no place.
        self._short = False
        self.again = self._lost_before()
        keep, others = self._wanted(needed)
        self.address, self._stays = self._place(keep, others)
        self._node = self._persist()
        for level in self._levels:
            self._name(level)

    def deepest(self, strip: Strip, steps: int) -> Nodes:
        """The deepest node of each item's prompt that stays, within its first `steps` steps."""
        if steps <= strip.first:
            return self._tree.climb(self._outline.start[strip.where], steps)
        found = self._nodes_after(strip, steps)
        return self._outline.start[strip.where] if self._node is None else self._node[found]

    def ends(self, strip: Strip, steps: int) -> Ints:
        """The position after each item's first `steps` steps, 0 where the chunk computes none of them."""
        if steps <= strip.first:
            return np.zeros(len(strip.batch), np.int64)
        nodes = self._nodes_after(strip, steps)
        return self._outline.position[nodes] + self._outline.length[nodes]

    def above(self, nodes: Ints) -> Nodes:
        """The deepest node of the tree above each of some of the chunk's nodes."""
        roots, parents = self._outline.root[nodes], self._outline.parent[nodes]
        return roots if self._node is None else np.where(parents >= 0, self._node[parents], roots)

    def _nodes_after(self, strip: Strip, steps: int) -> Ints:
        nodes = self._outline.current[strip.where, strip.cell_after(steps)]
        return nodes.astype(np.int64) - 1

    def _lost_before(self) -> Ints | None:
        outline, lost = self._outline, None
        for level in self._levels:
            for claim, groups in (level.own, *level.others):
                known = claim.recall(groups)
                if known is not None:
                    lost = np.zeros(len(outline.length), np.int64) if lost is None else lost
                    lost[level.nodes] = np.maximum(lost[level.nodes], known)
        if any(strip.batch.lost is not None for strip in outline.strips) and len(outline.length):
            theirs = np.zeros(len(outline.start), np.int64)
            for strip in outline.strips:
                if strip.batch.lost is not None:
                    theirs[strip.where] = strip.batch.lost
            found = outline.most(theirs)
            lost = found if lost is None else np.maximum(lost, found)
        if lost is None:
            return None
        again: Ints = np.clip(lost - outline.position, 0, outline.length)
        return again

    def _wanted(self, needed: Sequence[int]) -> tuple[Flags, Flags | None]:
        """Nodes that their items or their own order keep, and those that only other orders want."""
        outline = self._outline
        keep = np.zeros(len(outline.length), np.bool_)
        keep[list(needed)] = True
        others: Flags | None = None
        for strip in outline.strips:
            if strip.path.hold > strip.first:
                keep[self._nodes_after(strip, strip.path.hold)] = True
        for level in self._levels:
            own, groups = level.own
            if own.counts is not None:
                own.mark(groups, level.nodes, keep)
            for claim, groups in level.others:
                others = np.zeros(len(keep), np.bool_) if others is None else others
                claim.mark(groups, level.nodes, others)
        for wanted in (keep,) if others is None else (keep, others):
            _add_parents(wanted, outline.parent, outline.length)
        return keep, others

    def _place(self, keep: Flags, others: Flags | None) -> tuple[Ints, Flags]:
        outline, arena = self._outline, self._tree.arena
        if others is not None:
            # What only others want later may not take the room that items on their way need.
            wish = keep | others
            if arena.free - int(outline.length[wish].sum()) >= arena.total // 4:
                keep = wish
            else:
                self._short = True
        chosen = keep.nonzero()[0]
        if len(chosen) == 0:
            return outline.begin, keep
        address, stays = outline.begin.copy(), keep
        places = arena.allocate(outline.length[chosen])
        if places.min() < 0:
            # A node is of use only below its parents.
            self._short = True
            stays = np.zeros(len(keep), np.bool_)
            stays[chosen] = places >= 0
            _drop_orphans(stays, outline.parent, outline.length)
            useful = stays[chosen]
            useless = (places >= 0) & ~useful
            arena.release(places[useless], outline.length[chosen[useless]])
            chosen, places = chosen[useful], places[useful]
        address[chosen] = places
        return address, stays

    def _persist(self) -> Nodes | None:
        """The deepest tree node at or above each node, None where that is its start; adds those that stay."""
        outline, stays = self._outline, self._stays
        if not np.count_nonzero(stays):
            return None
        return self._tree.add(
            outline.parent,
            outline.root,
            self.address,
            outline.length,
            outline.position,
            outline.cell,
            outline.steps,
            stays,
        )

    def _name(self, level: _Level) -> None:
        """Make nodes that stay findable; tell those who want what found no place."""
        stays = self._stays[level.nodes]
        here = stays.nonzero()[0]
        if len(here):
            assert self._node is not None
            found = level.nodes[here]
            nodes = self._node[found]
            columns = [column[here] for column in level.columns]
            self._tree.give_names(nodes, level.kind, self._outline.slot[found], columns)
            for claim, groups in level.wanting:
                self._tree.promise(nodes, claim, groups[here])
        if self._short:
            self._lose(level, (~stays).nonzero()[0])

    def _lose(self, level: _Level, gone: Ints) -> None:
        """Tell those who want nodes of a level that they are gone."""
        for claim, groups in level.wanting:
            left = groups[gone]
            wants = claim.wants(left)
            if wants.any():
                nodes = level.nodes[gone][wants]
                claim.lose(left[wants], self._outline.position[nodes] + self._outline.length[nodes])


@kernel
def _add_parents(keep: FlagsOut, parent: Ints, length: Ints) -> None:
    """Mark what is above marked nodes too, but nodes without tokens not at all."""
    for node in range(len(keep) - 1, -1, -1):
        if keep[node] and parent[node] >= 0:
            keep[parent[node]] = True
        keep[node] = keep[node] and length[node] > 0


@kernel
def _drop_orphans(stays: FlagsOut, parent: Ints, length: Ints) -> None:
    """Unmark nodes with an ancestor that has tokens and is not marked."""
    cut = np.zeros(len(stays), np.bool_)
    for node in range(len(stays)):
        cut[node] = parent[node] >= 0 and cut[parent[node]]
        stays[node] = stays[node] and not cut[node]
        cut[node] = cut[node] or (length[node] > 0 and not stays[node])


def _levels(outline: Outline) -> list[_Level]:
    """The cells whose nodes may stay and be found again; each node once."""
    found: list[_Level] = []
    # Where a pair's segment looks like an anchor's, the first prompt of a node may not be able to name it.
    known = np.zeros(len(outline.length), np.bool_)
    for strip in outline.strips:
        for number, cell in enumerate(strip.cells):
            level = cell.end - 1
            if level >= strip.path.fixed:
                break
            if strip.path.stands_out(level):
                items, nodes = outline.new_nodes(strip, number, known)
                if len(nodes):
                    found.append(_level(strip, level, items, nodes))
    return found


def _level(strip: Strip, level: int, items: Ints, nodes: Ints) -> _Level:
    batch, path = strip.batch, strip.path
    kind, own, rows = path.steps[level].kind, path.claims[level], batch.rows[items]
    columns = [batch.job.prepared.anchors[n].slots[rows] for n in path.arguments[level]]
    others = [(claim, find(claim, columns, len(rows))) for claim in kind.claims if claim is not own]
    return _Level(kind, nodes, columns, (own, own.groups.of(rows)), others)
