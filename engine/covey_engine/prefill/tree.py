"""Prompt paths go in, a prefix tree with owners comes out; knows neither the order of work nor the device."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(eq=False)
class Node:
    """One segment under its parent.

    start: position of its first token in the prompt. owners: requests that may still come whose prompt runs through
    here; waiting: those of them whose coming depends on an answer not yet known. address: where its KV is in the
    arena, -1 while it is not there; done: how many of its tokens are there. computed: it was computed before.
    """

    parent: Node | None
    key: Hashable
    tokens: NDArray[np.int32]
    start: int
    children: dict[Hashable, Node] = field(default_factory=dict)
    owners: int = 0
    waiting: int = 0
    address: int = -1
    done: int = 0
    computed: bool = False

    @property
    def length(self) -> int:
        return len(self.tokens)

    @property
    def end(self) -> int:
        return self.start + len(self.tokens)


class Tree:
    """The prefix tree over all running orders; the root is the empty prompt."""

    def __init__(self) -> None:
        self.root = Node(None, None, np.empty(0, np.int32), 0)

    def add(self, path: Sequence[tuple[Hashable, NDArray[np.int32]]], waiting: bool) -> Node:
        """Count one more owner along a path; the leaf."""
        node = self.root
        for key, tokens in path:
            child = node.children.get(key)
            if child is None:
                child = node.children[key] = Node(node, key, tokens, node.end)
            child.owners += 1
            child.waiting += waiting
            node = child
        return node

    def settle(self, leaf: Node) -> None:
        """An owner that was waiting will certainly come."""
        for node in chain(leaf):
            node.waiting -= 1

    def remove(self, leaf: Node, waiting: bool) -> list[Node]:
        """Count one owner less along a path; the nodes that nobody owns any more, deepest first."""
        gone = []
        for node in reversed(chain(leaf)):
            node.owners -= 1
            node.waiting -= waiting
            if node.owners == 0:
                gone.append(node)
                assert node.parent is not None
                del node.parent.children[node.key]
        return gone


def chain(leaf: Node) -> list[Node]:
    """The nodes from below the root to the leaf."""
    nodes = []
    node: Node | None = leaf
    while node is not None and node.parent is not None:
        nodes.append(node)
        node = node.parent
    return nodes[::-1]
