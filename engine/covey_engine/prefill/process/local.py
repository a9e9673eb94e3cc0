"""An engine in this process: the scheduler and a given runner in a thread; for tests and benchmarks."""

from __future__ import annotations

import threading
from collections.abc import Callable

from covey_engine.prefill.api import EngineInfo, Running, WorkOrder
from covey_engine.prefill.errors import EngineError
from covey_engine.prefill.process.core import Core
from covey_engine.prefill.process.running import Outcome
from covey_engine.prefill.runner import Runner
from covey_engine.prefill.scheduling.orders import StoredColumn, open_token_column
from covey_engine.prefill.scheduling.reports import Report


class LocalEngine:
    """Implements api.Engine over a runner of the same process. An error of the runner fails all running orders."""

    def __init__(
        self, runner: Runner, open_column: Callable[[str], StoredColumn] = open_token_column
    ) -> None:
        self._info = runner.info
        self._core = Core(runner, open_column, self)
        self._outcomes: dict[int, Outcome] = {}
        self._closed: EngineError | None = None
        self._thread = threading.Thread(target=self._run, name="prefill", daemon=True)
        self._thread.start()

    def info(self) -> EngineInfo:
        """Facts about the runner."""
        return self._info

    def submit(self, order: WorkOrder, cancel: threading.Event | None = None) -> Running:
        """Queue an order, for which nothing is waited. Raises EngineError where it can never run."""
        prepared = self._core.prepare(order)
        tickets: list[int] = []
        outcome = Outcome(lambda: self._core.post(lambda: self._cancel(tickets)))

        def admit() -> None:
            tickets.append(self._core.admit(prepared))
            self._outcomes[tickets[0]] = outcome

        if error := self._closed:
            raise error
        self._core.post(admit)
        if error := self._closed:
            # Closed meanwhile: nobody may be there to do the task.
            outcome.fail(error)
        return outcome

    def close(self) -> None:
        """Stop the thread; running orders fail."""
        if self._closed is None:
            self._closed = EngineError("the engine is closed")
            self._core.post(None)
            self._thread.join()

    def hear(self, reports: list[Report]) -> None:
        """Pass on what a chunk brought; called by the loop."""
        for report in reports:
            self._outcomes[report.ticket].hear(report)
            if report.finished:
                del self._outcomes[report.ticket]

    def fail(self, ticket: int, error: EngineError) -> None:
        """Pass on that an order failed; called by the loop."""
        self._outcomes.pop(ticket).fail(error)

    def _cancel(self, tickets: list[int]) -> None:
        for ticket in tickets:
            self._core.cancel(ticket)
            self._outcomes.pop(ticket, None)

    def _run(self) -> None:
        try:
            self._core.loop()
        except Exception as failure:
            self._closed = EngineError(f"the engine failed: {failure}")
            raise
        finally:
            for ticket in list(self._outcomes):
                self.fail(ticket, self._closed or EngineError("the engine is closed"))
