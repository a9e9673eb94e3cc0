"""Runners for worker processes under test; what the model is called says how its runner behaves."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.config import EngineConfig
from covey_engine.prefill.errors import ModelError, OutOfDeviceMemory
from covey_engine.prefill.runner import Runner
from numpy.typing import NDArray
from support.fake_runner import FakeRunner
from support.lawful import obey

OPENER = "support.fake_worker:open_runner"
PAUSE = "COVEY_TEST_PAUSE"
"""The variable that names a file: while it is there, a worker of the model `paused` computes one chunk and waits."""

HUNGRY = 999
"""A token that no device has memory for."""


class _Slow(FakeRunner):
    def run(self, chunk: Chunk) -> NDArray[np.float32]:
        time.sleep(0.05)
        return super().run(chunk)


class _Paused(_Slow):
    seen = False

    def run(self, chunk: Chunk) -> NDArray[np.float32]:
        pause = Path(os.environ[PAUSE])
        while self.seen and pause.exists():
            time.sleep(0.01)
        self.seen = pause.exists()
        return super().run(chunk)


class _Hanging(FakeRunner):
    def run(self, chunk: Chunk) -> NDArray[np.float32]:
        time.sleep(60)
        return super().run(chunk)


class _Hungry(FakeRunner):
    def run(self, chunk: Chunk) -> NDArray[np.float32]:
        if HUNGRY in chunk.tokens.tolist():
            raise OutOfDeviceMemory("the chunk needs 2 GiB, the device has 1 GiB free")
        return super().run(chunk)


def open_runner(config: EngineConfig) -> Runner:
    # The worker ends, and so do its orders, at the first step that leaves anything behind.
    obey()
    chunk = config.chunk_tokens or 64
    match config.model:
        case "slow":
            return _Slow(4096 + chunk, chunk)
        case "paused":
            return _Paused(4096 + chunk, chunk)
        case "hanging":
            return _Hanging(4096 + chunk, chunk)
        case "hungry":
            return _Hungry(4096 + chunk, chunk)
        case "missing":
            raise ModelError("there is no model at missing")
        case "dying":
            os._exit(3)
        case "loading":
            time.sleep(60)
    runner = FakeRunner(4096 + chunk, chunk, context_length=2048)
    runner.bad = frozenset({13})
    return runner
