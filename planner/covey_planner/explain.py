"""A physical plan as text for a person; never runs anything."""

from __future__ import annotations

from collections.abc import Iterator

from covey_planner.physical import (
    AnchorText,
    AskStep,
    Domain,
    PartnerText,
    PhysicalPlan,
    Question,
    Segment,
    Text,
)


def explain(plan: PhysicalPlan) -> str:
    """One line a fact: the steps in the order they run, then the residual query."""
    lines = [f"profile: {plan.profile}"] if plan.profile else []
    for number, step in enumerate(plan.steps, 1):
        lines += _step(number, step)
    lines.append(f"then: {plan.residual}")
    return "\n".join(lines)


def _step(number: int, step: AskStep) -> Iterator[str]:
    for table, query in step.before:
        yield f"first: {table}: {query}"
    if step.questions[0].kind == "count":
        yield f"step {number}: count the tokens of {_arguments(step.anchors)} -> {step.questions[0].answers}"
        yield f"  texts: {step.anchors.sql}"
        return
    if step.partners is None:
        yield f"step {number}: ask about {_arguments(step.anchors)}"
    else:
        which = "every pair" if step.pairs is None else "the linked pairs"
        anchor = "anchor, chosen by cost" if step.chosen else "anchor"
        sides = f"{_arguments(step.anchors)} ({anchor}) and {_arguments(step.partners)}"
        yield f"step {number}: ask about {which} of {sides}"
    if step.exists:
        yield "  until: each anchor's first match"
    if step.enough is not None:
        yield f"  until: {step.enough} {'match' if step.enough == 1 else 'matches'}" + (
            ", in the order of the anchors" if step.ordered else ""
        )
    yield f"  shared prefix: {_segments(step.prefix)}"
    for index, question in enumerate(step.questions):
        yield from _question(index, question)
    yield f"  anchors: {step.anchors.sql}"
    if step.partners is not None:
        yield f"  partners: {step.partners.sql}"
    if step.pairs is not None:
        yield f"  pairs: {step.pairs}"


def _question(index: int, question: Question) -> Iterator[str]:
    after = [
        f"{word}: question {to}"
        for word, to in (("true", question.on_true), ("false", question.on_false))
        if to >= 0
    ]
    yield f"  question {index}: {question.call} -> {question.answers} ({question.keep})" + "".join(
        f", {a}" for a in after
    )
    yield f"    prompt continues: {_segments(question.suffix)}"


def _arguments(domain: Domain) -> str:
    return ", ".join(
        f"{argument.expression} (stored column)" if argument.table else f"{argument.expression} (computed)"
        for argument in domain.arguments
    )


def _segments(segments: tuple[Segment, ...]) -> str:
    shown: list[str] = []
    for segment in segments:
        match segment:
            case Text(text):
                shown.append(repr(text))
            case AnchorText(argument):
                shown.append(f"<anchor {argument}>")
            case PartnerText(argument):
                shown.append(f"<partner {argument}>")
    return " + ".join(shown)
