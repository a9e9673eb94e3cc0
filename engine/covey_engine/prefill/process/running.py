"""A submitted order as its caller sees it: the engine's threads put reports in, the caller's takes answers out."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator

from covey_engine.prefill.api import Answers, Figures, Progress
from covey_engine.prefill.errors import Cancelled, EngineError
from covey_engine.prefill.scheduling.reports import Report


class Outcome:
    """Implements api.Running over a queue. `stop` tells the engine of a cancel."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._queue: queue.SimpleQueue[Answers | EngineError | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._over = False
        self._end: EngineError | None = None
        self._drained = False
        self._figures = Figures()
        self._progress = Progress(0, 0)

    def answers(self) -> Iterator[Answers]:
        """Block for the next answers; ends when all are in. Raises EngineError if the order failed."""
        while not self._drained:
            if isinstance(self._end, Cancelled):
                raise self._end
            found = self._queue.get()
            if isinstance(found, Answers):
                yield found
            else:
                self._drained = True
        if self._end is not None:
            raise self._end

    def cancel(self) -> None:
        """Stop at the next chunk."""
        if self.fail(Cancelled("the query was cancelled")):
            self._stop()

    def figures(self) -> Figures:
        """Cost so far."""
        return self._figures

    def progress(self) -> Progress:
        """How far the order is."""
        return self._progress

    @property
    def over(self) -> bool:
        """Whether no more answers will come in."""
        return self._over

    def hear(self, report: Report) -> None:
        """Take in what a chunk brought."""
        with self._lock:
            if self._over:
                return
            self._figures, self._progress = report.figures, report.progress
            for answers in report.answers:
                self._queue.put(answers)
            if report.finished:
                self._over = True
                self._queue.put(None)

    def fail(self, error: EngineError) -> bool:
        """End with an error; False where the order is over already."""
        with self._lock:
            if self._over:
                return False
            self._over, self._end = True, error
            self._queue.put(error)
            return True
