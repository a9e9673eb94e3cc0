"""Nodes to compute go in, a chunk comes out: rows in depth-first order, addresses, segments and contexts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.tree import Node, chain


class Prompt(Protocol):
    """A request of the chunk: `row` is set to the index of its answer."""

    leaf: Node
    row: int


class Packer:
    """Collects the nodes of one chunk; the first addresses of the arena, one for each row, are its scratch."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self.fresh: dict[Node, int] = {}
        self._replays: dict[Node, None] = {}
        self.tokens = 0

    def add(self, node: Node, tokens: int | None = None) -> None:
        """Compute a node's next tokens (all that are missing)."""
        self.fresh[node] = node.length - node.done if tokens is None else tokens
        self.tokens += self.fresh[node]

    def replays(self, leaf: Node, missing: Sequence[Node]) -> bool:
        """Whether a prompt's last token is resident already and must be computed once more for its logits."""
        node = _solid(leaf)
        return node not in missing and node not in self.fresh and node not in self._replays

    def replay(self, leaf: Node) -> None:
        """Compute the last token of a prompt once more."""
        self._replays[_solid(leaf)] = None
        self.tokens += 1

    def chunk(self, prompts: Sequence[Prompt]) -> Chunk:
        """The chunk; sets each prompt's `row`."""
        assert self.tokens <= self._budget
        rows = _Rows()
        children: dict[Node | None, list[Node]] = {}
        for node in self.fresh:
            children.setdefault(self._above(node), []).append(node)
        last: dict[Node, int] = {}
        for node in children.get(None, []):
            self._emit(node, rows, children, last)
        for node in self._replays:
            last[node] = len(rows.tokens)
            contexts = _ranges(node)
            address, keys = contexts.pop()
            if keys > 1:
                contexts.append((address, keys - 1))
            rows.contexts += [(last[node], 1, *context) for context in contexts]
            rows.segment(node.tokens[-1:], node.end - 1, last[node])
        read = sorted({last[_solid(prompt.leaf)] for prompt in prompts})
        index = {row: n for n, row in enumerate(read)}
        for prompt in prompts:
            prompt.row = index[last[_solid(prompt.leaf)]]
        return rows.chunk(read)

    def _above(self, node: Node) -> Node | None:
        """The nearest ancestor that the chunk computes; segments without tokens are in no chunk."""
        above = node.parent
        while above is not None and above not in self.fresh:
            above = None if above.length else above.parent
        return above

    def _emit(
        self, node: Node, rows: _Rows, children: dict[Node | None, list[Node]], last: dict[Node, int]
    ) -> None:
        begin, count = len(rows.tokens), self.fresh[node]
        assert node.done == 0 or node.address >= 0
        address = node.address + node.done if node.address >= 0 else begin
        if count:
            rows.segment(node.tokens[node.done : node.done + count], node.start + node.done, address)
        last[node] = len(rows.tokens) - 1
        for child in children.get(node, []):
            self._emit(child, rows, children, last)
        end = len(rows.tokens)
        if count and end > begin + count:
            rows.contexts.append((begin + count, end - begin - count, address, count))
        if self._above(node) is None:
            above = _ranges(node.parent) if node.parent is not None else []
            if node.done:
                above.append((node.address, node.done))
            rows.contexts += [(begin, end - begin, *context) for context in above if end > begin]


class _Rows:
    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.positions: list[int] = []
        self.addresses: list[int] = []
        self.segments: list[tuple[int, int, int]] = []
        self.contexts: list[tuple[int, int, int, int]] = []

    def segment(self, tokens: NDArray[np.int32], position: int, address: int) -> None:
        self.segments.append((len(self.tokens), len(tokens), address))
        self.tokens += tokens.tolist()
        self.positions += range(position, position + len(tokens))
        self.addresses += range(address, address + len(tokens))

    def chunk(self, answers: list[int]) -> Chunk:
        return Chunk(
            np.array(self.tokens, np.int32),
            np.array(self.positions, np.int32),
            np.array(self.addresses, np.int64),
            np.array(self.segments, np.int64).reshape(-1, 3),
            np.array(self.contexts, np.int64).reshape(-1, 4),
            np.array(answers, np.int32),
        )


def _ranges(leaf: Node) -> list[tuple[int, int]]:
    """Where the KV of a path is."""
    return [(node.address, node.done) for node in chain(leaf) if node.done]


def _solid(leaf: Node) -> Node:
    return next(node for node in reversed(chain(leaf)) if node.length)
