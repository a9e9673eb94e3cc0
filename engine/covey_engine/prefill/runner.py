"""The protocol of a runner: a chunk goes in, the answer tokens' logits come out; never decides what runs when."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.api import EngineInfo
from covey_engine.prefill.chunk import Chunk

Logits = NDArray[np.float32]


class Pending(Protocol):
    """A chunk that was launched."""

    def result(self) -> Logits:
        """Wait for the logits [len(chunk.answers), len(answer tokens)], float32. Raises EngineError."""
        ...

    def seconds(self) -> float:
        """The time that the device spent on it; call after `result`."""
        ...


class Runner(Protocol):
    """A model on a device with its KV arena."""

    @property
    def info(self) -> EngineInfo:
        """Facts about the model and the sizes it was set up with."""
        ...

    @property
    def arena_tokens(self) -> int:
        """Token positions of the KV arena, addresses 0..arena_tokens-1, chunk scratch included."""
        ...

    def set_answer_tokens(self, ids: tuple[int, ...], normalizer: bool = False) -> None:
        """Cut the output head to these token ids; chunks launched from now on return logits in this order.

        normalizer: and one more column, the log-sum-exp of the logits of all tokens.
        """
        ...

    def launch(self, chunk: Chunk) -> Pending:
        """Begin one forward pass, after those launched before it. Raises EngineError.

        Returns as soon as it can: a runner on a device once the work is enqueued, others when it is done. One chunk
        may be launched while the one before it is not collected.
        """
        ...


@dataclass(frozen=True)
class Computed:
    """A chunk whose logits are there already."""

    logits: Logits
    duration: float

    @staticmethod
    def by(run: Callable[[Chunk], Logits], chunk: Chunk) -> Computed:
        """Run a chunk to its end and time it."""
        began = time.perf_counter()
        logits = run(chunk)
        return Computed(logits, time.perf_counter() - began)

    def result(self) -> Logits:
        """The logits."""
        return self.logits

    def seconds(self) -> float:
        """How long the run took."""
        return self.duration
