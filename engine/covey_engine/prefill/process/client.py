"""The engine as the server holds it: orders go to a worker process, answers come back; a lost worker is replaced.

A supervisor thread starts workers one after another; while one lives, it reads what that worker says. All else may
be called from any thread. A worker that crashes or hangs fails its running orders and is replaced at once; one that
cannot start is tried again a few times and then only when the next order comes.
"""

from __future__ import annotations

import itertools
import os
import queue
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace

from covey_engine.prefill.api import EngineInfo, Running, WorkOrder
from covey_engine.prefill.config import EngineConfig
from covey_engine.prefill.errors import EngineError, WorkerCrashed
from covey_engine.prefill.process import wire
from covey_engine.prefill.process.messages import Accepted, Cancel, Failed, Load, Ready, Reports, Submit
from covey_engine.prefill.process.running import Outcome

_OPENER = "covey_engine.prefill.loader:open_runner"
_ATTEMPTS = 3
_CLOSED = "the engine is closed"


class EngineClient:
    """Implements api.Engine over a worker process."""

    def __init__(self, config: EngineConfig, opener: str = _OPENER) -> None:
        self._config = config
        self._opener = opener
        self._tickets = itertools.count(1)
        self._changed = threading.Condition()
        self._closed = False
        # Exactly one of these is set, or none while a worker is starting.
        self._link: _Link | None = None
        self._broken: EngineError | None = None
        self._wanted = True
        self._process: subprocess.Popen[bytes] | None = None
        self._supervisor = threading.Thread(target=self._supervise, name="prefill supervisor", daemon=True)
        self._supervisor.start()

    @classmethod
    def start(cls, config: EngineConfig, opener: str = _OPENER) -> EngineClient:
        """Start a worker and wait until its model is loaded. Raises ModelError where it cannot be."""
        client = cls(config, opener)
        try:
            client._ready()
        except BaseException:
            client.close()
            raise
        return client

    @property
    def worker_pid(self) -> int:
        """The process id of the worker; waits while one is starting."""
        return self._ready().process.pid

    def info(self) -> EngineInfo:
        """Facts about the loaded model; waits while a worker is starting."""
        return self._ready().info

    def submit(self, order: WorkOrder) -> Running:
        """Queue an order; waits while a worker is starting. Raises EngineError where the order can never run."""
        link = self._ready()
        try:
            return link.submit(next(self._tickets), order)
        except WorkerCrashed:
            # The worker was lost before it took the order, which may wait for the next one; but only once.
            return self._ready().submit(next(self._tickets), order)

    def close(self) -> None:
        """Stop the worker; running orders fail. Returns within seconds whatever the worker does."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            if self._process is not None:
                self._process.kill()
        self._supervisor.join()

    def _ready(self) -> _Link:
        """The live worker. Raises what keeps workers from starting."""
        with self._changed:
            self._wanted = True
            self._changed.notify_all()
            if self._broken is not None:
                self._broken = None
            self._changed.wait_for(lambda: self._closed or self._link is not None or self._broken is not None)
            if self._closed:
                raise EngineError(_CLOSED)
            if self._broken is not None:
                raise self._broken
            assert self._link is not None
            return self._link

    def _supervise(self) -> None:
        failures = 0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._wanted)
                if self._closed:
                    return
            outcome = self._start_worker()
            if isinstance(outcome, EngineError):
                failures += 1
                # The model's own error says all; a crash may pass.
                last = not isinstance(outcome, WorkerCrashed) or failures >= _ATTEMPTS
                with self._changed:
                    if last:
                        self._broken, self._wanted, failures = outcome, False, 0
                        self._changed.notify_all()
                    else:
                        self._changed.wait_for(lambda: self._closed, timeout=0.2 * 2**failures)
                continue
            failures = 0
            with self._changed:
                # A worker that takes the place of a lost one need not measure again.
                self._config = replace(self._config, rates=outcome.info.rates)
                self._link = outcome
                self._changed.notify_all()
            error = outcome.listen(self._config.hang_seconds)
            with self._changed:
                self._link = None
                closed = self._closed
            outcome.fail(EngineError(_CLOSED) if closed else error)

    def _start_worker(self) -> _Link | EngineError:
        ours, theirs = socket.socketpair()
        with theirs:
            command = [
                sys.executable,
                "-P",
                "-m",
                "covey_engine.prefill.process.worker",
                str(theirs.fileno()),
                self._opener,
            ]
            with self._changed:
                if self._closed:
                    ours.close()
                    return EngineError(_CLOSED)
                self._process = process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                    # A runner has threads of its own, each of which multiplies alone.
                    env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
                )
        try:
            wire.send(ours, Load(self._config))
        except OSError:
            said = None
        else:
            said = wire.receive(ours)
        if isinstance(said, Ready):
            return _Link(process, ours, said.info)
        ours.close()
        ending = _end(process)
        if isinstance(said, Failed):
            return said.error
        return WorkerCrashed(f"the prefill worker ended while it loaded the model ({ending})")


class _Link:
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

    def submit(self, ticket: int, order: WorkOrder) -> Running:
        """Send an order and wait for the worker's word on it. Raises EngineError."""
        outcome = Outcome(lambda: self._cancel(ticket))
        word: queue.SimpleQueue[EngineError | None] = queue.SimpleQueue()
        with self._lock:
            if self._lost is not None:
                raise self._lost
            self._outcomes[ticket] = outcome
            self._waiting[ticket] = word
        self._send(Submit(ticket, order))
        error = word.get()
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
        ending = _end(self.process)
        return WorkerCrashed(f"the prefill worker was lost ({reason or ending}); a new one is being started")

    def fail(self, error: EngineError) -> None:
        """Fail all orders of this worker, now and later."""
        with self._lock:
            self._lost = error
            outcomes, self._outcomes = self._outcomes, {}
            waiting, self._waiting = self._waiting, {}
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


def _end(process: subprocess.Popen[bytes]) -> str:
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
