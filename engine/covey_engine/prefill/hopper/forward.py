"""The sequence of kernels of one pass: a staged batch goes in, hidden states of its answer rows come out.

A layer is nine launches at least: QKV product; head norm, rotation and KV write; attention; quantization;
output product; residual, norm and quantization; gate-up product; SiLU, product and quantization; down
product, whose sum with the residual is the next layer's first norm. Rows in several attention calls are
merged in the quantization. The last layer computes keys and values of all rows, everything else for the
answer rows alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from covey_engine.prefill.hopper.batch import Batch, DeviceCall, DevicePlan, DeviceTails
from covey_engine.prefill.hopper.plan import Keys
from covey_engine.prefill.hopper.weights import Layer, Weights
from covey_engine.prefill.hopper.workspace import Workspace
from covey_engine.prefill.kernels.attention import Attention
from covey_engine.prefill.kernels.gate import silu_mul
from covey_engine.prefill.kernels.gather import gather_rows
from covey_engine.prefill.kernels.merge import MERGED, Partial, fold, merge
from covey_engine.prefill.kernels.norm import add_rms_norm
from covey_engine.prefill.kernels.precision import Activation
from covey_engine.prefill.kernels.rotary import KvTarget, PackedTarget, rotate_and_write
from covey_engine.prefill.kernels.suffix import suffix_attention
from covey_engine.prefill.kernels.tail import tail_attention


@dataclass(frozen=True, eq=False)
class DeviceArena:
    """KV of all layers.

    cache: bfloat16 [layers, 2, tokens, kv_heads, head_dim], finite everywhere; flags: uint8 [tokens].
    """

    cache: Tensor
    flags: Tensor

    def keys(self, layer: int) -> Tensor:
        """One layer's keys [tokens, kv_heads, head_dim]."""
        return self.cache[layer, 0]

    def values(self, layer: int) -> Tensor:
        """One layer's values [tokens, kv_heads, head_dim]."""
        return self.cache[layer, 1]


