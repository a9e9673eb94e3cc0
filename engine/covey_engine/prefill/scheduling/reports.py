"""What the scheduler says of a settled chunk, order by order; plain data for both sides of the process boundary."""

from __future__ import annotations

from dataclasses import dataclass, replace

from covey_engine.prefill.api import Answers, Figures, Progress


@dataclass(frozen=True)
class Report:
    """What a settled chunk brought one order: answers, its cost and progress so far, and whether that was all."""

    ticket: int
    answers: tuple[Answers, ...]
    figures: Figures
    progress: Progress
    finished: bool

    def named(self, ticket: int) -> Report:
        """The same under another ticket."""
        return replace(self, ticket=ticket)
