"""A report as JSON for programs: the figures of every node, as numbers; runs nothing."""

from __future__ import annotations

import json
from dataclasses import asdict

from covey_planner.explaining.as_text import sample_name, step_name
from covey_planner.explaining.report import Report, Sampling, estimated, every_actual, happened, together


def write_json(report: Report) -> str:
    """An object: profile, device, `steps` in the order they run, `total`, and under VERBOSE also rules and SQL; where
    samples are asked before the steps, `sampling`.

    Of a step and of the total: `estimate`, and after ANALYZE `actual`. A figure that is not known is null.
    """
    limit = report.pricing.limit
    expected = [estimated(each, report.pricing) for each in report.estimates]
    actual = [happened(each, report.pricing) for each in every_actual(report)]
    total: dict[str, object] = {}
    if expected:
        total["estimate"] = asdict(together(expected, None))
    if report.actuals:
        total["actual"] = {**asdict(together(actual, report.rows)), "wall_seconds": report.seconds}
    found: dict[str, object] = {
        "profile": report.plan.profile,
        "device": None if limit is None else limit.device.name,
        "calibrated": report.pricing.rates is not None,
        "dollars_per_hour": report.pricing.dollars_per_hour or None,
        "steps": [_step(report, at) for at in range(len(report.plan.steps))],
        "total": total,
    }
    if report.sampling is not None:
        found["sampling"] = _sampling(report, report.sampling)
    if report.explain.verbose:
        found["rules"] = [{"rule": rule, "plan": after.splitlines()} for rule, after in report.trace]
        found["residual"] = report.plan.residual
    return json.dumps(found, indent=2, ensure_ascii=False)


def _sampling(report: Report, sampling: Sampling) -> dict[str, object]:
    found: dict[str, object] = {
        "samples": [_sample(report, sampling, at) for at in range(len(sampling.steps))]
    }
    if sampling.verdict is not None:
        found["verdict"] = asdict(sampling.verdict)
        found["revised"] = sampling.revised
    return found


def _sample(report: Report, sampling: Sampling, at: int) -> dict[str, object]:
    step = sampling.steps[at]
    questions = []
    for question in step.questions:
        shares = {"assumed": sampling.assumed, "found": sampling.found}
        known = {name: each.get(question.key) for name, each in shares.items() if question.key is not None}
        said = {name: asdict(share) for name, share in known.items() if share is not None}
        questions.append({"call": question.call, **said})
    found: dict[str, object] = {"name": sample_name(step), "questions": questions}
    if sampling.actuals:
        found["actual"] = asdict(happened(sampling.actuals[at], report.pricing))
    return found


def _step(report: Report, at: int) -> dict[str, object]:
    step = report.plan.steps[at]
    found: dict[str, object] = {
        "name": step_name(at + 1, step),
        "anchors": [argument.expression for argument in step.anchors.arguments],
        "partners": None if step.partners is None else [a.expression for a in step.partners.arguments],
        "anchor_chosen_by_cost": step.chosen,
        "first_match_of_each_anchor": step.exists and step.each == 1,
        "matches_of_each_anchor": step.each if step.exists else None,
        "matches_of_each_group": None if step.groups is None else step.groups.needed,
        "groups_wanted": None if step.groups is None else step.groups.enough,
        "matches_wanted": step.enough,
        "questions": [_question(report, at, index) for index in range(len(step.questions))],
    }
    if report.estimates:
        sides = {"anchors": report.estimates[at].anchors, "partners": report.estimates[at].partners}
        found["estimate"] = {**sides, **asdict(estimated(report.estimates[at], report.pricing))}
    if report.actuals:
        did = report.actuals[at]
        sides = {"anchors": did.anchors, "partners": did.partners}
        found["actual"] = {**sides, **asdict(happened(did, report.pricing)), "wall_seconds": did.seconds}
        found["anchor_exchanged"] = step.exchanged
        found["anchor_weighed"] = None if did.weighed is None else asdict(did.weighed)
    if report.explain.verbose:
        domains = {"anchors": step.anchors, "partners": step.partners}
        found["sql"] = {side: domain.sql for side, domain in domains.items() if domain is not None}
    return found


def _question(report: Report, at: int, index: int) -> dict[str, object]:
    found: dict[str, object] = {"call": report.plan.steps[at].questions[index].call}
    if report.estimates:
        asked = report.estimates[at].questions[index]
        found["asked"] = asked.items
        found["selectivity"] = None if asked.selectivity is None else asdict(asked.selectivity)
    if report.actuals:
        found["actual_asked"], found["actual_true"] = report.actuals[at].questions[index]
    return found
