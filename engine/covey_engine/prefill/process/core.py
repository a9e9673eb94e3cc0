"""A scheduler and a runner at work together: tasks and orders go in, reports come out; owns no process and no socket.

The thread that calls `loop` launches the chunks, another plans them, a third waits for what they bring: one chunk is
planned and launched while the one before it runs, and the answers of one are sorted out while the next one runs.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Protocol

from covey_engine.prefill.api import WorkOrder
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.errors import EngineError, OutOfDeviceMemory
from covey_engine.prefill.readout import Head
from covey_engine.prefill.runner import Logits, Pending, Runner
from covey_engine.prefill.scheduling.orders import Limits, StoredColumn
from covey_engine.prefill.scheduling.parts import Parts
from covey_engine.prefill.scheduling.reports import Report
from covey_engine.prefill.scheduling.scheduler import Scheduler

_AHEAD = 2
"""Chunks that are planned and not settled at most: one that runs and the next."""


class Listener(Protocol):
    """Who hears what the chunks bring; called by the planning thread."""

    def hear(self, reports: list[Report]) -> None:
        """Take what a chunk brought."""
        ...

    def fail(self, ticket: int, error: EngineError) -> None:
        """Take that an order failed."""
        ...


Task = Callable[[], None]
_Result = tuple[Logits | BaseException, float]
_Staged = tuple[Chunk, Head, threading.Event]
"""A planned chunk, what its logits are of, and whether it was launched."""


class Core:
    """Runs admitted orders chunk by chunk. `prepare` and `post` may be called from any thread, the rest in tasks."""

    def __init__(
        self, runner: Runner, open_column: Callable[[str], StoredColumn], listener: Listener
    ) -> None:
        limits = Limits(runner.arena_tokens, runner.info.chunk_tokens, runner.info.context_length)
        self._runner = runner
        self._listener = listener
        self._scheduler = Scheduler(limits, open_column)
        self._head = Head()
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._staged: queue.SimpleQueue[_Staged | None] = queue.SimpleQueue()
        self._launched: queue.SimpleQueue[Pending | BaseException | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[_Result] = queue.SimpleQueue()
        self._flying = 0
        self._broken: BaseException | None = None

    def prepare(self, order: WorkOrder) -> Parts:
        """Check an order and sort its rows. Raises EngineError where it can never run."""
        return self._scheduler.prepare(order)

    def post(self, task: Task | None) -> None:
        """Have a task done between two chunks; None ends the loop."""
        self._tasks.put(task)

    def admit(self, prepared: Parts) -> int:
        """Queue an order; its ticket in the reports to come."""
        return self._scheduler.admit(prepared)

    def cancel(self, ticket: int) -> None:
        """Forget an order; no report of it will come."""
        self._scheduler.cancel(ticket)

    def loop(self) -> None:
        """Run chunks until a None is posted. Raises what a thread of this or the runner could not handle."""
        others = [
            threading.Thread(target=work, name=f"prefill {name}", daemon=True)
            for name, work in (("planner", self._plan), ("collector", self._collect))
        ]
        for thread in others:
            thread.start()
        while (staged := self._staged.get()) is not None:
            chunk, head, launched = staged
            self._launched.put(self._launch(chunk, head))
            launched.set()
        self._launched.put(None)
        for thread in others:
            thread.join()
        if self._broken is not None:
            raise self._broken

    def _launch(self, chunk: Chunk, head: Head) -> Pending | BaseException:
        try:
            if head != self._head:
                self._runner.set_answer_tokens(*head)
                self._head = head
            return self._runner.launch(chunk)
        except BaseException as error:
            return _named(error)

    def _collect(self) -> None:
        while (pending := self._launched.get()) is not None:
            self._results.put((pending, 0.0) if isinstance(pending, BaseException) else _wait_for(pending))

    def _plan(self) -> None:
        try:
            while self._do_tasks():
                self._step()
        except BaseException as error:
            self._broken = error
        finally:
            self._staged.put(None)

    def _do_tasks(self) -> bool:
        """Do what was posted, waiting for it if there is nothing else to do; False at the end."""
        while not self._tasks.empty() or not (self._flying or self._scheduler.running):
            task = self._tasks.get()
            if task is None:
                return False
            task()
        return True

    def _step(self) -> None:
        empty = self._scheduler.finish_empty()
        if empty:
            self._listener.hear(empty)
        chunk = self._scheduler.schedule() if self._flying < _AHEAD else None
        if chunk is not None:
            launched = threading.Event()
            self._staged.put((chunk, self._scheduler.head, launched))
            if not self._flying:
                # The device waits for this one, and would wait longer if the next were planned beside its launch.
                launched.wait()
            self._flying += 1
        elif self._flying:
            self._flying -= 1
            result, seconds = self._results.get()
            if isinstance(result, EngineError):
                self._fail(result)
            elif isinstance(result, BaseException):
                raise result
            else:
                self._listener.hear(self._scheduler.settle(result, seconds))
        else:
            assert empty or not self._scheduler.running, "orders run, but no chunk of theirs can"

    def _fail(self, error: EngineError) -> None:
        # What was planned after the failed chunk may have read its KV.
        for _ in range(self._flying):
            self._results.get()
        self._flying = 0
        if isinstance(error, OutOfDeviceMemory) and self._scheduler.shrink():
            return
        for ticket in self._scheduler.fail():
            self._listener.fail(ticket, error)


def _wait_for(pending: Pending) -> _Result:
    try:
        return pending.result(), pending.seconds()
    except BaseException as error:
        return _named(error), 0.0


def _named(error: BaseException) -> BaseException:
    """What went wrong, as an error of the engine where it is none of the program's; without what the pass held."""
    if isinstance(error, MemoryError):
        return OutOfDeviceMemory("the engine has too little memory to run a chunk")
    return error
