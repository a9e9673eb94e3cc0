"""A server whose device only takes time, and the moments of a statement's life; `bench/host_time.py` starts it.

    python bench/host_events.py [arguments of `covey serve`]

The server and its worker are the real ones but for the runner, which takes HOST_US microseconds a token and HOST_MS
milliseconds a chunk and answers by the prompts' lengths. Both processes append to the file HOST_EVENTS: a line a moment
with the monotonic clock's nanoseconds, which are the same in all processes.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from covey_engine.prefill.api import EngineInfo
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.config import EngineConfig
from covey_engine.prefill.runner import Logits

CHUNK = 33_792
ARENA = 900_000

_log = os.open(os.environ["HOST_EVENTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def note(name: str, *more: object) -> None:
    """Write down a moment."""
    os.write(_log, ("|".join(map(str, (time.monotonic_ns(), name, *more))) + "\n").encode())


def probe(owner: Any, name: str, begin: str = "", end: str = "") -> None:
    """Note when a function begins and when it ends."""
    inner: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(inner)
    def noted(*arguments: Any, **named: Any) -> Any:
        if begin:
            note(begin)
        found = inner(*arguments, **named)
        if end:
            note(end)
        return found

    setattr(owner, name, noted)


class Device:
    """A runner that answers when a device would, true to about a fifth of the questions."""

    def __init__(self) -> None:
        self.arena_tokens = ARENA
        self.info = EngineInfo("none", "none", "cpu", "none", 32_768, ARENA, CHUNK, 0.0)
        self._token, self._chunk = (
            float(os.environ["HOST_US"]) / 1e6,
            float(os.environ["HOST_MS"]) / 1e3,
        )
        self._columns = 1
        self._free = 0.0

    def set_answer_tokens(self, ids: tuple[int, ...], normalizer: bool = False) -> None:
        """Remember how many logits a row has."""
        self._columns = len(ids) + normalizer

    def launch(self, chunk: Chunk) -> Waiting:
        """Say when the chunk will be done."""
        seconds = len(chunk) * self._token + self._chunk
        self._free = max(time.monotonic(), self._free) + seconds
        note("launched", len(chunk), seconds)
        logits = np.zeros((len(chunk.answers), self._columns), np.float32)
        logits[:, 0] = np.where(chunk.positions[chunk.answers] % 5 == 0, 9, -9)
        return Waiting(logits, self._free, seconds)


class Waiting:
    """A chunk's logits, and when they are there."""

    def __init__(self, logits: Logits, until: float, seconds: float) -> None:
        self._logits, self._until, self._seconds = logits, until, seconds

    def result(self) -> Logits:
        """Wait for them."""
        time.sleep(max(0.0, self._until - time.monotonic()))
        note("computed")
        return self._logits

    def seconds(self) -> float:
        """What the chunk took."""
        return self._seconds


def open_runner(_config: EngineConfig) -> Device:
    """The device in the worker, whose moments are noted from here on."""
    from covey_engine.prefill.process import core, worker

    probe(core.Core, "prepare", "crossed", "prepared")
    probe(core.Core, "admit", "", "admitted")
    probe(core.Scheduler, "schedule", "scheduling", "scheduled")
    probe(core.Scheduler, "settle", "settling", "settled")
    probe(worker.Worker, "hear", "", "told")
    return Device()


def main() -> None:
    from covey_engine.operators import asking, executor
    from covey_engine.prefill.process import client, running
    from covey_server import ai, cli, flightsql, query, service

    probe(service, "_command", "received")
    probe(flightsql.FlightSql, "info", "in its thread", "planned")
    probe(flightsql.FlightSql, "check", "", "checked")
    probe(ai, "plan", "planning", "plan made")
    probe(ai, "select_schema", "", "described")
    probe(flightsql.FlightSql, "fetch", "fetched")
    probe(query.Query, "start", "starting", "started")
    probe(query.Query, "next", "asked for rows", "rows")
    probe(executor, "read_keys", "domain", "keys read")
    probe(executor, "resolve", "", "slots found")
    probe(asking, "work_order", "", "order made")
    probe(client.EngineClient, "submit", "submitted", "accepted")
    probe(running.Outcome, "hear", "heard")
    probe(executor, "write_answers", "answers read", "answers written")
    client._OPENER = "host_events:open_runner"
    client.EngineClient.__init__.__defaults__ = (client._OPENER,)
    sys.exit(cli.serve(sys.argv[1:]))


if __name__ == "__main__":
    main()
