"""A report as JSON for programs: the figures of every node, as numbers; runs nothing."""

from __future__ import annotations

import json
from dataclasses import asdict

from covey_planner.explaining.as_text import step_name
from covey_planner.explaining.report import Report, estimated, happened, together


def write_json(report: Report) -> str:
    """An object: profile, device, `steps` in the order they run, `total`, and under VERBOSE also rules and SQL.

    Of a step and of the total: `estimate`, and after ANALYZE `actual`. A figure that is not known is null.
    """
    limit = report.pricing.limit
    expected = [estimated(each, report.pricing) for each in report.estimates]
    actual = [happened(each, report.pricing) for each in report.actuals]
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
    if report.explain.verbose:
        found["rules"] = [{"rule": rule, "plan": after.splitlines()} for rule, after in report.trace]
        found["residual"] = report.plan.residual
    return json.dumps(found, indent=2, ensure_ascii=False)


def _step(report: Report, at: int) -> dict[str, object]:
    step = report.plan.steps[at]
    found: dict[str, object] = {
        "name": step_name(at + 1, step),
        "anchors": [argument.expression for argument in step.anchors.arguments],
        "partners": None if step.partners is None else [a.expression for a in step.partners.arguments],
        "anchor_chosen_by_cost": step.chosen,
        "first_match_of_each_anchor": step.exists,
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
