"""A step of the plan goes in, what is found for every (question, item) comes out, by way of work orders."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

import numpy as np
from covey_planner.physical import MATCH, AskStep, Question
from numpy.typing import NDArray

from covey_engine.operators.answers import FALSE, NULL, TRUE, Found
from covey_engine.operators.endings import Ending
from covey_engine.operators.entries import after_failures, by_entry, goes_by_null
from covey_engine.operators.errors import QueryCancelled
from covey_engine.operators.groups import Waves
from covey_engine.operators.known import Known, only_asked
from covey_engine.operators.overflow import Round
from covey_engine.operators.pair_waves import worth
from covey_engine.operators.runs import StepRun
from covey_engine.operators.sampled import Sampled
from covey_engine.operators.scores import probability, zero_point
from covey_engine.operators.subjects import Subjects
from covey_engine.operators.template import Template
from covey_engine.operators.watch import CancelWatch
from covey_engine.prefill import api
from covey_engine.prefill.errors import Cancelled

Items = NDArray[np.int64]

Observer = Callable[[AskStep, api.WorkOrder, api.Answers], None]
"""Sees every margin and score of a query as it arrives, with its order; for measuring and checking."""


@dataclass
class Ledger:
    """The work orders of one query: what they cost and how far they are; readable from any thread.

    steps, samples: those that have begun, with their part of the orders; sampled: what the samples have brought.
    """

    running: list[api.Running] = field(default_factory=list)
    steps: list[StepRun] = field(default_factory=list)
    samples: list[StepRun] = field(default_factory=list)
    latest: StepRun | None = None
    sampled: Sampled | None = None

    def begin(self, step: AskStep, sample: bool = False) -> StepRun:
        """A step begins; the orders from here on are its own."""
        self.latest = StepRun(step)
        (self.samples if sample else self.steps).append(self.latest)
        return self.latest

    def submitted(self, running: api.Running) -> None:
        """An order of the latest step runs."""
        self.running.append(running)
        if self.latest is not None:
            self.latest.running.append(running)

    def figures(self) -> api.Figures:
        """What the query's orders have cost so far."""
        return sum((running.figures() for running in tuple(self.running)), api.Figures())

    def progress(self) -> api.Progress:
        """How far the orders submitted so far are; steps still to come are not counted."""
        parts = [running.progress() for running in tuple(self.running)]
        seconds = [p.seconds_to_come for p in parts if p.seconds_to_come is not None]
        return api.Progress(
            sum(p.fresh_tokens for p in parts),
            sum(p.tokens_to_come for p in parts),
            sum(seconds) if len(seconds) == len(parts) else None,
        )


