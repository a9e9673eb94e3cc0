"""A planned statement goes in, a lazy stream of Arrow batches comes out; never plans, never sees the device.

For a plan with questions, on one snapshot: every step's domain (DuckDB) -> slots (token columns) -> answers
(engine) -> answer table (DuckDB), then the residual query over tables and answer tables streams the rows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
from covey_planner.cost.statistics import Selectivity
from covey_planner.lowering.sampling import further_samples
from covey_planner.physical import AskStep, CallKey
from covey_planner.profiles import PromptProfile, load_profile
from covey_storage.catalog import Database
from covey_storage.library import TokenLibrary
from covey_storage.tokenizer import Tokenizer

from covey_engine.operators.answers import Found, write_answers
from covey_engine.operators.asking import Asking, Ledger, Observer
from covey_engine.operators.errors import RowFailed
from covey_engine.operators.exchanging import cheaper
from covey_engine.operators.gathering import Gathering
from covey_engine.operators.overflow import Overflow, Round, check_template, fit, fitting
from covey_engine.operators.readout import readout
from covey_engine.operators.runs import StepRun
from covey_engine.operators.sampled import Sampled, shares
from covey_engine.operators.scratch import Scratch
from covey_engine.operators.streaming import Statements, conform, quoted
from covey_engine.operators.subjects import Subjects
from covey_engine.operators.template import Template, tokenize
from covey_engine.operators.texts import describe_item
from covey_engine.operators.watch import CancelWatch
from covey_engine.prefill import api

if TYPE_CHECKING:
    from covey_planner.ordering.anchors import Anchors
    from covey_planner.plan import Planned

CHANGED = pa.schema([("Count", pa.int64())])
"""What a statement yields that only writes: the number of rows it changed."""


Learn = Callable[[CallKey, int, int], None]
"""Hears of how many texts or pairs a question was asked, and how often it was true."""

Revise = Callable[[Mapping[CallKey, Selectivity]], "Planned"]
"""Plans the statement again, by what a sample has shown, in the same state of the database."""


class Result:
    """What a statement yields: a schema at once, batches as they are made.

    Nothing of a plan with questions runs before the first batch is asked for. Close or drop it to give up the
    rest: the query's transaction, temporary tables and scratch files go with it.
    """

    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch], ledger: Ledger) -> None:
        self.schema = schema
        self.batches = batches
        self._ledger = ledger

    def figures(self) -> api.Figures:
        """What the model's work has cost so far; callable from any thread."""
        return self._ledger.figures()

    def progress(self) -> api.Progress:
        """How far the model's work is; callable from any thread."""
        return self._ledger.progress()

    def samples(self) -> tuple[StepRun, ...]:
        """What each sample that was asked before the steps did."""
        return tuple(self._ledger.samples)

    def sampled(self) -> Sampled | None:
        """What the samples have brought, None without any."""
        return self._ledger.sampled

    def steps(self) -> tuple[StepRun, ...]:
        """What each step that has begun did; callable from any thread."""
        return tuple(self._ledger.steps)

    def close(self) -> None:
        """Give up what has not been read; harmless after the end."""
        close = getattr(self.batches, "close", None)
        if close is not None:
            close()


class Executor:
    """Executes planned statements of any number of queries at once, each on a cursor of its own."""

    def __init__(
        self,
        database: Database,
        library: TokenLibrary,
        tokenizer: Tokenizer,
        engine: api.Engine,
        profiles: Callable[[str], PromptProfile] = load_profile,
    ) -> None:
        self.database = database
        self._library = library
        self._tokenizer = tokenizer
        self._engine = engine
        self._profiles = profiles
        self._watch = CancelWatch()

    def execute(
        self,
        planned: Planned,
        cursor: duckdb.DuckDBPyConnection,
        *,
        query_id: str,
        cancel: threading.Event,
        parameters: Sequence[object] = (),
        overflow: Overflow = "error",
        observe: Observer | None = None,
        user: str = "",
        schema: pa.Schema | None = None,
        learn: Learn | None = None,
        revise: Revise | None = None,
    ) -> Result:
        """Start a statement. Errors of DuckDB, operators, engine and storage come from here or from batches.

        cancel: set it to stop the query wherever it is. overflow: what happens to texts longer than the
        context. observe: sees every margin and score. user: who shares the device with other users.
        schema: of what a statement that writes yields; without it that is how many rows it changed. learn: hears how
        often questions about stored texts were true. revise: without it no sample is asked.
        """
        statements = Statements(cursor, cancel, self._watch)
        ledger = Ledger()
        if planned.kind == "plain":
            reader = statements.open(planned.sql, parameters)
            return Result(reader.schema, statements.batches(reader), ledger)
        if not planned.writes:
            schema = statements.schema(planned.describe_sql)
        elif schema is None:
            schema = CHANGED
        answers = readout(self._profiles(planned.physical.profile), self._tokenizer)
        scratch = Scratch(self._library, query_id)
        run = _Run(
            planned,
            self._tokenizer,
            self._engine,
            statements,
            scratch,
            Gathering(statements, self._library, scratch),
            Asking(self._engine, query_id, answers, cancel, self._watch, ledger, observe, user),
            overflow,
            learn,
            revise,
        )
        return Result(schema, run.batches(schema), ledger)


