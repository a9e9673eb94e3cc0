"""What the client and the worker say to each other; tickets are the client's, unique over all its workers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill import errors
from covey_engine.prefill.api import Answers, EngineInfo, Figures, Progress, WorkOrder
from covey_engine.prefill.config import EngineConfig
from covey_engine.prefill.errors import EngineError
from covey_engine.prefill.scheduling.reports import Report


@dataclass(frozen=True)
class Load:
    """To the worker, first: load the model."""

    config: EngineConfig


@dataclass(frozen=True)
class Submit:
    """To the worker: check and queue an order; answered by Accepted or Failed."""

    ticket: int
    order: WorkOrder


@dataclass(frozen=True)
class Cancel:
    """To the worker: forget an order."""

    ticket: int


@dataclass(frozen=True)
class Ready:
    """From the worker: the model is loaded."""

    info: EngineInfo


@dataclass(frozen=True)
class Accepted:
    """From the worker: the order is queued."""

    ticket: int


@dataclass(frozen=True)
class Failed:
    """From the worker: an order (or, without a ticket, loading) failed. kind: a class of errors.py."""

    ticket: int | None
    kind: str
    message: str

    @staticmethod
    def of(ticket: int | None, error: EngineError) -> Failed:
        """The message for an error."""
        return Failed(ticket, type(error).__name__, str(error))

    @property
    def error(self) -> EngineError:
        """The error that the message speaks of."""
        kind = getattr(errors, self.kind, EngineError)
        found: EngineError = kind(self.message)
        return found


@dataclass(frozen=True)
class Reports:
    """From the worker, after each chunk: what the orders hear of it."""

    reports: tuple[Report, ...]

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        """The bytes of all items and those of all margins and scores, plain tuples for the rest."""
        answers = [answers for report in self.reports for answers in report.answers]
        heads = tuple(
            (
                report.ticket,
                tuple((one.ask, one.values.shape, one.error) for one in report.answers),
                tuple(vars(report.figures).values()),
                tuple(vars(report.progress).values()),
                report.finished,
            )
            for report in self.reports
        )
        items = _joined([one.items for one in answers], np.int64)
        values = _joined([one.values.reshape(-1) for one in answers], np.float32)
        # So few bytes cross faster within the message than beside it.
        return _reports, (heads, bytearray(items.data), bytearray(values.data))


def _joined(arrays: list[NDArray[Any]], dtype: type[np.generic]) -> NDArray[Any]:
    return (
        np.ascontiguousarray(arrays[0]) if len(arrays) == 1 else np.concatenate([np.empty(0, dtype), *arrays])
    )


def _reports(heads: tuple[Any, ...], *content: bytearray) -> Reports:
    items, values = np.frombuffer(content[0], np.int64), np.frombuffer(content[1], np.float32)
    begin, first, reports = 0, 0, list[Report]()
    for ticket, parts, figures, progress, finished in heads:
        answers = []
        for ask, shape, error in parts:
            end, last = begin + shape[0], first + math.prod(shape)
            answers.append(Answers(ask, items[begin:end], values[first:last].reshape(shape), error))
            begin, first = end, last
        reports.append(Report(ticket, tuple(answers), Figures(*figures), Progress(*progress), finished))
    return Reports(tuple(reports))
