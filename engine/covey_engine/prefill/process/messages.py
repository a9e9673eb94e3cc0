"""What the client and the worker say to each other; tickets are the client's, unique over all its workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from covey_engine.prefill import errors
from covey_engine.prefill.api import Answers, EngineInfo, Figures, Progress, WorkOrder
from covey_engine.prefill.config import EngineConfig
from covey_engine.prefill.errors import EngineError
from covey_engine.prefill.process.wire import frequent
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


@frequent
@dataclass(frozen=True)
class Reports:
    """From the worker, after each chunk: what the orders hear of it."""

    reports: tuple[Report, ...]

    def plain(self) -> tuple[Any, ...]:
        """Its numbers, and the bytes of items and values."""
        return tuple(
            (
                report.ticket,
                tuple(
                    (one.ask, one.items.tobytes(), one.values.tobytes(), one.values.shape, one.error)
                    for one in report.answers
                ),
                tuple(vars(report.figures).values()),
                tuple(vars(report.progress).values()),
                report.finished,
            )
            for report in self.reports
        )

    @classmethod
    def of_plain(cls, content: tuple[Any, ...]) -> Reports:
        """The reports; their arrays cannot be written to."""
        return Reports(
            tuple(
                Report(
                    ticket,
                    tuple(_answers(*one) for one in answers),
                    Figures(*figures),
                    Progress(*progress),
                    finished,
                )
                for ticket, answers, figures, progress, finished in content
            )
        )


def _answers(ask: int, items: bytes, values: bytes, shape: tuple[int, ...], error: str | None) -> Answers:
    found = np.frombuffer(values, np.float32)
    return Answers(ask, np.frombuffer(items, np.int64), found.reshape(shape), error)
