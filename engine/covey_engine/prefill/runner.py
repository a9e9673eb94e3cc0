"""The protocol of a runner: a chunk goes in, the answer tokens' logits come out; never decides what runs when."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.api import EngineInfo
from covey_engine.prefill.chunk import Chunk


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

    def set_answer_tokens(self, ids: tuple[int, ...]) -> None:
        """Cut the output head to these token ids; `run` returns logits in this order."""
        ...

    def run(self, chunk: Chunk) -> NDArray[np.float32]:
        """One forward pass: logits [len(chunk.answers), len(answer tokens)], float32."""
        ...
