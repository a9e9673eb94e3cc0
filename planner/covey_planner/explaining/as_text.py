"""A report as text for a person: a tree of one line a node, and everything else below it if asked for; runs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from covey_planner.cost.estimate import Asked
from covey_planner.cost.statistics import Selectivity
from covey_planner.explaining.report import (
    Figures,
    Report,
    Sampling,
    estimated,
    every_actual,
    happened,
    together,
)
from covey_planner.ordering.anchors import Weighed
from covey_planner.ordering.doubt import PAIRS, TEXTS
from covey_planner.physical import AnchorText, AskStep, Domain, PartnerText, Question, Segment, Text

_NODE = 56
"""Columns of a node's name; a longer one is cut."""

_HEADINGS = ("rows", "fresh", "shared", "remembered", "pairs", "KV held", "seconds", "limit", "dollars")


@dataclass(frozen=True)
class _Row:
    name: str
    cells: tuple[str, ...] = ()


def write_text(report: Report) -> str:
    """The tree of steps, the last one first, with their figures; verbose: rules, prompts and SQL below."""
    lines = list(_preface(report))
    lines += _table(list(_tree(report)), analyzed=bool(report.actuals))
    lines += _notes(report)
    if report.explain.verbose:
        for rule, after in report.trace:
            lines += ["", f"after {rule}:", *(f"  {line}" for line in after.splitlines())]
        for number, step in enumerate(report.plan.steps, 1):
            lines += ["", *_step(number, step)]
        lines += ["", f"then: {report.plan.residual}"]
    return "\n".join(lines)


def step_name(number: int, step: AskStep) -> str:
    """What a step does, in a few words."""
    if step.questions[0].kind == "count":
        return f"step {number}: count tokens of {_expressions(step.anchors)}"
    if step.partners is None:
        return f"step {number}: ask about {_expressions(step.anchors)}"
    which = "every pair" if step.pairs is None else "linked pairs"
    return f"step {number}: {which} of {_expressions(step.anchors)} (anchor), {_expressions(step.partners)}"


def sample_name(step: AskStep) -> str:
    """What a sample is of, in a few words."""
    if step.partners is None:
        return f"sample: up to {TEXTS} of {_expressions(step.anchors)}"
    return (
        f"sample: up to {PAIRS} pairs of {_expressions(step.anchors)} (anchor), {_expressions(step.partners)}"
    )


def _preface(report: Report) -> Iterator[str]:
    if report.plan.profile:
        yield f"profile: {report.plan.profile}"
    limit, rates = report.pricing.limit, report.pricing.rates
    if limit is not None:
        kind = "measured peaks" if limit.device.measured else "datasheet"
        predicted = "measured rates" if rates is not None else "the limit, nothing being calibrated"
        yield f"limit: {limit.device.name}, {kind}; seconds: by {predicted}"


def _tree(report: Report) -> Iterator[_Row]:
    steps = list(enumerate(report.plan.steps, 1))
    expected = [estimated(each, report.pricing) for each in report.estimates]
    actual = [happened(each, report.pricing) for each in every_actual(report)]
    yield _Row("result", _cells(together(expected, None)) if expected else ())
    if actual:
        yield _Row("  actual", _cells(together(actual, report.rows)))
    actual = actual[len(actual) - len(report.actuals) :]
    for depth, (number, step) in enumerate(reversed(steps)):
        space = "  " * depth
        at = number - 1
        yield _Row(f"{space}└ {step_name(number, step)}", _cells(expected[at]) if expected else ())
        if actual:
            yield _Row(f"{space}    actual", _cells(actual[at]))
        weighed = report.actuals[at].weighed if actual else None
        if step.chosen or weighed is not None:
            yield _anchor(f"{space}    anchor: chosen by cost", weighed)
        for ending in _endings(step):
            yield _Row(f"{space}    until: {ending}")
        for index, question in enumerate(step.questions):
            yield from _asked(report, at, index, f"{space}    {question.call}")
    if report.sampling is not None:
        yield from _sampled(report, report.sampling, "  " * len(steps))


def _anchor(name: str, weighed: Weighed | None) -> _Row:
    """How the anchor was chosen. weighed: what the step costs from either side, where that was found out."""
    if weighed is None:
        return _Row(name)
    planned, other = weighed.planned, weighed.other
    if weighed.exchanged:
        saved = (planned - other) / planned
        return _Row(name, (f"once both sides were counted: {saved:.1%} less than from the planned one",))
    more = f": {(other - planned) / planned:.1%} more from the other" if planned else ""
    return _Row(name, (f"kept once both sides were counted{more}",))


def _sampled(report: Report, sampling: Sampling, space: str) -> Iterator[_Row]:
    """The samples, which are asked before any step, and what they have shown."""
    for number, step in enumerate(sampling.steps):
        yield _Row(f"{space}└ {sample_name(step)}")
        if sampling.actuals:
            yield _Row(f"{space}    actual", _cells(happened(sampling.actuals[number], report.pricing)))
        for question in step.questions:
            known = (question.key,) if question.key is not None else ()
            parts = [f"assumed {_share(sampling.assumed[key])}" for key in known if key in sampling.assumed]
            parts += [f"found {_share(sampling.found[key])}" for key in known if key in sampling.found]
            yield _Row(f"{space}    {question.call}", ("; ".join(parts),) if parts else ())


def _verdict(sampling: Sampling) -> str:
    """What became of the plan."""
    if sampling.verdict is None:
        return "a sample is asked first, as the order of the steps depends on it: the plan may be revised"
    given, best = sampling.verdict.given, sampling.verdict.best
    saved = (given - best) / given if given else 0.0
    if sampling.revised:
        return f"the plan was revised after the sample: by it, this order costs {saved:.0%} less"
    return f"the plan was kept after the sample: by it, another order costs {saved:.1%} less at most"


