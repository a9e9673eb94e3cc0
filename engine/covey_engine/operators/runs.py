"""What each step of a query did, noted while it runs: who was asked, what was true, what it cost; changes nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from covey_planner.ordering.anchors import Weighed
from covey_planner.physical import AskStep

from covey_engine.operators.answers import NOT_ASKED, TRUE, Found
from covey_engine.operators.subjects import Subjects
from covey_engine.prefill import api


@dataclass
class StepRun:
    """One step's part of a query; readable from any thread, final once the query has ended.

    step: as it runs, its sides exchanged or not; weighed: what it costs from either side, where that was open.
    anchors, partners, items: who could be asked (partners: None for a filter). questions: of each, of how many items
    there is an answer, and how many are true. seconds: from the step's first statement to its last answer.
    """

    step: AskStep
    weighed: Weighed | None = None
    anchors: int = 0
    partners: int | None = None
    items: int = 0
    questions: tuple[tuple[int, int], ...] = ()
    seconds: float = 0.0
    running: list[api.Running] = field(default_factory=list)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Note how long the block takes."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds = time.perf_counter() - begun

    def meet(self, subjects: Subjects | None) -> None:
        """Note who could be asked; None: nobody."""
        self.questions = ((0, 0),) * len(self.step.questions)
        self.partners = None if self.step.partners is None else 0
        if subjects is not None:
            self.anchors, self.items = len(subjects.anchors), subjects.items
            self.partners = None if subjects.partners is None else len(subjects.partners)

    def note(self, found: Sequence[Found]) -> None:
        """Note what was found."""
        self.questions = tuple(
            (int(np.count_nonzero(each.states != NOT_ASKED)), int(np.count_nonzero(each.states == TRUE)))
            for each in found
        )

    def figures(self) -> api.Figures:
        """What the step's orders have cost so far."""
        return sum((running.figures() for running in tuple(self.running)), api.Figures())
