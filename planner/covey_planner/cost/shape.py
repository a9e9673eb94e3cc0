"""A model's sizes as plain data, and what one token costs in each of its modules; never touches weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Precision = Literal["fp8", "bfloat16", "float32"]
"""Of the numbers that a module multiplies."""

BYTES: dict[Precision, int] = {"fp8": 1, "bfloat16": 2, "float32": 4}


@dataclass(frozen=True)
class Linear:
    """A matrix of the model: `inputs` x `outputs`."""

    inputs: int
    outputs: int

    @property
    def flops(self) -> float:
        """Floating-point operations a token."""
        return 2.0 * self.inputs * self.outputs


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a decoder with gated MLPs, as the engine tells them.

    linear: precision of its matrices; numbers: precision of everything else, the KV cache included. head_rows:
    vocabulary rows that the cut output head reads for an answer.
    """

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_width: int
    mlp_width: int
    head_rows: int = 2
    linear: Precision = "bfloat16"
    numbers: Precision = "bfloat16"

    @property
    def linears(self) -> tuple[Linear, ...]:
        """The matrices of a layer: queries, keys and values; output; gate and up; down."""
        queries, keys = self.heads * self.head_width, self.kv_heads * self.head_width
        return (
            Linear(self.width, queries + 2 * keys),
            Linear(queries, self.width),
            Linear(self.width, 2 * self.mlp_width),
            Linear(self.mlp_width, self.width),
        )

    @property
    def linear_flops(self) -> float:
        """Floating-point operations of all matrices a fresh token."""
        return self.layers * sum(linear.flops for linear in self.linears)

    @property
    def pair_flops(self) -> float:
        """Floating-point operations of attention a query-key pair: scores and values of every head and layer."""
        return 4.0 * self.layers * self.heads * self.head_width

    @property
    def kv_bytes(self) -> float:
        """Bytes of the keys and values of one token."""
        return 2.0 * self.layers * self.kv_heads * self.head_width * BYTES[self.numbers]