def _asked(report: Report, step: int, index: int, name: str) -> Iterator[_Row]:
    """A question's line: of how many rows it is asked, and how many answers are true."""
    text = ""
    if report.estimates:
        asked = report.estimates[step].questions[index]
        text = f"asked of {_about(asked.items, asked.exact)}{_likely(asked)}"
    if report.actuals:
        boolean = report.plan.steps[step].questions[index].is_condition
        count, true = report.actuals[step].questions[index]
        share = f", {true / count:.0%} true" if count and boolean else ""
        text += f"{'; ' if text else ''}actually of {_about(count, True)}{share}"
    yield _Row(name, (text,) if text else ())


def _likely(asked: Asked) -> str:
    return "" if asked.selectivity is None else f", {_share(asked.selectivity)}"


def _share(found: Selectivity) -> str:
    return f"{found.value:.0%} true ({found.origin}, {found.low:.0%} to {found.high:.0%})"


def _table(rows: Sequence[_Row], analyzed: bool) -> Iterator[str]:
    """Names to the left, figures to the right, each column as wide as it has to be; a single cell is a remark."""
    headings = (*_HEADINGS, "of limit") if analyzed else _HEADINGS
    figures = [row.cells for row in rows if len(row.cells) > 1]
    if not figures:
        yield from (row.name for row in rows)
        return
    width = min(_NODE, max(len(row.name) for row in rows))
    padded = [(*cells, *[""] * (len(headings) - len(cells))) for cells in figures]
    widths = [max(map(len, column)) for column in zip(headings, *padded, strict=False)]
    shown = [n for n, column in enumerate(zip(*padded, strict=True)) if any(column)]
    yield " " * width + "".join(f"  {headings[n]:>{widths[n]}}" for n in shown)
    for row in rows:
        name = row.name if len(row.name) <= width else row.name[: width - 1] + "…"
        cells = (*row.cells, *[""] * (len(headings) - len(row.cells)))
        if len(row.cells) > 1:
            line = f"{name:<{width}}" + "".join(f"  {cells[n]:>{widths[n]}}" for n in shown)
        else:
            line = f"{name:<{width}}  {''.join(row.cells)}"
        yield line.rstrip()


def _cells(figures: Figures) -> tuple[str, ...]:
    tokens = figures.tokens_exact
    return (
        "" if figures.rows is None else _about(figures.rows, figures.rows_exact),
        _about(figures.fresh_tokens, tokens),
        _about(figures.shared_tokens, tokens),
        _about(figures.remembered_tokens, True),
        _about(figures.attention_pairs, tokens),
        "" if figures.kv_held is None else _about(figures.kv_held, False),
        _seconds(figures.seconds),
        _seconds(figures.limit_seconds),
        _dollars(figures.dollars),
        "" if figures.percent is None else f"{figures.percent:.1f} %",
    )


def _about(count: float, exact: bool) -> str:
    """A number that a person can read; `~` before what is estimated."""
    sign = "" if exact or round(count) == 0 else "~"
    for least, scale, unit in ((1e12, 1e12, "T"), (1e9, 1e9, "G"), (1e7, 1e6, "M")):
        if count >= least:
            return f"{sign}{count / scale:.1f}{unit}"
    return f"{sign}{count:,.0f}"


def _seconds(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.1f}" if value >= 100 else f"{value:.2f}" if value >= 1 or not value else f"{value:.4f}"


def _dollars(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.2f}" if value >= 1 or not value else f"{value:.2g}"


def _notes(report: Report) -> Iterator[str]:
    if any(not step.exact for step in report.estimates):
        yield "~ estimated, not counted"
    for number, (step, found) in enumerate(zip(report.plan.steps, report.estimates, strict=False), 1):
        if not found.tokens_exact:
            sides = [step.anchors, *([step.partners] if step.partners is not None else [])]
            names = ", ".join(_expressions(side) for side in sides)
            yield f"step {number}: tokens of {names} are estimated from bytes, for want of a token column of all texts"
        if found.alike:
            names = _expressions(step.anchors)
            yield f"step {number}: texts of {names} begin alike; how much of that is computed once is estimated"
    if report.sampling is not None:
        yield _verdict(report.sampling)
    if report.seconds is not None:
        yield f"ran in {_seconds(report.seconds)} s"


def _endings(step: AskStep) -> Iterator[str]:
    if step.exists:
        yield "each anchor's first match" if step.each == 1 else f"{step.each} matches of each anchor"
    if step.enough is not None:
        whose = "anchors" if step.pair_order is None else "pairs"
        ordered = f", in the order of the {whose}" if step.ordered else ""
        yield f"{step.enough} {'match' if step.enough == 1 else 'matches'}{ordered}"
    if step.groups is not None:
        needed = step.groups.needed
        order = ", in their order" if step.groups.ranked else ""
        yield f"{'the first match' if needed == 1 else f'{needed} matches'} for each row around it{order}"
        if step.groups.enough is not None:
            ordered = ", in their order" if step.ordered else ""
            yield f"{step.groups.enough} such rows {'without' if step.groups.absent else 'with'} them{ordered}"


def _step(number: int, step: AskStep) -> Iterator[str]:
    """Prompts and SQL of a step."""
    yield step_name(number, step)
    for table, query in step.before:
        yield f"  first: {table}: {query}"
    if step.questions[0].kind == "count":
        yield f"  texts: {step.anchors.sql}"
        return
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


def _expressions(domain: Domain) -> str:
    return ", ".join(
        argument.expression if argument.table else f"{argument.expression} (computed)"
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
