"""How linear layers compute: the three activation formats and their tensors; computes nothing.

BF16: bfloat16 rows. ROW: float8 e4m3 with one float32 scale a row. BLOCK: float8 e4m3 with one float32 scale
for every 128 columns of a row, stored column-major with rows padded to a multiple of four (the layout that
DeepGEMM's bulk copies read in place).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor

FP8_MAX = 448.0
"""Largest finite float8 e4m3 value."""

GROUP = 128
"""Columns that share a scale in BLOCK, and the tile width of every kernel here."""


class Precision(IntEnum):
    """Format of activations and weights; kernels take it as a compile-time constant."""

    BF16 = 0
    ROW = 1
    BLOCK = 2

    @property
    def title(self) -> str:
        """As users read it."""
        return {Precision.BF16: "bfloat16", Precision.ROW: "fp8 (rows)", Precision.BLOCK: "fp8 (blocks)"}[
            self
        ]

    @property
    def dtype(self) -> torch.dtype:
        """Element type of activations and weights."""
        return torch.bfloat16 if self is Precision.BF16 else torch.float8_e4m3fn


@dataclass(frozen=True, eq=False)
class Activation:
    """Input of a linear layer.

    values: [rows, columns]; scale: None (BF16), float32 [rows, 1] (ROW) or [rows, columns / 128] (BLOCK).
    """

    values: Tensor
    scale: Tensor | None = None

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Tensor) -> Activation:
        """The given rows, copied; int32 or int64 [n]."""
        if self.scale is None:
            return Activation(self.values.index_select(0, rows))
        taken = self.values.view(torch.uint8).index_select(0, rows).view(self.values.dtype)
        if self.scale.shape[1] == 1:
            return Activation(taken, self.scale.index_select(0, rows))
        scale = block_scales(len(rows), self.values.shape[1], self.scale.device)
        return Activation(taken, scale.copy_(self.scale.index_select(0, rows)))


def block_scales(rows: int, columns: int, device: torch.device) -> Tensor:
    """An uninitialized BLOCK scale tensor for `rows` rows, in its layout."""
    return block_scales_in(
        torch.empty(scale_elements(rows, columns), dtype=torch.float32, device=device), rows, columns
    )


def block_scales_in(memory: Tensor, rows: int, columns: int) -> Tensor:
    """A BLOCK scale tensor over the beginning of float32 `memory`."""
    return memory.as_strided((rows, columns // GROUP), (1, _padded(rows)), memory.storage_offset())


def scale_elements(rows: int, columns: int) -> int:
    """float32 elements that a BLOCK scale tensor takes."""
    return _padded(rows) * (columns // GROUP)


def _padded(rows: int) -> int:
    return (rows + 3) // 4 * 4