@dataclass(frozen=True)
class _Run:
    """One plan with questions on its way."""

    planned: Planned
    tokenizer: Tokenizer
    engine: api.Engine
    statements: Statements
    scratch: Scratch
    gathering: Gathering
    asking: Asking
    overflow: Overflow
    learn: Learn | None = None
    revise: Revise | None = None

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """All steps, then the residual's batches in the announced schema; cleans up however it ends."""
        with self.statements.snapshot(), self.scratch:
            planned = self._after_samples()
            plan = planned.physical
            with self.statements.dropping(_tables(plan.steps)):
                for number, step in enumerate(plan.steps):
                    self.statements.check()
                    self._step(step, plan.steps[number + 1 :], planned.anchors)
                # The cursor must be free again before tables are dropped and the transaction ends.
                run = self.statements.write if self.planned.writes else self.statements.read
                with closing(run(plan.residual)) as rows:
                    for batch in rows:
                        yield conform(batch, schema)

    def _after_samples(self) -> Planned:
        """The plan, revised where samples have shown another order to be so much cheaper that it matters.

        Not where texts are cut off: how much depends on the questions that are asked together.
        """
        samples, doubt, revise = self.planned.samples, self.planned.doubt, self.revise
        if not samples or revise is None or self.overflow == "truncate":
            return self.planned
        found: dict[CallKey, Selectivity] = {}
        asked: list[AskStep] = []
        while samples:
            asked += samples
            found |= doubt.news(self._ask_samples(samples))
            # What is worth a sample depends on what those before have shown.
            samples = further_samples(self.planned.physical, doubt.further(found), asked)
        verdict = doubt.verdict(found)
        revised = revise(found) if verdict.matters else None
        self.asking.ledger.sampled = Sampled(found, verdict, revised)
        return self.planned if revised is None else revised

    def _ask_samples(self, samples: Sequence[AskStep]) -> dict[CallKey, Selectivity]:
        found: dict[CallKey, Selectivity] = {}
        with self.statements.dropping(_tables(samples)):
            for step in samples:
                self.statements.check()
                found |= self._sample(step)
        return found

    def _sample(self, step: AskStep) -> dict[CallKey, Selectivity]:
        """Ask a sample; its answers are known from here on. What has none is left to the steps."""
        run = self.asking.ledger.begin(step, sample=True)
        with run.timed():
            self._prepare(step)
            subjects, _ = self.gathering.subjects(step)
            if subjects is None:
                return {}
            template, limit = self._template(step)
            subjects = fitting(template, subjects, limit)
            run.meet(subjects)
            found = self.asking.ask(step, template, subjects, [Round(subjects)], lambda *_: None)
            run.note(found)
            self.asking.known.add(step, subjects, found)
        return shares(step, subjects, found)

    def _step(self, step: AskStep, later: Sequence[AskStep], anchors: Anchors | None) -> None:
        run = self.asking.ledger.begin(step)
        with run.timed():
            self._prepare(step)
            self._ask(step, run, later, anchors)

    def _prepare(self, step: AskStep) -> None:
        for table, query in step.before:
            self.statements.run(f"CREATE TEMP TABLE {quoted(table)} AS {query}")

    def _ask(self, step: AskStep, run: StepRun, later: Sequence[AskStep], anchors: Anchors | None) -> None:
        subjects, waves = self.gathering.subjects(step)
        # How much is cut off from a text depends on the prompt.
        if anchors is not None and subjects is not None and self.overflow != "truncate":
            step, subjects = cheaper(step, subjects, anchors, self.asking.known, run)
        run.meet(subjects)
        if subjects is None:
            if waves is not None:
                left = list(waves)
                assert not left, "there is nobody to be asked"
                waves.write(self.statements)
            write_answers(self.statements, step, None, ())
            return
        if step.questions[0].kind == "count":
            counted = [Found.counted(step.questions[0], subjects)]
            run.note(counted)
            write_answers(self.statements, step, subjects, counted)
            return
        template, limit = self._template(step)
        if waves is None and not step.ordered:
            subjects = self.asking.known.put_last(step, subjects)
        rounds = fit(template, subjects, limit, self.overflow, self.scratch, self._describe)
        found = self.asking.ask(step, template, subjects, rounds, self._row_failed, waves)
        run.note(found)
        self.asking.known.keep(step, subjects, found, later)
        self._learned(run, found)
        if waves is not None:
            waves.write(self.statements)
        write_answers(self.statements, step, subjects, found)

    def _template(self, step: AskStep) -> tuple[Template, int]:
        """A step's prompts, and how long they may be."""
        template = tokenize(step, partial(self.tokenizer.encode, special=True), self.tokenizer.encode)
        limit = self.engine.info().context_length
        check_template(template, tuple(question.call for question in step.questions), limit)
        return template, limit

    def _learned(self, run: StepRun, found: Sequence[Found]) -> None:
        domains = [run.step.anchors, *([run.step.partners] if run.step.partners is not None else [])]
        stored = all(argument.table is not None for domain in domains for argument in domain.arguments)
        if self.learn is None or not stored:
            return
        for question, (asked, true), each in zip(run.step.questions, run.questions, found, strict=True):
            if question.key is None:
                continue
            if question.kind == "boolean":
                self.learn(question.key, asked, true)
            for label, times in each.chosen().items():
                self.learn(replace(question.key, label=label), asked, times)

    def _describe(self, subjects: Subjects, item: int) -> str:
        return describe_item(self.statements, subjects, item)

    def _row_failed(self, subjects: Subjects, item: int, reason: str) -> None:
        if self.overflow != "null":
            raise RowFailed(f"{self._describe(subjects, item)}: no answer: {reason}")


def _tables(steps: Sequence[AskStep]) -> list[str]:
    """The temporary tables that steps fill."""
    tables = [question.answers for step in steps for question in step.questions if question.answers]
    tables += [step.groups.table for step in steps if step.groups is not None and step.groups.table]
    return tables + [table for step in steps for table, _ in step.before]
