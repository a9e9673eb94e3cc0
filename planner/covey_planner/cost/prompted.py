"""A step and the sides that are left in, the tree of its prompts' segments out; what fixed text takes is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from covey_planner.cost.segments import ITEM, Node, Side, Tree
from covey_planner.physical import AskStep, Question, Segment, Text

Encode = Callable[[str, bool], Sequence[int]]
"""The tokens of a fixed text; whether special tokens are recognized in it."""


@dataclass(frozen=True)
class Prompted:
    """Makes the trees of one statement's steps."""

    encode: Encode
    _texts: dict[tuple[str, bool], tuple[int, ...]] = field(default_factory=dict)

    def tree(
        self,
        step: AskStep,
        sides: tuple[Side, Side | None],
        items: float,
        anchors: float,
        shares: Sequence[float],
    ) -> Tree:
        """All prompts of a step. sides: its anchors and partners; items, anchors: of how many it is asked; shares: the
        part of them that each question is put to.
        """
        tree = Tree(*sides, items, anchors)
        for question, share in zip(step.questions, shares, strict=True):
            if question.kind != "count":
                self._add(tree, step.prefix, question, share)
        return tree

    def _add(self, tree: Tree, prefix: Sequence[Segment], question: Question, share: float) -> None:
        """Add a question's prompts to the tree of segments."""
        path: tuple[Segment, ...] = ()
        before = 0.0
        for segment in (*prefix, *question.suffix):
            if segment == Text(""):
                continue
            path = (*path, segment)
            size = len(self._tokens(segment.text, True)) if isinstance(segment, Text) else 0
            before += tree.extend(path, before, size, share)
        ends: dict[tuple[int, ...], int] = {(): 0}
        if question.labels:
            end = self._tokens(question.end, True)
            labels = [self._tokens(text, False) + end for _, text in question.labels]
            ends |= {label[:n]: n for label in labels for n in range(1, len(label))}
        for beginning, depth in ends.items():
            if depth:
                label = Text(f"label {beginning}")
                tree.add((*path, label), Node(tree.items * share, 1.0, 1.0, before + depth - 1, ITEM))
            tree.answered(share, before + depth)

    def _tokens(self, text: str, special: bool) -> tuple[int, ...]:
        known = self._texts.get((text, special))
        if known is None:
            known = self._texts[text, special] = tuple(self.encode(text, special))
        return known
