"""What every decoder here is made of: projections, norms, rotation, gated MLP; knows no other token.

Queries and keys are kept with their rotary pairs side by side, so that rotating is one complex product; a
dot product of two vectors permuted alike is unchanged. Activations are packed: [tokens, columns], no batch
dimension.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from covey_engine.prefill.models.products import multiply, numpy_is_faster
from covey_engine.prefill.models.shape import ModelShape
from covey_engine.prefill.models.weights import TensorReader


@dataclass(frozen=True, eq=False)
class Linear:
    """weight: [outputs, inputs], column by column in memory; bias: [outputs] or None; by_numpy: on one thread.

    That order in memory, and products of at most a few thousand columns, are what the CPU multiplies fastest.
    """

    weight: Tensor
    bias: Tensor | None = None
    by_numpy: bool = False

    def __call__(self, x: Tensor) -> Tensor:
        """[tokens, inputs] to [tokens, outputs]."""
        # With more threads, each library has its own, and they would contend.
        if self.by_numpy and torch.get_num_threads() == 1:
            multiplied = multiply(x, self.weight)
            return multiplied if self.bias is None else multiplied.add_(self.bias)
        product: Tensor = functional.linear(x, self.weight, self.bias)
        return product

    def heads(self, x: Tensor, head_dim: int) -> Tensor:
        """[tokens, inputs] to [tokens, heads, head_dim]."""
        projected: Tensor = self(x)
        return projected.view(len(x), -1, head_dim)

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """Add the projection of x to the residual, in place."""
        residual.addmm_(x, self.weight.t())
        return residual if self.bias is None else residual.add_(self.bias)

    def rows(self, start: int, stop: int | None) -> Linear:
        """The projection onto outputs start..stop-1 (to the end without a stop), without a copy."""
        bias = None if self.bias is None else self.bias[start:stop]
        return Linear(self.weight[start:stop], bias, self.by_numpy)


def rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """Root-mean-square norm over the last dimension, in float32 within."""
    wide = x.float()
    length: Tensor = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
    scale = length.square_().div_(x.shape[-1]).add_(epsilon).rsqrt_()
    return (wide * scale).to(x.dtype).mul_(weight)


def phases(positions: Tensor, inverse_frequencies: Tensor) -> Tensor:
    """Unit complex numbers [tokens, 1, head_dim / 2] by which queries and keys turn."""
    angles = positions[:, None, None].float() * inverse_frequencies
    return torch.complex(angles.cos(), angles.sin())


def rotate(x: Tensor, phase: Tensor) -> None:
    """Turn x [tokens, heads, head_dim] in place; pairs stand side by side."""
    if x.dtype == torch.float32:
        torch.view_as_complex(x.view(*x.shape[:-1], -1, 2)).mul_(phase)
    else:
        turned = torch.view_as_complex(x.float().view(*x.shape[:-1], -1, 2)) * phase
        x.copy_(torch.view_as_real(turned).flatten(-2))


def gated(gate: Tensor, up: Tensor) -> Tensor:
    """SiLU of the gate times `up`, in the gate's memory."""
    activated: Tensor = functional.silu(gate, inplace=True)
    return activated.mul_(up)


def pair_rows(weight: Tensor, heads: int) -> Tensor:
    """Rows of each head from (first halves, second halves) to rotary pairs side by side."""
    return weight.view(heads, 2, -1, *weight.shape[1:]).transpose(1, 2).reshape(weight.shape)


def read_qkv(reader: TensorReader, layer: str) -> Linear:
    """The query, key and value projections of a layer as one."""
    shape = reader.shape
    widths = {"q": shape.query_width, "k": shape.kv_width, "v": shape.kv_width}
    heads = {"q": shape.heads, "k": shape.kv_heads}

    def stacked(kind: str, *columns: int) -> Tensor:
        parts = {n: reader.read(f"{layer}.self_attn.{n}_proj.{kind}", w, *columns) for n, w in widths.items()}
        return torch.cat([pair_rows(part, heads[n]) if n in heads else part for n, part in parts.items()])

    weight = _by_columns(stacked("weight", shape.hidden))
    return Linear(weight, stacked("bias") if shape.attention_bias else None, numpy_is_faster(weight))


def read_linear(reader: TensorReader, name: str, outputs: int, inputs: int, biased: bool) -> Linear:
    """One projection."""
    weight = _by_columns(reader.read(f"{name}.weight", outputs, inputs))
    bias = reader.read(f"{name}.bias", outputs) if biased else None
    return Linear(weight, bias, numpy_is_faster(weight))


def _by_columns(weight: Tensor) -> Tensor:
    return weight.t().contiguous().t()


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Token embedding and output head, [vocabulary, hidden] each; one tensor where they are tied."""

    embedding: Tensor
    head: Tensor


def read_vocabulary(reader: TensorReader) -> Vocabulary:
    """Embedding and head."""
    shape: ModelShape = reader.shape
    embedding = reader.read("model.embed_tokens.weight", shape.vocabulary, shape.hidden)
    if shape.tied:
        return Vocabulary(embedding, embedding)
    return Vocabulary(embedding, reader.read("lm_head.weight", shape.vocabulary, shape.hidden))
