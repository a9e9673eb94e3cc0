"""Segments of a step's prompts and how often each is computed in, tokens and attention out; runs nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass

from covey_planner.cost.reach import any_of
from covey_planner.cost.statistics import Lengths
from covey_planner.cost.work import Work
from covey_planner.physical import AnchorText, PartnerText, Segment, Text

HEAD, ANCHOR, ITEM = range(3)
"""To whom a segment belongs: to all prompts, to an anchor, or to an item."""


@dataclass(frozen=True)
class Side:
    """The anchors or partners that are left. exact: no answer decides how many."""

    count: float
    exact: bool
    lengths: tuple[Lengths, ...]


@dataclass(frozen=True)
class Node:
    """A segment below its parents: how often it is computed, its mean tokens and their mean square, the mean tokens
    before it, and whether it belongs to nobody, an anchor, or an item.
    """

    times: float
    tokens: float
    square: float
    before: float
    level: int


class Tree:
    """The segments of a step's prompts, each with how often it is computed. alike: some anchors begin alike."""

    def __init__(self, anchors: Side, partners: Side | None, items: float, asked: float) -> None:
        self.prompts = 0.0
        self.prompt_tokens = 0.0
        self.items = items
        self.alike = False
        self._anchors, self._partners, self._asked = anchors, partners, asked
        self._nodes: dict[tuple[Segment, ...], Node] = {}

    def extend(self, path: tuple[Segment, ...], before: float, fixed: int, share: float) -> float:
        """Add the last segment of a path; its mean tokens in a prompt."""
        match path[-1]:
            case Text():
                mean, square, each = float(fixed), float(fixed) ** 2, float(fixed)
            case AnchorText(argument):
                mean, square, each = _moments(self._anchors, argument)
                if argument == 0 and all(isinstance(part, Text) for part in path[:-1]):
                    # Beginnings that several documents share are computed once.
                    lengths = self._anchors.lengths[argument]
                    mean -= lengths.shared / max(lengths.texts, 1.0)
                    square -= lengths.shared_squares / max(lengths.texts, 1.0)
                    self.alike |= lengths.shared > 0
            case PartnerText(argument):
                assert self._partners is not None
                mean, square, each = _moments(self._partners, argument)
        anchors = {part.argument for part in path if isinstance(part, AnchorText)}
        partners = {part.argument for part in path if isinstance(part, PartnerText)}
        if partners:
            assert self._partners is not None
            times = self.items * share * _distinct(self._partners, partners)
            node = Node(times, mean, square, before, ITEM)
        elif anchors:
            times = self._anchors_of(share) * _distinct(self._anchors, anchors)
            node = Node(times, mean, square, before, ANCHOR)
        else:
            node = Node(1.0 if self.items * share else 0.0, mean, square, before, HEAD)
        self.add(path, node)
        return each

    def add(self, path: tuple[Segment, ...], node: Node) -> None:
        """Add a segment; of questions that share it, the one that needs it most often counts."""
        known = self._nodes.get(path)
        if known is None or known.times < node.times:
            self._nodes[path] = node

    def answered(self, share: float, tokens: float) -> None:
        """Count the prompts of a question, each of so many tokens."""
        self.prompts += self.items * share
        self.prompt_tokens += self.items * share * tokens

    def work(self, chunk_tokens: int) -> Work:
        """All of it."""
        nodes = self._nodes.values()
        fresh = math.fsum(node.times * node.tokens for node in nodes)
        pairs = math.fsum(
            node.times * (node.tokens * node.before + (node.square + node.tokens) / 2) for node in nodes
        )
        head = math.fsum(node.times * node.tokens for node in nodes if node.level == HEAD)
        below = math.fsum(node.times * node.tokens for node in nodes if node.level == ITEM)
        anchors, each = self._shared_anchors()
        chunks = fresh / chunk_tokens
        read = head * max(chunks, 1.0) if fresh > head else 0.0
        read += anchors * each * max(1.0, below / max(self._asked, 1.0) / chunk_tokens) if each else 0.0
        held = head if fresh > head else 0.0
        return Work(fresh, pairs, read, held + (min(anchors * each, max(chunk_tokens, each)) if each else 0))

    def _anchors_of(self, share: float) -> float:
        if self._partners is None or share in (0.0, 1.0) or not self._asked:
            return self._asked * share
        return self._asked * any_of(share, self.items / self._asked)

    def _shared_anchors(self) -> tuple[float, float]:
        """Anchors whose tokens several prompts go on from, and the tokens of each; 0 where none is shared."""
        parents = {path[:-1] for path in self._nodes}
        several = {path for path in parents if sum(other[:-1] == path for other in self._nodes) > 1}
        paired = self._partners is not None
        nodes = [
            node
            for path, node in self._nodes.items()
            if node.level == ANCHOR and (paired or any(path == end[: len(path)] for end in several))
        ]
        return self._asked, math.fsum(node.tokens for node in nodes)


def _moments(side: Side, argument: int) -> tuple[float, float, float]:
    """Of an argument's texts: mean tokens, mean square, and mean tokens over all tuples."""
    lengths = side.lengths[argument]
    square = lengths.squares / lengths.texts if lengths.texts else 0.0
    return lengths.mean, square, lengths.mean if lengths.each is None else lengths.each


def _distinct(side: Side, arguments: set[int]) -> float:
    """The share of a side's tuples that differ in the first of its arguments, up to the last of these."""
    last = side.lengths[-1].texts
    return side.lengths[max(arguments)].texts / last if last else 0.0
