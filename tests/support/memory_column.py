"""A token column in memory, for orders whose texts are made up on the spot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class MemoryColumn:
    """Implements what the scheduler needs of a token column."""

    def __init__(self, texts: Sequence[Sequence[int]]) -> None:
        self.lengths = np.array([len(text) for text in texts], np.int32)
        self._ends = np.cumsum(self.lengths, dtype=np.int64)
        self._values = np.array([token for text in texts for token in text], np.int32)

    def __len__(self) -> int:
        return len(self.lengths)

    def tokens(self, slot: int) -> NDArray[np.int32]:
        return self._values[self._ends[slot] - self.lengths[slot] : self._ends[slot]]

    def gather(self, slots: NDArray[np.int32], out: NDArray[np.int32]) -> None:
        parts = [self.tokens(slot) for slot in slots.tolist()]
        out[: sum(map(len, parts))] = np.concatenate(parts) if parts else ()

    def refresh(self) -> None:
        pass
