"""Who is cancelled is stopped until it has stopped, and not afterwards."""

from __future__ import annotations

import threading

from covey_engine.operators.watch import INTERVAL, CancelWatch


def test_a_stop_is_repeated_until_the_block_is_left() -> None:
    watch, cancel, enough = CancelWatch(), threading.Event(), threading.Event()
    calls: list[int] = []

    def stop() -> None:
        calls.append(1)
        if len(calls) == 3:
            enough.set()

    cancel.set()
    with watch.guard(cancel, stop):
        assert enough.wait(30)
    seen = len(calls)
    threading.Event().wait(5 * INTERVAL)
    assert len(calls) == seen


def test_nothing_is_stopped_that_is_not_cancelled() -> None:
    watch, ours, theirs, stopped = CancelWatch(), threading.Event(), threading.Event(), threading.Event()
    theirs.set()
    disturbed: list[int] = []
    with watch.guard(ours, lambda: disturbed.append(1)), watch.guard(theirs, stopped.set):
        assert stopped.wait(30)
    assert not disturbed


def test_a_stop_that_fails_keeps_no_other_from_being_stopped() -> None:
    watch, cancel, stopped = CancelWatch(), threading.Event(), threading.Event()

    def fail() -> None:
        raise OSError("no")

    cancel.set()
    with watch.guard(cancel, fail), watch.guard(cancel, stopped.set):
        assert stopped.wait(30)
