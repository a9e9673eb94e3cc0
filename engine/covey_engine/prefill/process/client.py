"""The engine as the server holds it: orders go to a worker process, answers come back; a lost worker is replaced.

A supervisor thread starts workers one after another; while one lives, it reads what that worker says. All else may
be called from any thread. A worker that crashes or hangs fails its running orders and is replaced at once; one that
cannot start is tried again a few times and then only when the next order comes.
"""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import threading
from dataclasses import replace

from covey_engine.prefill.api import EngineInfo, Running, WorkOrder
from covey_engine.prefill.config import EngineConfig
from covey_engine.prefill.errors import EngineError, WorkerCrashed
from covey_engine.prefill.process import wire
from covey_engine.prefill.process.link import LOOK_UP_SECONDS, Link, end, raise_if_set
from covey_engine.prefill.process.messages import Failed, Load, Ready

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
        self._link: Link | None = None
        self._broken: EngineError | None = None
        self._wanted = True
        self._info: EngineInfo | None = None
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
        """Facts about the loaded model; waits while the first worker is starting. Its successors load the same."""
        info = self._info
        return self._ready().info if info is None else info

    def submit(self, order: WorkOrder, cancel: threading.Event | None = None) -> Running:
        """Queue an order; waits while a worker is starting. Raises EngineError where the order can never run, and
        Cancelled once `cancel` is set.
        """
        link = self._ready(cancel)
        try:
            return link.submit(next(self._tickets), order, cancel)
        except WorkerCrashed:
            # The worker was lost before it took the order, which may wait for the next one; but only once.
            return self._ready(cancel).submit(next(self._tickets), order, cancel)

    def close(self) -> None:
        """Stop the worker; running orders fail. Returns within seconds whatever the worker does."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            if self._process is not None:
                self._process.kill()
        self._supervisor.join()

    def _ready(self, cancel: threading.Event | None = None) -> Link:
        """The live worker. Raises what keeps workers from starting, and Cancelled."""

        def decided() -> bool:
            return self._closed or self._link is not None or self._broken is not None

        with self._changed:
            self._wanted = True
            self._changed.notify_all()
            if self._broken is not None:
                self._broken = None
            while not self._changed.wait_for(decided, None if cancel is None else LOOK_UP_SECONDS):
                raise_if_set(cancel)
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
                self._info = outcome.info
                self._link = outcome
                self._changed.notify_all()
            error = outcome.listen(self._config.hang_seconds)
            with self._changed:
                self._link = None
                closed = self._closed
            outcome.fail(EngineError(_CLOSED) if closed else error)

    def _start_worker(self) -> Link | EngineError:
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
            return Link(process, ours, said.info)
        ours.close()
        ending = end(process)
        if isinstance(said, Failed):
            return said.error
        return WorkerCrashed(f"the prefill worker ended while it loaded the model ({ending})")
