"""A worker process that has loaded its model: orders go in, what it says of them comes out; starts no worker."""

from __future__ import annotations

import queue
import select
import signal
import socket
import subprocess
import threading
import time

from covey_engine.prefill.api import EngineInfo, Running, WorkOrder
from covey_engine.prefill.errors import Cancelled, EngineError, WorkerCrashed
from covey_engine.prefill.process import wire
from covey_engine.prefill.process.messages import Accepted, Cancel, Failed, Reports, Submit
from covey_engine.prefill.process.running import Outcome

LOOK_UP_SECONDS = 0.05
"""How often whoever waits for a worker looks whether its query was cancelled."""


class Link:
    """One worker that has loaded its model."""

    def __init__(self, process: subprocess.Popen[bytes], sock: socket.socket, info: EngineInfo) -> None:
        self.process = process
        self.info = info
        self._sock = sock
        self._sending = threading.Lock()
        self._lock = threading.Lock()
        self._outcomes: dict[int, Outcome] = {}
        self._waiting: dict[int, queue.SimpleQueue[EngineError | None]] = {}
        self._lost: EngineError | None = None
        self._heard = time.monotonic()

    def submit(self, ticket: int, order: WorkOrder, cancel: threading.Event | None = None) -> Running:
        """Send an order and wait for the worker's word on it. Raises EngineError, Cancelled once `cancel` is set."""
        outcome = Outcome(lambda: self._cancel(ticket))
        word: queue.SimpleQueue[EngineError | None] = queue.SimpleQueue()
        with self._lock:
            if self._lost is not None:
                raise self._lost
            self._outcomes[ticket] = outcome
            self._waiting[ticket] = word
        self._send(Submit(ticket, order))
        try:
            error = _word(word, cancel)
        except Cancelled:
            with self._lock:
                self._waiting.pop(ticket, None)
            outcome.cancel()
            raise
        if error is not None:
            raise error
        return outcome

    def listen(self, hang_seconds: float) -> EngineError:
        """Pass on what the worker says until it ends or hangs; why it ended."""
        reason = ""
        while True:
            if not self._wait(hang_seconds):
                reason = f"no progress for {hang_seconds:g} s"
                self.process.kill()
                break
            said = wire.receive(self._sock)
            self._heard = time.monotonic()
            match said:
                case Reports(reports):
                    for report in reports:
                        outcome = self._pick(report.ticket, remove=report.finished)
                        if outcome is not None:
                            outcome.hear(report)
                case Accepted(ticket):
                    self._tell(ticket, None)
                case Failed(ticket) if ticket is not None:
                    outcome = self._pick(ticket, remove=True)
                    if outcome is not None and not self._tell(ticket, said.error):
                        outcome.fail(said.error)
                case _:
                    break
        ending = end(self.process)
        return WorkerCrashed(f"the prefill worker was lost ({reason or ending}); a new one is being started")

    def fail(self, error: EngineError) -> None:
        """Fail all orders of this worker, now and later."""
        with self._lock:
            self._lost = error
            outcomes, self._outcomes = self._outcomes, {}
            waiting, self._waiting = self._waiting, {}
        with self._sending:
            # Whoever sends hears at once that nobody listens any more.
            self._sock.close()
        for word in waiting.values():
            word.put(error)
        for outcome in outcomes.values():
            outcome.fail(error)

    def _wait(self, hang_seconds: float) -> bool:
        """Block until the worker says something; False where it should have long ago."""
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        while not poll.poll(min(1000.0, hang_seconds * 250)):
            # Checking an order is no chunk, and may take its time.
            running = len(self._outcomes) > len(self._waiting)
            if running and time.monotonic() - self._heard > hang_seconds:
                return False
        return True

    def _pick(self, ticket: int, remove: bool) -> Outcome | None:
        with self._lock:
            return self._outcomes.pop(ticket, None) if remove else self._outcomes.get(ticket)

    def _tell(self, ticket: int, error: EngineError | None) -> bool:
        with self._lock:
            word = self._waiting.pop(ticket, None)
        if word is not None:
            word.put(error)
        return word is not None

    def _cancel(self, ticket: int) -> None:
        if self._pick(ticket, remove=True) is not None:
            self._send(Cancel(ticket))

    def _send(self, message: object) -> None:
        try:
            with self._sending:
                wire.send(self._sock, message)
        except OSError:
            # The listening thread sees the end of the worker too and fails the orders.
            return


def _word(word: queue.SimpleQueue[EngineError | None], cancel: threading.Event | None) -> EngineError | None:
    """What the worker says of an order. Raises Cancelled once `cancel` is set."""
    while True:
        try:
            return word.get(timeout=None if cancel is None else LOOK_UP_SECONDS)
        except queue.Empty:
            raise_if_set(cancel)


def raise_if_set(cancel: threading.Event | None) -> None:
    """Raise Cancelled for a query that is cancelled."""
    if cancel is not None and cancel.is_set():
        raise Cancelled("the query was cancelled")


def end(process: subprocess.Popen[bytes]) -> str:
    """Wait for a process that is ending, and say how it ended."""
    try:
        code = process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    if code >= 0:
        return f"exit status {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
