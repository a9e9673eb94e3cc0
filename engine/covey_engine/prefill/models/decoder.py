"""The pass that all architectures here share: packed tokens in, hidden states of the answer rows out.

Knows the order of the computation; what is an architecture's own comes from its file, and keys and values, masks and
the arena belong to the attention that the pass is handed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from covey_engine.prefill.models import blocks
from covey_engine.prefill.models.blocks import Linear, rms_norm
from covey_engine.prefill.models.model import Attention
from covey_engine.prefill.models.weights import TensorReader


class HeadNorm(Protocol):
    """What an architecture does to a layer's queries and keys before they are rotated."""

    def __call__(self, heads: Tensor, first: int) -> None:
        """Change heads [T, n, head_dim] in place: the query heads and after them the key heads, from `first` on."""
        ...


@dataclass(frozen=True, eq=False)
class Layer:
    """Weights of one decoder layer."""

    attention_norm: Tensor
    qkv: Linear
    head_norm: HeadNorm | None
    output: Linear
    mlp_norm: Tensor
    gate: Linear
    up: Linear
    down: Linear


class Decoder:
    """A decoder on one device. head_norm: makes that of the layer whose tensors bear a name; None for none."""

    def __init__(self, reader: TensorReader, head_norm: Callable[[str], HeadNorm] | None = None) -> None:
        shape = self.shape = reader.shape
        self.vocabulary = blocks.read_vocabulary(reader)
        names = [f"model.layers.{index}" for index in range(shape.layers)]
        self.layers = tuple(_read_layer(reader, name, head_norm and head_norm(name)) for name in names)
        self.norm = reader.read("model.norm.weight", shape.hidden)
        self.inverse_frequencies = shape.inverse_frequencies.to(self.norm.device)

    def forward(self, tokens: Tensor, positions: Tensor, attention: Attention) -> Tensor:
        """Hidden states [answers, hidden], after the final norm, of int64 tokens and positions [T]."""
        x = self.vocabulary.embedding[tokens]
        phase = blocks.phases(positions, self.inverse_frequencies)
        for index, layer in enumerate(self.layers[:-1]):
            self._layer(index, layer, x, phase, attention)
        x = self._last_layer(x, phase, attention)
        return rms_norm(x, self.norm, self.shape.norm_epsilon)

    def _layer(self, index: int, layer: Layer, x: Tensor, phase: Tensor, attention: Attention) -> None:
        shape = self.shape
        qkv = layer.qkv.heads(rms_norm(x, layer.attention_norm, shape.norm_epsilon), shape.head_dim)
        _turn(layer, qkv[:, : shape.heads + shape.kv_heads], 0, phase)
        queries, kv = qkv[:, : shape.heads], qkv[:, shape.heads :]
        attention.write(index, kv)
        layer.output.add_to(x, attention.all_rows(index, queries, kv))
        self._mlp(layer, x)

    def _last_layer(self, x: Tensor, phase: Tensor, attention: Attention) -> Tensor:
        """Keys and values of every token, everything else for the answer rows alone."""
        shape, index, layer, rows = self.shape, self.shape.layers - 1, self.layers[-1], attention.answer_rows
        normed = rms_norm(x, layer.attention_norm, shape.norm_epsilon)
        kv = layer.qkv.rows(shape.query_width, None).heads(normed, shape.head_dim)
        _turn(layer, kv[:, : shape.kv_heads], shape.heads, phase)
        attention.write(index, kv)
        x = x[rows]
        if len(rows):
            queries = layer.qkv.rows(0, shape.query_width).heads(normed[rows], shape.head_dim)
            _turn(layer, queries, 0, phase[rows])
            layer.output.add_to(x, attention.answers(index, queries, kv))
            self._mlp(layer, x)
        return x

    def _mlp(self, layer: Layer, x: Tensor) -> None:
        normed = rms_norm(x, layer.mlp_norm, self.shape.norm_epsilon)
        layer.down.add_to(x, blocks.gated(layer.gate(normed), layer.up(normed)))


def _turn(layer: Layer, heads: Tensor, first: int, phase: Tensor) -> None:
    if layer.head_norm is not None:
        layer.head_norm(heads, first)
    blocks.rotate(heads, phase)


def _read_layer(reader: TensorReader, name: str, head_norm: HeadNorm | None) -> Layer:
    shape, hidden = reader.shape, reader.shape.hidden

    def linear(module: str, outputs: int, inputs: int, biased: bool) -> Linear:
        return blocks.read_linear(reader, f"{name}.{module}", outputs, inputs, biased)

    return Layer(
        attention_norm=reader.read(f"{name}.input_layernorm.weight", hidden),
        qkv=blocks.read_qkv(reader, name),
        head_norm=head_norm,
        output=linear("self_attn.o_proj", hidden, shape.query_width, shape.attention_bias),
        mlp_norm=reader.read(f"{name}.post_attention_layernorm.weight", hidden),
        gate=linear("mlp.gate_proj", shape.intermediate, hidden, shape.mlp_bias),
        up=linear("mlp.up_proj", shape.intermediate, hidden, shape.mlp_bias),
        down=linear("mlp.down_proj", hidden, shape.intermediate, shape.mlp_bias),
    )
