"""Sizes of a chunk go in, views of activations allocated once come out; computes nothing."""

from __future__ import annotations

import torch
from torch import Tensor

from covey_engine.prefill.kernels.precision import (
    Activation,
    Precision,
    block_scales_in,
    scale_elements,
)
from covey_engine.prefill.models.shape import ModelShape

PACKED = 2
"""Packed keys that there is room for, as a multiple of a chunk's rows."""


class Workspace:
    """Activations of one pass of at most `rows` tokens.

    packed: keys and values copied side by side for one layer, bfloat16 [PACKED * rows, kv_heads, head_dim]
    each.

    A view is valid until the next view of the same name; rows beyond those computed hold anything.
    """

    def __init__(self, shape: ModelShape, rows: int, precision: Precision, device: torch.device) -> None:
        self._shape = shape
        self._precision = precision
        self._device = device
        self._flat: dict[str, Tensor] = {}
        self._rows = rows
        widest = max(shape.hidden, shape.query_width, shape.intermediate)
        self._add("values", rows * widest, precision.dtype)
        self._add(
            "scales", rows if precision is Precision.ROW else scale_elements(rows, widest), torch.float32
        )
        self._add("residual", rows * shape.hidden, torch.bfloat16)
        self._add("update", rows * shape.hidden, torch.bfloat16)
        self._add("qkv", rows * (shape.query_width + 2 * shape.kv_width), torch.bfloat16)
        self._add("gate_up", rows * 2 * shape.intermediate, torch.bfloat16)
        self._add("partial0", rows * shape.query_width, torch.bfloat16)
        packed = torch.zeros(
            2, PACKED * rows, shape.kv_heads, shape.head_dim, dtype=torch.bfloat16, device=device
        )
        self.packed = (packed[0], packed[1])

    def activation(self, rows: int, columns: int) -> Activation:
        """An activation in the model's precision."""
        values = self._view("values", rows, columns)
        match self._precision:
            case Precision.BF16:
                return Activation(values)
            case Precision.ROW:
                return Activation(values, self._view("scales", rows, 1))
            case Precision.BLOCK:
                return Activation(values, block_scales_in(self._flat["scales"], rows, columns))

    def residual(self, rows: int) -> Tensor:
        """bfloat16 [rows, hidden]."""
        return self._view("residual", rows, self._shape.hidden)

    def update(self, rows: int) -> Tensor:
        """bfloat16 [rows, hidden]."""
        return self._view("update", rows, self._shape.hidden)

    def qkv(self, rows: int, columns: int) -> Tensor:
        """bfloat16 [rows, columns], columns at most all heads'."""
        return self._view("qkv", rows, columns)

    def gate_up(self, rows: int) -> Tensor:
        """bfloat16 [rows, 2 * intermediate]."""
        return self._view("gate_up", rows, 2 * self._shape.intermediate)

    def partial(self, index: int, rows: int) -> Tensor:
        """Attention result of one call: bfloat16 [rows, query width]; allocated when first used."""
        name = f"partial{index}"
        if name not in self._flat:
            self._add(name, self._rows * self._shape.query_width, torch.bfloat16)
        return self._view(name, rows, self._shape.query_width)

    def totals(self, index: int, rows: int) -> Tensor:
        """The log-sum-exp of one call: float32 [heads, rows]; allocated when first used."""
        name, heads = f"totals{index}", self._shape.heads
        if name not in self._flat:
            self._add(name, self._rows * heads, torch.float32)
        return self._view(name, heads, rows)

    def _add(self, name: str, elements: int, dtype: torch.dtype) -> None:
        # Zeroed: padded rows are multiplied too, and stray bit patterns there would hide faults.
        self._flat[name] = torch.zeros(elements, dtype=dtype, device=self._device)

    def _view(self, name: str, rows: int, columns: int) -> Tensor:
        return self._flat[name][: rows * columns].view(rows, columns)
