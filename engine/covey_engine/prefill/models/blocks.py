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

from covey_engine.prefill.shape import ModelShape
from covey_engine.prefill.weights import TensorReader


@dataclass(frozen=True, eq=False)
class Linear:
    """weight: [outputs, inputs]; bias: [outputs] or None."""

    weight: Tensor
    bias: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        """[tokens, inputs] to [tokens, outputs]."""
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
        return Linear(self.weight[start:stop], None if self.bias is None else self.bias[start:stop])


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


def gated(gate_up: Tensor) -> Tensor:
    """SiLU of the left half times the right half; overwrites its argument."""
    gate, up = gate_up.chunk(2, dim=-1)
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

    return Linear(stacked("weight", shape.hidden), stacked("bias") if shape.attention_bias else None)


def read_output(reader: TensorReader, layer: str) -> Linear:
    """The projection of the attention's result."""
    shape, name = reader.shape, f"{layer}.self_attn.o_proj"
    bias = reader.read(f"{name}.bias", shape.hidden) if shape.attention_bias else None
    return Linear(reader.read(f"{name}.weight", shape.hidden, shape.query_width), bias)


def read_gate_up(reader: TensorReader, layer: str) -> Linear:
    """The gate and up projections as one."""
    shape, names = reader.shape, (f"{layer}.mlp.gate_proj", f"{layer}.mlp.up_proj")
    weights = [reader.read(f"{name}.weight", shape.intermediate, shape.hidden) for name in names]
    biases = [reader.read(f"{name}.bias", shape.intermediate) for name in names] if shape.mlp_bias else None
    return Linear(torch.cat(weights), None if biases is None else torch.cat(biases))


def read_down(reader: TensorReader, layer: str) -> Linear:
    """The projection of the MLP's result."""
    shape, name = reader.shape, f"{layer}.mlp.down_proj"
    bias = reader.read(f"{name}.bias", shape.hidden) if shape.mlp_bias else None
    return Linear(reader.read(f"{name}.weight", shape.hidden, shape.intermediate), bias)


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
