"""Odds of answers in, how many items each question of a step is put to out; runs nothing."""

from __future__ import annotations

from collections.abc import Sequence

from covey_planner.cost.statistics import Selectivity
from covey_planner.physical import MATCH, AskStep, Question


def reach(
    questions: Sequence[Question], likely: Sequence[Selectivity | None], first: int = 0
) -> tuple[list[float], float]:
    """The share of items that each question is put to, and the share that ends with a match. first: the question that
    they begin with.
    """
    shares = [float(number == first) for number in range(len(questions))]
    match = 0.0
    for number, (question, found) in enumerate(zip(questions, likely, strict=True)):
        share = 1.0 if found is None else found.value
        branches = {question.on_true: share, question.on_false: 1 - share}
        if len(branches) == 1:
            branches[question.on_true] = 1.0
        for target, part in branches.items():
            if target == MATCH:
                match += shares[number] * part
            elif target >= 0:
                shares[target] += shares[number] * part
    return shares, min(match, 1.0)


def ended(step: AskStep, items: float, anchors: float, match: float) -> tuple[float, float]:
    """Items and anchors that are asked where a step ends early."""
    partners = items / anchors if anchors else 0.0
    if step.exists and match:
        tries = any_of(match, partners) / match if step.each == 1 else min(partners, step.each / match)
        items = min(items, anchors * tries)
    if step.enough is not None and match:
        each = any_of(match, partners) if step.exists else match * max(partners, 1.0)
        wanted = min(anchors, step.enough / each) if each else anchors
        items, anchors = items * wanted / anchors if anchors else 0.0, wanted
    return items, anchors


def any_of(share: float, tries: float) -> float:
    """The odds that one of so many is true."""
    return 1.0 - float((1.0 - share) ** tries)
