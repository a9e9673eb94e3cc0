"""Explained plans in, their text as the rows of an EXPLAIN out; with ANALYZE, the statement runs first."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from covey_engine.operators.executor import Result
from covey_engine.operators.runs import StepRun
from covey_engine.operators.sampled import Sampled
from covey_engine.prefill.api import Figures, Progress
from covey_planner.explaining.report import Actual, Sampling
from covey_planner.plan import Planned

from covey_server.execution import AiResult, ExecutionContext
from covey_server.plans import ModelPlan
from covey_server.statements import Outline

EXPLAINED = pa.schema([("explain_key", pa.string()), ("explain_value", pa.string())])
"""The columns of DuckDB's EXPLAIN."""


@dataclass(frozen=True)
class ExplainPlan:
    """A plan to be shown; run before that only if it is to be analyzed. Its outline is that of what is shown."""

    plan: ModelPlan

    @property
    def outline(self) -> Outline:
        """What DuckDB's EXPLAIN yields."""
        return self.plan.outline

    def execute(self, context: ExecutionContext) -> AiResult:
        """Show it."""
        planned = self.plan.planned
        if planned.explain is None or not planned.explain.analyze:
            return _Shown(planned.text)
        return _Analyzed(planned, self.plan.start(context))


class _Shown:
    """The text of a plan as rows, in the shape of DuckDB's EXPLAIN."""

    schema = EXPLAINED

    def __init__(self, text: str) -> None:
        self.batches: Iterator[pa.RecordBatch] = iter([_row("physical_plan", text)])

    def figures(self) -> Figures:
        """The model did nothing."""
        return Figures()

    def progress(self) -> Progress:
        """There is nothing to come."""
        return Progress(0, 0, 0.0)

    def close(self) -> None:
        """There is nothing to give up."""


class _Analyzed:
    """A statement whose rows are counted and dropped; its plan with what happened is the only row."""

    schema = EXPLAINED

    def __init__(self, planned: Planned, result: Result) -> None:
        self._planned = planned
        self._result = result
        self.figures = result.figures
        self.progress = result.progress
        self.close = result.close
        self.batches: Iterator[pa.RecordBatch] = self._run()

    def _run(self) -> Iterator[pa.RecordBatch]:
        begun = time.perf_counter()
        rows = sum(batch.num_rows for batch in self._result.batches)
        sampled = self._result.sampled()
        planned = self._planned if sampled is None or sampled.revised is None else sampled.revised
        report = planned.report
        assert report is not None, "an explained plan has a report"
        steps = self._result.steps()
        report = replace(
            report.ran([run.step for run in steps]),
            actuals=tuple(map(_actual, steps)),
            rows=rows,
            seconds=time.perf_counter() - begun,
            sampling=None if sampled is None else self._sampling(sampled),
        )
        yield _row("analyzed_plan", replace(planned, report=report).text)

    def _sampling(self, sampled: Sampled) -> Sampling:
        return Sampling(
            tuple(run.step for run in self._result.samples()),
            self._planned.doubt.keys,
            tuple(map(_actual, self._result.samples())),
            sampled.shares,
            sampled.verdict,
            sampled.revised is not None,
        )


def _actual(run: StepRun) -> Actual:
    figures = run.figures()
    return Actual(
        anchors=run.anchors,
        partners=run.partners,
        items=run.items,
        prompts=figures.prompts,
        prompt_tokens=figures.prompt_tokens,
        fresh_tokens=figures.fresh_tokens,
        attention_pairs=figures.attention_pairs,
        device_seconds=figures.device_seconds,
        seconds=run.seconds,
        questions=run.questions,
        weighed=run.weighed,
    )


def _row(key: str, text: str) -> pa.RecordBatch:
    return pa.record_batch([[key], [text]], schema=EXPLAINED)
