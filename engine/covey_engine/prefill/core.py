"""A scheduler and a runner in one loop: orders, cancels and chunks, step by step; owns neither thread nor process."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from typing import Protocol

from covey_engine.prefill.api import WorkOrder
from covey_engine.prefill.errors import EngineError
from covey_engine.prefill.orders import Column, Limits, Resolved
from covey_engine.prefill.runner import Runner
from covey_engine.prefill.scheduler import Report, Scheduler


class Listener(Protocol):
    """Who hears what the chunks bring."""

    def hear(self, reports: list[Report]) -> None:
        """Take what a chunk brought."""
        ...

    def fail(self, ticket: int, error: EngineError) -> None:
        """Take that an order failed."""
        ...


Task = Callable[[], None]


class Core:
    """Runs admitted orders chunk by chunk. `prepare` and `post` may be called from any thread, the rest in tasks."""

    def __init__(self, runner: Runner, open_column: Callable[[str], Column], listener: Listener) -> None:
        limits = Limits(runner.arena_tokens, runner.info.chunk_tokens, runner.info.context_length)
        self._runner = runner
        self._listener = listener
        self._scheduler = Scheduler(limits, open_column)
        self._head: tuple[int, ...] = ()
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()

    def prepare(self, order: WorkOrder) -> Resolved:
        """Check an order and open its columns. Raises EngineError where it can never run."""
        return self._scheduler.prepare(order)

    def post(self, task: Task | None) -> None:
        """Have a task done between two chunks; None ends the loop."""
        self._tasks.put(task)

    def admit(self, resolved: Resolved) -> int:
        """Queue an order; its ticket in the reports to come."""
        return self._scheduler.admit(resolved)

    def cancel(self, ticket: int) -> None:
        """Forget an order; no report of it will come."""
        self._scheduler.cancel(ticket)

    def loop(self) -> None:
        """Run chunks and tasks until a None is posted."""
        while True:
            while not self._scheduler.running or not self._tasks.empty():
                task = self._tasks.get()
                if task is None:
                    return
                task()
            self._step()

    def _step(self) -> None:
        head = self._scheduler.answer_tokens
        if head != self._head:
            self._runner.set_answer_tokens(head)
            self._head = head
        chunk = self._scheduler.schedule()
        if chunk is None:
            self._listener.hear(self._scheduler.finish_empty())
            return
        begin = time.perf_counter()
        try:
            logits = self._runner.run(chunk)
        except EngineError as error:
            for ticket in self._scheduler.fail_chunk():
                self._listener.fail(ticket, error)
            return
        self._listener.hear(self._scheduler.settle(chunk, logits, time.perf_counter() - begin))
