"""A chunk in flight: its logits on their way to the host in, the same as an array out; enqueues nothing."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Pending:
    """A chunk in flight."""

    def __init__(
        self,
        logits: Tensor,
        order: NDArray[np.intp] | None,
        began: torch.cuda.Event | None,
        ended: torch.cuda.Event | None,
    ) -> None:
        self._logits = logits
        self._order = order
        self._began = began
        self._ended = ended

    def ready(self) -> bool:
        """Whether `result` would return without waiting."""
        return self._ended is None or self._ended.query()  # type: ignore[no-untyped-call]

    def result(self) -> NDArray[np.float32]:
        """Wait for the logits [answers, answer tokens]; NaN rows' prompts were not finite somewhere."""
        if self._ended is not None:
            self._ended.synchronize()
        logits: NDArray[np.float32] = self._logits.numpy()
        if self._order is None:
            return logits
        restored = np.empty_like(logits)
        restored[self._order] = logits
        return restored

    def seconds(self) -> float:
        """Device time from the copy of the chunk to its last kernel; call after `result`."""
        if self._began is None or self._ended is None:
            return 0.0
        return float(self._began.elapsed_time(self._ended)) / 1e3