class Decoder:
    """A model's forward pass over its arena."""

    def __init__(
        self,
        weights: Weights,
        arena: DeviceArena,
        workspace: Workspace,
        attention: Attention,
        pad: Callable[[int], int],
    ) -> None:
        """`pad` rounds a number of rows up to one that the linear layers have kernels for."""
        self._weights = weights
        self._shape = weights.shape
        self._arena = arena
        self._space = workspace
        self._attention = attention
        self._pad = pad

    def forward(self, batch: Batch) -> Tensor:
        """Hidden states after the final norm, float32 [answers, hidden]."""
        layers, rows = self._weights.layers, batch.rows
        residual = self._space.residual(self._pad(rows))
        x = self._norm(self._weights.embedding, None, layers[0].attention_norm, residual, rows, batch.tokens)
        for index, layer in enumerate(layers[:-1]):
            self._attend(index, layer, x, batch)
            update = self._mlp(layer, residual, rows)
            x = self._norm(residual, update, layers[index + 1].attention_norm, residual, rows)
        return self._last_layer(layers[-1], x, residual, batch)

    def _attend(self, index: int, layer: Layer, x: Activation, batch: Batch) -> None:
        """From the normed residual to the output projection, which is left in the workspace's update."""
        shape, rows = self._shape, batch.rows
        qkv = self._space.qkv(len(x), shape.query_width + 2 * shape.kv_width)
        layer.qkv(x, qkv)
        self._rotate(layer, qkv[:rows], batch.positions, shape.heads, self._target(index, batch))
        queries = qkv[:rows, : shape.query_width].view(-1, shape.heads, shape.head_dim)
        merged = self._attention_of(index, queries, batch.every, batch, len(x))
        layer.output(merged, self._space.update(len(x)))

    def _mlp(self, layer: Layer, residual: Tensor, rows: int) -> Tensor:
        """Adds the workspace's update to the residual; returns the MLP's own update, not yet added."""
        padded, space = len(residual), self._space
        update, gate_up = space.update(padded), space.gate_up(padded)
        layer.gate_up(self._norm(residual, update, layer.mlp_norm, residual, rows), gate_up)
        x = space.activation(padded, self._shape.intermediate)
        silu_mul(gate_up[:rows], x, self._weights.precision)
        layer.down(x, update)
        return update

    def _last_layer(self, layer: Layer, x: Activation, residual: Tensor, batch: Batch) -> Tensor:
        shape, space, count = self._shape, self._space, batch.answers
        index, kv_columns = shape.layers - 1, 2 * shape.kv_width
        kv = space.qkv(len(x), kv_columns)
        layer.qkv.rows(shape.query_width, shape.query_width + kv_columns)(x, kv)
        self._rotate(layer, kv[: batch.rows], batch.positions, 0, self._target(index, batch))
        if not count:
            return residual[:0].float()
        padded = len(batch.answer_rows)
        x, kept = x.take(batch.answer_rows), residual.index_select(0, batch.answer_rows)
        q = space.qkv(padded, shape.query_width)
        layer.qkv.rows(0, shape.query_width)(x, q)
        self._rotate(layer, q[:count], batch.answer_positions, shape.heads, None)
        queries = q[:count].view(-1, shape.heads, shape.head_dim)
        layer.output(self._attention_of(index, queries, batch.answering, batch, padded), space.update(padded))
        update = self._mlp(layer, kept, count)
        return self._final_norm(kept[:count], update[:count])

    def _norm(
        self,
        source: Tensor,
        update: Tensor | None,
        weight: Tensor,
        residual: Tensor,
        rows: int,
        index: Tensor | None = None,
    ) -> Activation:
        """The normed sum of source and update, padded like the residual, which receives the sum."""
        x = self._space.activation(len(residual), self._shape.hidden)
        epsilon, precision = self._shape.norm_epsilon, self._weights.precision
        add_rms_norm(source, update, weight, residual[:rows], x, epsilon, precision, index)
        return x

    def _final_norm(self, residual: Tensor, update: Tensor) -> Tensor:
        x = (residual + update).float()
        return (
            x
            * torch.rsqrt(x.square().mean(1, keepdim=True) + self._shape.norm_epsilon)
            * self._weights.norm.float()
        )

    def _rotate(
        self, layer: Layer, qkv: Tensor, positions: Tensor, heads: int, target: KvTarget | None
    ) -> None:
        rotate_and_write(
            qkv, positions, self._weights.phases, layer.head_norms, self._shape.head_dim, heads, target
        )

    def _target(self, index: int, batch: Batch) -> KvTarget:
        arena = self._arena
        packed = PackedTarget(*self._space.packed, batch.placed, batch.stored) if batch.packed else None
        return KvTarget(
            arena.keys(index), arena.values(index), arena.flags, batch.address, index == 0, packed
        )

    def _attention_of(
        self, index: int, queries: Tensor, plan: DevicePlan, batch: Batch, padded: int
    ) -> Activation:
        """Attention of the queries by all calls of their plan, merged: an activation of `padded` rows."""
        shape, arena = self._shape, self._arena
        if batch.copied.shape[1]:
            source, target = batch.copied
            gather_rows(arena.keys(index), arena.values(index), source, target, *self._space.packed)
        out = self._space.activation(padded, shape.query_width)
        waiting: list[Partial] = []
        rounds = iter(plan.coverages)
        for call in plan.calls:
            if plan.apart:
                waiting.clear()
            elif len(waiting) == MERGED:
                fold(waiting, next(rounds), shape.head_dim)
                del waiting[1:]
            waiting.append(self._partial(index, queries, call, batch, len(waiting)))
        merge(waiting, next(rounds), out, shape.head_dim, self._weights.precision)
        return out

    def _partial(
        self, index: int, queries: Tensor, call: DeviceCall | DeviceTails, batch: Batch, slot: int
    ) -> Partial:
        own = self._arena.keys(index), self._arena.values(index)
        keys, values = self._space.packed if call.keys is Keys.PACKED else own
        rows, address = len(queries), batch.address
        result = self._space.partial(slot, rows)
        if isinstance(call, DeviceTails):
            lse, seen = self._space.totals(slot, rows), (batch.first, call.tiles, call.ranges)
            tail_attention(queries, own, (keys, values), address, *seen, result, lse, call.size)
        elif call.keys is Keys.OWN_ROWS:
            lse = self._space.totals(slot, rows)
            suffix_attention(queries, *own, address, batch.alone, result, lse, call.ranges.longest_query)
        else:
            lse = self._attention(queries, keys, values, call.ranges, result.view(queries.shape))
        return result, lse
