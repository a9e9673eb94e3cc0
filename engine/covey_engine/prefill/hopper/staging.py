"""Host arrays go in, device views come out, by one asynchronous copy; waits only for a slot in use.

A slot's pinned memory is written only after the copy out of its previous use has ended.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

ALIGNMENT = 4
"""Every array starts at a multiple of this many int32 elements (16 bytes)."""


class StagingSlot:
    """One pinned buffer with its device twin; grows when a chunk needs more."""

    def __init__(self, device: torch.device, elements: int) -> None:
        self._device = device
        self._copied: torch.cuda.Event | None = None
        self._resize(elements)

    def put(self, arrays: Sequence[NDArray[np.integer]]) -> list[Tensor]:
        """Copy the arrays as int32 to the device, on the current stream; views in their shapes.

        The views are valid until the slot's next use.
        """
        if self._copied is not None:
            self._copied.synchronize()
        offsets = np.cumsum([0, *[-(-array.size // ALIGNMENT) * ALIGNMENT for array in arrays]])
        if offsets[-1] > len(self._host):
            self._resize(int(offsets[-1]) * 3 // 2)
        for array, start in zip(arrays, offsets[:-1], strict=True):
            self._numbers[start : start + array.size] = array.reshape(-1)
        used = int(offsets[-1])
        self._twin[:used].copy_(self._host[:used], non_blocking=True)
        if self._device.type == "cuda":
            self._copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._copied.record()
        return [
            self._twin[start : start + array.size].view(array.shape)
            for array, start in zip(arrays, offsets[:-1].tolist(), strict=True)
        ]

    def _resize(self, elements: int) -> None:
        pinned = self._device.type == "cuda"
        self._host = torch.empty(elements, dtype=torch.int32, pin_memory=pinned)
        self._numbers = self._host.numpy()
        self._twin = torch.empty(elements, dtype=torch.int32, device=self._device)
