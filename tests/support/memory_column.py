"""A token column in memory, for orders whose texts are made up on the spot."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from covey_storage.ordering import Order
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

    @property
    def stretches(self) -> list[tuple[int, NDArray[np.int64], NDArray[np.int32]]]:
        """Two, as if the texts were in two files."""
        begins, half = self._ends - self.lengths, len(self) // 2
        return [(0, begins[:half], self._values), (half, begins[half:], self._values)]

    def copy(
        self,
        slots: NDArray[np.int32],
        begins: NDArray[np.int64],
        lengths: NDArray[np.int64],
        out: NDArray[np.int32],
    ) -> None:
        windows = zip(slots.tolist(), begins.tolist(), lengths.tolist(), strict=True)
        parts = [self.tokens(slot)[begin : begin + length] for slot, begin, length in windows]
        assert [len(part) for part in parts] == lengths.tolist()
        out[: sum(map(len, parts))] = np.concatenate(parts) if parts else ()

    @property
    def order(self) -> Order:
        texts = [self.tokens(slot).tolist() for slot in range(len(self))]
        slots = sorted(range(len(texts)), key=texts.__getitem__)
        common = [_alike(texts[a], texts[b]) for a, b in pairwise(slots)]
        return Order(np.array(slots, np.int32), np.array([0, *common], np.int32)[: len(slots)])

    def refresh(self) -> None:
        pass


def _alike(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two texts begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))
