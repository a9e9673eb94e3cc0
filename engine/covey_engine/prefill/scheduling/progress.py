"""An order's jobs, its new answers and the device's seconds in, its report out; changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from covey_engine.prefill.api import Answers, Figures, Progress
from covey_engine.prefill.scheduling.jobs import Job
from covey_engine.prefill.scheduling.reports import Report


def report(ticket: int, jobs: Sequence[Job], answers: Sequence[Answers], seconds: float) -> Report:
    """What an order hears of a settled chunk. jobs: all of the order's; seconds: what all chunks so far took."""
    figures = jobs[0].figures if len(jobs) == 1 else sum((job.figures for job in jobs), Figures())
    progress = _progress(jobs, figures.fresh_tokens, seconds)
    return Report(ticket, tuple(answers), figures, progress, not any(job.unsettled for job in jobs))


def _progress(jobs: Sequence[Job], done: int, seconds: float) -> Progress:
    """How far an order is. seconds: what all chunks so far took; others' chunks among its own slow it down."""
    to_come = sum(max(0, job.to_come) for job in jobs if job.unsettled)
    since = min(job.since for job in jobs if job.since is not None)
    return Progress(done, to_come, to_come * (seconds - since) / done if done else None)
