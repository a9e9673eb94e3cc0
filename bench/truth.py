"""Answers drawn at random that stay the same whatever the order, and an engine that gives them: the real scheduler over
the fake runner, whose chunks are checked and whose yes, no and labels are replaced.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from covey_engine.prefill import api
from covey_engine.prefill.scheduling.orders import Limits, open_token_column
from covey_engine.prefill.scheduling.scheduler import Scheduler
from covey_storage.tokens import TokenColumn
from numpy.typing import NDArray
from support.byte_tokenizer import byte_tokenizer
from support.fake_runner import FakeRunner

Numbers = NDArray[np.uint64]
_QUESTION = re.compile(r"Q(\d+)\?")
_PIECES = {byte_tokenizer().token_id(chr(code)): chr(code) for code in range(33, 127)}


def question_number(text: str) -> int:
    """The number of a question, which its text holds as `Q7?`."""
    found = _QUESTION.search(text)
    assert found is not None, text
    return int(found[1])


def text_number(tokens: NDArray[np.int32]) -> int:
    """A number for a text, equal for equal texts."""
    found = 14695981039346656037
    for token in tokens.tolist():
        found = ((found ^ token) * 1099511628211) % 2**64
    return found


@dataclass(frozen=True)
class Answers:
    """shares: how often each question is true; correlated: what makes one question true tends to make others so."""

    shares: Mapping[int, float]
    seed: int
    correlated: bool

    def true(self, question: int, texts: Numbers) -> NDArray[np.bool_]:
        """Whether a question is true of texts by number; of pairs, by the sum of their numbers."""
        own = _uniform(texts, 1_000 * self.seed + question + 1)
        if self.correlated:
            common, chosen = _uniform(texts, 1_000 * self.seed), _uniform(texts, 1_000_003 + question)
            own = np.where(chosen < 0.7, common, own)
        return own < self.shares[question]

    def label(self, question: int, texts: Numbers, labels: int) -> NDArray[np.int64]:
        """The number of the label: one of the first two where the question is true, else one of the others."""
        drawn = _uniform(texts, 1_000 * self.seed + 500 + question)
        among = np.where(self.true(question, texts), drawn * 2, 2 + drawn * (labels - 2))
        return among.astype(np.int64)


def _uniform(numbers: Numbers, seed: int) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):
        value = numbers * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed) * np.uint64(0xBF58476D1CE4E5B9)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            value = (value ^ (value >> np.uint64(shift))) * np.uint64(factor)
    return (value ^ (value >> np.uint64(31))) / np.float64(2**64)


class TruthEngine:
    """Implements api.Engine: an order runs when it is submitted."""

    def __init__(self, arena: int, chunk: int) -> None:
        self._runner = FakeRunner(arena, chunk)
        self._numbers: dict[tuple[str, int], int] = {}
        self._limits = Limits(arena, chunk, 1 << 20)
        self.answers = Answers({}, 0, correlated=False)

    def info(self) -> api.EngineInfo:
        """Facts about the runner."""
        return self._runner.info

    def close(self) -> None:
        """Nothing runs between orders."""

    def submit(self, order: api.WorkOrder, cancel: threading.Event | None = None) -> Done:
        """Run an order to its end."""
        scheduler = Scheduler(self._limits, open_token_column)
        scheduler.submit(order)
        truths = [self._truth(order, ask) for ask in order.asks]
        done = Done()
        while scheduler.running:
            for report in scheduler.finish_empty():
                done.take(_labelled(report.answers, truths), report.figures)
            chunk = scheduler.schedule()
            if chunk is None:
                break
            self._runner.set_answer_tokens(*scheduler.head)
            logits = self._runner.run(chunk)
            flight = scheduler._flights[0]
            for batch, rows in zip(flight.batches, flight.answers, strict=True):
                truth = truths[batch.job.prepared.ask + batch.ask]
                readout = batch.job.asks[batch.ask].readout
                if isinstance(readout, api.YesNo):
                    tokens = list(flight.head.tokens)
                    signs = np.where(truth[batch.items], 1.0, -1.0)
                    logits[np.ix_(rows, [tokens.index(token) for token in readout.yes])] = signs[:, None]
                    logits[np.ix_(rows, [tokens.index(token) for token in readout.no])] = -signs[:, None]
            for report in scheduler.settle(logits):
                done.take(_labelled(report.answers, truths), report.figures)
            scheduler.check()
        assert scheduler.arena.free == scheduler.arena.total
        return done

    def _truth(self, order: api.WorkOrder, ask: api.Ask) -> NDArray[Any]:
        """The answer to an ask for each item of an order: yes or no, or the number of a label."""
        tokens = [
            t for part in (*order.prefix, *ask.suffix) if isinstance(part, api.Literal) for t in part.tokens
        ]
        question = question_number("".join(_PIECES.get(token, " ") for token in tokens))
        texts = self._texts(order.anchors)
        if order.partners:
            partners = self._texts(order.partners)
            if order.pairs is None:
                texts = (texts[:, None] + partners[None, :]).reshape(-1)
            else:
                texts = np.repeat(texts, np.diff(order.pairs.offsets)) + partners[order.pairs.indices]
        if isinstance(ask.readout, api.Labels):
            return self.answers.label(question, texts, len(ask.readout.labels))
        return self.answers.true(question, texts)

    def _texts(self, arguments: tuple[api.Argument, ...]) -> Numbers:
        total = np.zeros(len(arguments[0].slots), np.uint64)
        for argument in arguments:
            column = TokenColumn(argument.column)
            found = []
            for slot in argument.slots.tolist():
                known = self._numbers.get((argument.column, slot))
                if known is None:
                    known = self._numbers[argument.column, slot] = text_number(column.tokens(slot))
                found.append(known)
            total += np.array(found, np.uint64)
        return total


def _labelled(answers: tuple[api.Answers, ...], truths: Sequence[NDArray[Any]]) -> tuple[api.Answers, ...]:
    """The same answers, with the score of the true label above the others'."""
    found = []
    for each in answers:
        if each.values.ndim == 2:
            values = np.zeros_like(each.values)
            values[np.arange(len(values)), truths[each.ask][each.items]] = 1.0
            each = replace(each, values=values)
        found.append(each)
    return tuple(found)


class Done:
    """An order that has run."""

    def __init__(self) -> None:
        self._answers: list[api.Answers] = []
        self._figures = api.Figures()

    def take(self, answers: tuple[api.Answers, ...], figures: api.Figures) -> None:
        """Take in what a chunk brought."""
        self._answers += answers
        self._figures = figures

    def answers(self) -> Iterator[api.Answers]:
        """All of them."""
        yield from self._answers

    def cancel(self) -> None:
        """It is over already."""

    def figures(self) -> api.Figures:
        """What it cost."""
        return self._figures

    def progress(self) -> api.Progress:
        """It is at its end."""
        return api.Progress(self._figures.fresh_tokens, 0, 0.0)
