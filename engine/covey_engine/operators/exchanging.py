"""A step and its counted subjects go in, the same with the cheaper side as the anchor come out; weighs nothing."""

from __future__ import annotations

import numpy as np
from covey_planner.ordering.anchors import Anchors, Left, exchanged
from covey_planner.physical import AskStep

from covey_engine.operators.known import Known
from covey_engine.operators.runs import StepRun
from covey_engine.operators.subjects import Subjects


def cheaper(
    step: AskStep, subjects: Subjects, anchors: Anchors, known: Known, run: StepRun
) -> tuple[AskStep, Subjects]:
    """The step from the side from which it costs less, noted in its run; as it is where the plan pins the anchor."""
    if step.other is None or subjects.partners is None:
        return step, subjects
    ours, theirs = _left(subjects)
    run.weighed = anchors.weigh(step, ours, theirs, known.part(step, subjects.items))
    if run.weighed is None or not run.weighed.exchanged:
        return step, subjects
    run.step = exchanged(step)
    return run.step, subjects.exchanged()


def _left(subjects: Subjects) -> tuple[Left, Left]:
    """Both sides, with the number of pairs of each row."""
    assert subjects.partners is not None
    ours, theirs = len(subjects.anchors), len(subjects.partners)
    if subjects.pairs is None:
        counts = np.full(ours, theirs), np.full(theirs, ours)
    else:
        counts = np.diff(subjects.pairs.offsets), np.bincount(subjects.pairs.indices, minlength=theirs)
    return Left(subjects.anchors.lengths, counts[0]), Left(subjects.partners.lengths, counts[1])
