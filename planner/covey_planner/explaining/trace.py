"""Plans before and after rules in, what each of these changed as text out, for EXPLAIN VERBOSE; runs nothing."""

from __future__ import annotations

from covey_planner.explaining.rules import logical_text
from covey_planner.logical import Logical, Node


class Trace:
    """Notes the plan after each rule that changed it."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, str]] = []

    def __call__(self, rule: str, node: Node) -> None:
        """A rule that is applied several times in a row is noted once."""
        if self.changes and self.changes[-1][0] == rule:
            self.changes.pop()
        self.changes.append((rule, logical_text(node)))

    def compare(self, step: str, before: Logical, after: Logical) -> None:
        """Note the blocks that a step has changed as a whole."""
        for old, new in zip(before.blocks, after.blocks, strict=True):
            texts = logical_text(old.plan), logical_text(new.plan)
            if texts[0] != texts[1]:
                self.changes.append((step, texts[1]))
