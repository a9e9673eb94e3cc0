"""What EXPLAIN says of a plan, as data: each step's figures as estimated and, once it has run, as they were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from covey_planner.cost.estimate import StepEstimate
from covey_planner.cost.roofline import Pricing
from covey_planner.cost.statistics import Selectivity
from covey_planner.cost.work import Work
from covey_planner.language.explained import Explain
from covey_planner.ordering.anchors import Weighed
from covey_planner.ordering.doubt import Verdict
from covey_planner.physical import AskStep, CallKey, PhysicalPlan


@dataclass(frozen=True)
class Actual:
    """What a step did. items: anchors of a filter, pairs of a join; device_seconds: time of the model's passes;
    seconds: from its first statement to its last answer; questions: of each, how many items were asked and how many
    of the answers were true; weighed: what it costs from either side, where that was open until both were counted.
    """

    anchors: int
    partners: int | None
    items: int
    prompts: int
    prompt_tokens: int
    fresh_tokens: int
    attention_pairs: int
    device_seconds: float
    seconds: float
    questions: tuple[tuple[int, int], ...]
    weighed: Weighed | None = None


@dataclass(frozen=True)
class Sampling:
    """Samples that are asked before the steps, as the order depends on it.

    assumed: the shares that are in doubt. Where they were asked: actuals of each, the shares found, what these say of
    the order, and whether the plan shown is the one that was made then.
    """

    steps: tuple[AskStep, ...]
    assumed: Mapping[CallKey, Selectivity]
    actuals: tuple[Actual, ...] = ()
    found: Mapping[CallKey, Selectivity] = field(default_factory=dict)
    verdict: Verdict | None = None
    revised: bool = False


@dataclass(frozen=True)
class Report:
    """A plan and all that is known of it. trace: of each rule that changed the logical plan its name and the plan after
    it. actuals: of the steps, and rows and seconds of the whole statement, where it has run.
    """

    plan: PhysicalPlan
    explain: Explain
    estimates: tuple[StepEstimate, ...] = ()
    pricing: Pricing = field(default_factory=Pricing)
    trace: tuple[tuple[str, str], ...] = ()
    actuals: tuple[Actual, ...] = ()
    rows: int | None = None
    seconds: float | None = None
    sampling: Sampling | None = None

    def ran(self, steps: Sequence[AskStep]) -> Report:
        """The plan with its steps as they ran; where sides were exchanged, their estimates go with them."""
        estimates = tuple(
            replace(found, anchors=found.partners, partners=found.anchors)
            if step.exchanged and found.partners is not None
            else found
            for step, found in zip(steps, self.estimates, strict=False)
        )
        return replace(self, plan=replace(self.plan, steps=tuple(steps)), estimates=estimates)


@dataclass(frozen=True)
class Figures:
    """A node's figures; None where one is not known.

    rows: anchors or pairs. seconds: predicted, or those of the model's passes; limit_seconds: the least that the device
    can take; percent: the rate as a part of that limit. rows_exact, tokens_exact: not estimated.
    """

    rows: float | None
    fresh_tokens: float
    shared_tokens: float
    remembered_tokens: float
    attention_pairs: float
    kv_held: float | None
    seconds: float | None
    limit_seconds: float | None
    dollars: float | None
    percent: float | None = None
    rows_exact: bool = True
    tokens_exact: bool = True


def estimated(step: StepEstimate, pricing: Pricing) -> Figures:
    """A step's figures before it runs."""
    seconds = pricing.seconds(step.work, step.prompts)
    return Figures(
        rows=step.items,
        fresh_tokens=step.work.fresh,
        shared_tokens=step.shared,
        remembered_tokens=step.remembered,
        attention_pairs=step.work.pairs,
        kv_held=step.work.held,
        seconds=seconds,
        limit_seconds=pricing.limit_seconds(step.work, step.prompts),
        dollars=pricing.dollars(seconds),
        rows_exact=step.rows_exact,
        tokens_exact=step.exact,
    )


def happened(step: Actual, pricing: Pricing) -> Figures:
    """A step's figures after it has run."""
    work = Work(fresh=step.fresh_tokens, pairs=step.attention_pairs)
    limit = pricing.limit_seconds(work, step.prompts)
    return Figures(
        rows=step.items,
        fresh_tokens=step.fresh_tokens,
        shared_tokens=step.prompt_tokens - step.fresh_tokens,
        remembered_tokens=0,
        attention_pairs=step.attention_pairs,
        kv_held=None,
        seconds=step.device_seconds,
        limit_seconds=limit,
        dollars=pricing.dollars(step.device_seconds),
        percent=_percent(limit, step.device_seconds),
    )


def every_actual(report: Report) -> tuple[Actual, ...]:
    """What the samples did, and then the steps."""
    return (*(report.sampling.actuals if report.sampling is not None else ()), *report.actuals)


def together(steps: Sequence[Figures], rows: float | None) -> Figures:
    """All of them, one after another. rows: of the result."""
    limit = _sum([step.limit_seconds for step in steps])
    seconds = _sum([step.seconds for step in steps])
    held = [step.kv_held for step in steps if step.kv_held is not None]
    return Figures(
        rows=rows,
        fresh_tokens=sum(step.fresh_tokens for step in steps),
        shared_tokens=sum(step.shared_tokens for step in steps),
        remembered_tokens=sum(step.remembered_tokens for step in steps),
        attention_pairs=sum(step.attention_pairs for step in steps),
        kv_held=max(held, default=None),
        seconds=seconds,
        limit_seconds=limit,
        dollars=_sum([step.dollars for step in steps]),
        percent=_percent(limit, seconds) if any(step.percent is not None for step in steps) else None,
        tokens_exact=all(step.tokens_exact for step in steps),
    )


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _percent(limit: float | None, seconds: float | None) -> float | None:
    return 100 * limit / seconds if limit is not None and seconds else None
