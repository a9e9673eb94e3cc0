"""Qwen3 dense decoders: packed tokens in, hidden states of the answer rows out.

Knows the order of the computation; keys and values, masks and the arena belong to the attention it is handed.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from covey_engine.prefill.models import blocks
from covey_engine.prefill.models.blocks import Linear, rms_norm
from covey_engine.prefill.models.model import Attention
from covey_engine.prefill.models.weights import TensorReader


@dataclass(frozen=True, eq=False)
class Layer:
    """Weights of one decoder layer."""

    attention_norm: Tensor
    qkv: Linear
    query_norm: Tensor
    key_norm: Tensor
    output: Linear
    mlp_norm: Tensor
    gate: Linear
    up: Linear
    down: Linear


class Qwen3:
    """A Qwen3 dense model on one device."""

    def __init__(self, reader: TensorReader) -> None:
        shape = self.shape = reader.shape
        self.vocabulary = blocks.read_vocabulary(reader)
        self.layers = tuple(_read_layer(reader, f"model.layers.{index}") for index in range(shape.layers))
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
        queries, kv = qkv[:, : shape.heads], qkv[:, shape.heads :]
        self._norm_and_rotate(queries, layer.query_norm, phase)
        self._norm_and_rotate(kv[:, : shape.kv_heads], layer.key_norm, phase)
        attention.write(index, kv)
        layer.output.add_to(x, attention.all_rows(index, queries, kv))
        self._mlp(layer, x)

    def _last_layer(self, x: Tensor, phase: Tensor, attention: Attention) -> Tensor:
        """Keys and values of every token, everything else for the answer rows alone."""
        shape, index, layer, rows = self.shape, self.shape.layers - 1, self.layers[-1], attention.answer_rows
        normed = rms_norm(x, layer.attention_norm, shape.norm_epsilon)
        kv = layer.qkv.rows(shape.query_width, None).heads(normed, shape.head_dim)
        self._norm_and_rotate(kv[:, : shape.kv_heads], layer.key_norm, phase)
        attention.write(index, kv)
        x = x[rows]
        if len(rows):
            queries = layer.qkv.rows(0, shape.query_width).heads(normed[rows], shape.head_dim)
            self._norm_and_rotate(queries, layer.query_norm, phase[rows])
            layer.output.add_to(x, attention.answers(index, queries, kv))
            self._mlp(layer, x)
        return x

    def _norm_and_rotate(self, heads: Tensor, weight: Tensor, phase: Tensor) -> None:
        heads.copy_(rms_norm(heads, weight, self.shape.norm_epsilon))
        blocks.rotate(heads, phase)

    def _mlp(self, layer: Layer, x: Tensor) -> None:
        normed = rms_norm(x, layer.mlp_norm, self.shape.norm_epsilon)
        layer.down.add_to(x, blocks.gated(layer.gate(normed), layer.up(normed)))


def _read_layer(reader: TensorReader, name: str) -> Layer:
    shape, hidden = reader.shape, reader.shape.hidden
    query_norm = reader.read(f"{name}.self_attn.q_norm.weight", shape.head_dim)
    key_norm = reader.read(f"{name}.self_attn.k_norm.weight", shape.head_dim)

    def linear(module: str, outputs: int, inputs: int, biased: bool) -> Linear:
        return blocks.read_linear(reader, f"{name}.{module}", outputs, inputs, biased)

    return Layer(
        attention_norm=reader.read(f"{name}.input_layernorm.weight", hidden),
        qkv=blocks.read_qkv(reader, name),
        query_norm=blocks.pair_rows(query_norm, 1),
        key_norm=blocks.pair_rows(key_norm, 1),
        output=linear("self_attn.o_proj", hidden, shape.query_width, shape.attention_bias),
        mlp_norm=reader.read(f"{name}.post_attention_layernorm.weight", hidden),
        gate=linear("mlp.gate_proj", shape.intermediate, hidden, shape.mlp_bias),
        up=linear("mlp.up_proj", shape.intermediate, hidden, shape.mlp_bias),
        down=linear("mlp.down_proj", hidden, shape.intermediate, shape.mlp_bias),
    )
