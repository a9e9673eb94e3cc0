"""The worker process: orders come in over a socket, answers go out; loads the model and runs the chunks.

Started by the client as `python -m covey_engine.prefill.process.worker FD OPENER`; OPENER names the function that
opens a runner. The process ends with its client: at the end of the socket, or by the kernel if the client is killed.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from covey_engine.prefill.config import EngineConfig
from covey_engine.prefill.errors import EngineError, ModelError
from covey_engine.prefill.process import wire
from covey_engine.prefill.process.core import Core
from covey_engine.prefill.process.messages import Accepted, Cancel, Failed, Load, Ready, Reports, Submit
from covey_engine.prefill.runner import Runner
from covey_engine.prefill.scheduling.compiled import compile_kernels
from covey_engine.prefill.scheduling.orders import open_token_column
from covey_engine.prefill.scheduling.parts import Parts
from covey_engine.prefill.scheduling.reports import Report
from covey_engine.prefill.stored_rates import rates_of

_PR_SET_PDEATHSIG = 1


class Worker:
    """Serves one client: a thread reads the socket, the calling thread runs the chunks."""

    def __init__(self, sock: socket.socket, runner: Runner) -> None:
        self._sock = sock
        self._sending = threading.Lock()
        self._core = Core(runner, open_token_column, self)
        # The client's ticket by the scheduler's, and back.
        self._theirs: dict[int, int] = {}
        self._ours: dict[int, int] = {}

    def serve(self) -> None:
        """Run until the process ends."""
        threading.Thread(target=self._read, name="orders", daemon=True).start()
        self._core.loop()

    def hear(self, reports: list[Report]) -> None:
        """Send what a chunk brought; called by the loop."""
        named = tuple(report.named(self._theirs[report.ticket]) for report in reports)
        for report in reports:
            if report.finished:
                self._drop(report.ticket)
        self._send(Reports(named))

    def fail(self, ticket: int, error: EngineError) -> None:
        """Send that an order failed; called by the loop."""
        theirs = self._drop(ticket)
        self._send(Failed.of(theirs, error))

    def _drop(self, ticket: int) -> int:
        theirs = self._theirs.pop(ticket)
        del self._ours[theirs]
        return theirs

    def _read(self) -> None:
        while True:
            match wire.receive(self._sock):
                case Submit(ticket, order):
                    try:
                        prepared = self._core.prepare(order)
                    except EngineError as error:
                        self._send(Failed.of(ticket, error))
                    else:
                        self._core.post(partial(self._admit, ticket, prepared))
                        self._send(Accepted(ticket))
                case Cancel(ticket):
                    self._core.post(partial(self._cancel, ticket))
                case _:
                    os._exit(0)

    def _admit(self, theirs: int, prepared: Parts) -> None:
        ticket = self._core.admit(prepared)
        self._theirs[ticket], self._ours[theirs] = theirs, ticket

    def _cancel(self, theirs: int) -> None:
        ticket = self._ours.get(theirs)
        if ticket is not None:
            self._core.cancel(ticket)
            self._drop(ticket)

    def _send(self, message: object) -> None:
        try:
            with self._sending:
                wire.send(self._sock, message)
        except OSError:
            os._exit(0)


def main(descriptor: int, opener: str) -> None:
    """Load the model that the client names and serve it."""
    _die_with_the_client()
    sock = socket.socket(fileno=descriptor)
    load = wire.receive(sock)
    if not isinstance(load, Load):
        return
    # The first time on a machine this takes some seconds; the model is loaded meanwhile.
    kernels = threading.Thread(target=compile_kernels, name="kernels", daemon=True)
    kernels.start()
    try:
        runner = _open(opener)(load.config)
    except EngineError as error:
        wire.send(sock, Failed.of(None, error))
        return
    except MemoryError:
        wire.send(sock, Failed.of(None, ModelError(f"{load.config.model} does not fit into memory")))
        return
    # The device's rates would be those of a busy host.
    kernels.join()
    wire.send(sock, Ready(replace(runner.info, rates=rates_of(runner, load.config))))
    Worker(sock, runner).serve()


def _open(opener: str) -> Callable[[EngineConfig], Runner]:
    module, name = opener.split(":")
    function: Callable[[EngineConfig], Runner] = getattr(importlib.import_module(module), name)
    return function


def _die_with_the_client() -> None:
    """Have the kernel end this process when the client's thread that started it ends, however busy it is then."""
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
