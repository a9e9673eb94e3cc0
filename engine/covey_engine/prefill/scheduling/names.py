"""Prefixes by name: a node's parent, its kind and its slot go in, the node comes out; knows nothing of what nodes are.

A name is one number, the kind and the slot; together with the parent it stands for one node at most. The table is open:
the names that share a place stand one after another.
"""

from __future__ import annotations

import numpy as np

from covey_engine.prefill.scheduling.compiled import Ints, IntsOut, Table, TableOut, TokenTable, kernel


def names_of(kind: int, slots: Ints) -> Ints:
    """The names of nodes of a kind, by number, with these slots; -1 for a literal."""
    return (kind << 32) + 1 + slots


def kinds_of(names: Ints) -> Ints:
    """The kinds in names; 0 for no name."""
    return names >> 32


class Names:
    """Nodes by parent and name."""

    def __init__(self) -> None:
        self._table = np.zeros((1024, 3), np.int64)
        self._count = 0

    def put(self, parents: Ints, names: Ints, nodes: Ints) -> None:
        """Name nodes; each name is new under its parent."""
        self._grow(len(nodes))
        _put(self._table, parents, names, nodes)

    def give(self, parent: Ints, name: IntsOut, nodes: Ints, kind: int, slots: Ints) -> None:
        """Name nodes of one kind with these slots, as `put` does; parent, name: by node, the latter is written."""
        self._grow(len(nodes))
        _give(self._table, parent, name, nodes, kind, slots)

    def _grow(self, more: int) -> None:
        self._count += more
        if 2 * self._count > len(self._table):
            known = self._table[self._table[:, 2] > 0].T.copy()
            self._table = np.zeros((1 << (4 * self._count).bit_length(), 3), np.int64)
            _put(self._table, known[0], known[1], known[2])

    def drop(self, parents: Ints, names: Ints) -> None:
        """Forget nodes; 0 for those without a name."""
        self._count -= _drop(self._table, parents, names)

    def descend(
        self,
        kinds: Ints,
        columns: Ints,
        slots: TokenTable,
        hollow: int,
        nodes: IntsOut,
        levels: Ints,
        offsets: Ints,
    ) -> None:
        """Move items from nodes to the deepest nodes of their prompts, over the segments of some kinds.

        kinds: of the prompts up to each segment; columns: which of the columns of `slots` [columns, items] each segment
        has, -1 for a literal; hollow: the slot that has no node; levels, offsets: as in Tree, by node.
        """
        _descend(self._table, kinds, columns, slots, hollow, nodes, levels, offsets)


@kernel
def _home(parent: int, name: int, mask: int) -> int:
    """The place of a name in a table of mask + 1."""
    mixed = name * 0x1E3779B97F4A7C15 + parent * 0x3C79AC492BA7B653
    return (mixed ^ (mixed >> 32)) & mask


@kernel
def _find(table: Table, parent: int, name: int) -> int:
    """Where a name is in the table, or the empty place where it would be."""
    mask = len(table) - 1
    at = _home(parent, name, mask)
    while table[at, 2] and (table[at, 0] != parent or table[at, 1] != name):
        at = (at + 1) & mask
    return at


@kernel
def _put(table: TableOut, parents: Ints, names: Ints, nodes: Ints) -> None:
    """Add names."""
    for n in range(len(nodes)):
        at = _find(table, parents[n], names[n])
        assert table[at, 2] == 0, "a name was given twice"
        table[at, 0], table[at, 1], table[at, 2] = parents[n], names[n], nodes[n]


@kernel
def _give(table: TableOut, parent: Ints, name: IntsOut, nodes: Ints, kind: int, slots: Ints) -> None:
    """Names.give."""
    for n in range(len(nodes)):
        node = nodes[n]
        name[node] = (kind << 32) + 1 + slots[n]
        at = _find(table, parent[node], name[node])
        assert table[at, 2] == 0, "a name was given twice"
        table[at, 0], table[at, 1], table[at, 2] = parent[node], name[node], node


@kernel
def _drop(table: TableOut, parents: Ints, names: Ints) -> int:
    """Remove names, and close the gaps; how many."""
    mask, dropped = len(table) - 1, 0
    for n in range(len(names)):
        if names[n] == 0:
            continue
        gap = _find(table, parents[n], names[n])
        assert table[gap, 2], "a name that was not given"
        dropped += 1
        at = gap
        while True:
            at = (at + 1) & mask
            if table[at, 2] == 0:
                break
            home = _home(table[at, 0], table[at, 1], mask)
            if (at - home) & mask >= (at - gap) & mask:
                table[gap, 0], table[gap, 1], table[gap, 2] = table[at, 0], table[at, 1], table[at, 2]
                gap = at
        table[gap, 2] = 0
    return dropped


@kernel
def _descend(
    table: Table,
    kinds: Ints,
    columns: Ints,
    slots: TokenTable,
    hollow: int,
    nodes: IntsOut,
    levels: Ints,
    offsets: Ints,
) -> None:
    """Names.descend."""
    start = head = -1
    for n in range(len(nodes)):
        # The literals that prompts begin with lead from one node to the same one.
        node = head if nodes[n] == start else nodes[n]
        start, head, literal = nodes[n], node, True
        for level in range(levels[node], len(kinds)):
            slot = -1
            if columns[level] >= 0:
                literal = False
                slot = slots[columns[level], n]
                if slot == hollow:
                    continue
            name = (kinds[level] << 32) + 1 + slot
            child = table[_find(table, node, name), 2]
            # Over the parts of a long one.
            while child and offsets[child]:
                node = child
                child = table[_find(table, node, name), 2]
            if child == 0:
                break
            node = child
            if literal:
                head = node
        nodes[n] = node