@dataclass(frozen=True)
class Asking:
    """How a query puts its questions: everything a step needs besides its subjects. known: what need not be asked."""

    engine: api.Engine
    query: str
    readout: api.YesNo
    cancel: threading.Event
    watch: CancelWatch
    ledger: Ledger
    observe: Observer | None = None
    user: str = ""
    known: Known = field(default_factory=Known)

    def ask(
        self,
        step: AskStep,
        template: Template,
        subjects: Subjects,
        rounds: Sequence[Round],
        row_failed: Callable[[Subjects, int, str], None],
        waves: Waves | None = None,
    ) -> list[Found]:
        """Run the rounds; returns what is found for each question. Raises QueryCancelled and EngineError.

        row_failed is called with an item that got no finite answer and the reason: it raises, or returns to
        make that answer NULL. Where the step may end early, what was not needed is NOT_ASKED. waves: of a step
        with groups.
        """
        found = [Found.of(question, subjects.items) for question in step.questions]
        least = worth(template, subjects) if step.pair_order is not None else 0.0
        ending = Ending(step, subjects, waves, least)
        rounds = by_entry(step, rounds)
        rounds, touched = self.known.open_rounds(step, subjects, found, rounds)
        turns, without = ending.turns(rounds), [touched]
        while True:
            lost: list[Items] = []
            for turn, alone in turns:
                lost += self._turn(step, template, subjects, turn, alone, ending, found, row_failed)
                if turn.unanswered:
                    without.append(np.arange(subjects.items) if turn.items is None else turn.items)
            without += lost
            again = after_failures(step, subjects, found, lost)
            if not again:
                break
            turns = iter([(turn, False) for turn in again])
        # A question that stands in a program twice is answered once.
        if len(touched) or goes_by_null(step):
            only_asked(step, subjects, np.unique(np.concatenate(without)), found)
        return found

    def _turn(
        self,
        step: AskStep,
        template: Template,
        subjects: Subjects,
        turn: Round,
        alone: bool,
        ending: Ending,
        found: Sequence[Found],
        row_failed: Callable[[Subjects, int, str], None],
    ) -> list[Items]:
        """Ask a round, taking its answers in; the items that failed."""
        for question in turn.unanswered:
            found[question].states[slice(None) if turn.items is None else turn.items] = NULL
        asked, asks = program(step.questions, template, self.readout, turn)
        if not turn.subjects.items or not asks:
            return []
        lost: list[Items] = []
        order = work_order(self.query, template, turn.subjects, asks)
        order = replace(order, user=self.user, **ending.fields(asks, alone))
        with closing(self._answers(step, order)) as arriving:
            for answers in arriving:
                items = answers.items if turn.items is None else turn.items[answers.items]
                failed = np.isnan(answers.values.reshape(len(items), -1)[:, 0])
                if failed.any():
                    row_failed(subjects, int(items[failed.argmax()]), answers.error or "no finite answer")
                    lost.append(items[failed])
                put = step.questions[asked[answers.ask]]
                states = self._note(put, found[asked[answers.ask]], items, answers, failed)
                # An ask for labels has no truth of its own, and its question no other one after it.
                ended = put if put.kind == "label" else asks[answers.ask]
                ending.count(ended, items, states, failed)
        return lost

    def _note(
        self, question: Question, found: Found, items: Items, answers: api.Answers, failed: NDArray[np.bool_]
    ) -> NDArray[np.int8]:
        """Read an order's answers as the question's; the states of those that did not fail."""
        match found.kind:
            case "boolean":
                states = np.where(answers.margins > zero_point(question, self.readout), TRUE, FALSE)
            case "score":
                states = np.full(len(items), TRUE)
                found.values[items] = probability(answers.margins, self.readout.zero_point)
            case "label":
                chosen = answers.scores.argmax(axis=1)
                found.values[items] = chosen
                states = np.full(len(items), TRUE)
                if found.accepted is not None:
                    states = np.where(found.accepted[chosen], TRUE, FALSE)
        found.states[items] = np.where(failed, NULL, states)
        return states

    def _answers(self, step: AskStep, order: api.WorkOrder) -> Generator[api.Answers]:
        """The order's answers as they come; an order that is not read to its end is cancelled."""
        try:
            running = self.engine.submit(order, self.cancel)
        except Cancelled as error:
            raise QueryCancelled("the query was cancelled") from error
        self.ledger.submitted(running)
        try:
            with self.watch.guard(self.cancel, running.cancel):
                for answers in running.answers():
                    if self.cancel.is_set():
                        raise QueryCancelled("the query was cancelled")
                    if self.observe is not None:
                        self.observe(step, order, answers)
                    yield answers
        except Cancelled as error:
            raise QueryCancelled("the query was cancelled") from error
        except BaseException:
            running.cancel()
            raise


def program(
    questions: Sequence[Question],
    template: Template,
    readout: api.YesNo,
    turn: Round,
) -> tuple[list[int], tuple[api.Ask, ...]]:
    """The ask program of a round, without its unanswered and known questions: the question of each ask, and the asks.

    An unanswered question is NULL: it decides neither AND nor OR, so the program goes on wherever it can, and where it
    ends is no certain match. Questions for labels are put to every item.
    """

    unanswered, known = turn.unanswered, turn.known

    def target(question: int) -> int:
        while question in unanswered or question in known:
            chosen = questions[question]
            if question in known:
                question = chosen.on_true if known[question] else chosen.on_false
            else:
                question = chosen.unanswered
        return api.DONE if unanswered and question == MATCH else question

    entry = target(turn.entry)
    if entry < 0:
        return [], ()
    if template.labels[entry]:
        asked = [i for i in range(entry, len(questions)) if i not in unanswered and i not in known]
        return asked, tuple(api.Ask(template.suffixes[i], api.Labels(template.labels[i])) for i in asked)
    reached = {entry}
    for question in range(entry, len(questions)):
        if question in reached:
            reached |= {target(questions[question].on_true), target(questions[question].on_false)}
    asked = sorted(question for question in reached if question >= 0)
    place = {question: ask for ask, question in enumerate(asked)}
    place |= {api.DONE: api.DONE, MATCH: api.MATCH}
    return asked, tuple(
        api.Ask(
            template.suffixes[i],
            replace(readout, zero_point=zero_point(questions[i], readout)),
            place[target(questions[i].on_true)],
            place[target(questions[i].on_false)],
        )
        for i in asked
    )


def work_order(
    query: str, template: Template, subjects: Subjects, asks: tuple[api.Ask, ...]
) -> api.WorkOrder:
    """The order that puts the asks to all of the subjects."""
    order = api.WorkOrder(
        query,
        template.prefix,
        asks,
        subjects.anchors.arguments,
        pairs=subjects.pairs,
        anchor_count=len(subjects.anchors),
    )
    return order if subjects.partners is None else replace(order, partners=subjects.partners.arguments)
