"""Messages between two processes: what comes out is what went in, and arrays lie where numbers may."""

from __future__ import annotations

import socket
import threading

import numpy as np
import pytest
from covey_engine.prefill.api import Answers, Figures, Progress
from covey_engine.prefill.process import wire
from covey_engine.prefill.process.messages import Reports
from covey_engine.prefill.scheduling.reports import Report


def across(message: object) -> object:
    """What the other side reads of a message."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sender = threading.Thread(target=wire.send, args=(ours, message))
        sender.start()
        received = wire.receive(theirs)
        sender.join()
        ours.close()
        assert wire.receive(theirs) is None
    return received


@pytest.mark.parametrize("size", [0, 1, 3, 100_001])
def test_arrays_of_any_size_are_aligned_after_a_text_of_any_size(size: int) -> None:
    for text in ("", "a", "abc", "x" * 70_000):
        arrays = [
            np.arange(size, dtype=np.int8),
            np.arange(size, dtype=np.int64),
            np.arange(size, dtype=np.int32),
        ]
        received = across((text, *arrays))
        assert isinstance(received, tuple)
        assert received[0] == text
        for array, sent in zip(received[1:], arrays, strict=True):
            assert array.flags.aligned
            assert array.dtype == sent.dtype
            assert array.tolist() == sent.tolist()


def answers(ask: int, *items: int, error: str | None = None) -> Answers:
    return Answers(ask, np.array(items, np.int64), np.array(items, np.float32) / 3, error)


@pytest.mark.parametrize(
    "found",
    [
        (),
        ((),),
        ((answers(0, 5, 1),),),
        ((answers(0, 5, 1), answers(1, error="not a number")), (answers(2, 7),), (answers(0, 3, 4, 9),)),
    ],
    ids=["no report", "no answers", "one", "many"],
)
def test_reports_come_out_as_they_went_in(found: tuple[tuple[Answers, ...], ...]) -> None:
    sent = [
        Report(n + 3, theirs, Figures(1, 2, 3, 4, 5, 0.5 + n), Progress(n, 7), n == 1)
        for n, theirs in enumerate(found)
    ]
    received = across(Reports(tuple(sent)))
    assert isinstance(received, Reports)
    for before, after in zip(sent, received.reports, strict=True):
        assert plain(before) == plain(after)


def test_scores_keep_their_shape_and_many_answers_cross_at_once() -> None:
    scores = Answers(1, np.arange(4), np.arange(12, dtype=np.float32).reshape(4, 3))
    many = answers(0, *range(60_000))
    report = Report(7, (scores, many), Figures(), Progress(0, 0), True)
    (received,) = across(Reports((report,))).reports  # type: ignore[attr-defined]
    assert received.answers[0].scores.tolist() == scores.scores.tolist()
    assert received.answers[1].items.tolist() == many.items.tolist()
    assert received.answers[1].margins.tolist() == many.margins.tolist()


def plain(report: Report) -> tuple[object, ...]:
    theirs = [
        (one.ask, one.items.dtype, one.items.tolist(), one.margins.dtype, one.margins.tolist(), one.error)
        for one in report.answers
    ]
    return report.ticket, theirs, report.figures, report.progress, report.finished
