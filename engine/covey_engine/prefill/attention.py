"""Queries, keys and values of one chunk go in, attention comes out; owns the KV arena, knows no weights.

A query's own segment and each of its contexts are attended separately; the partial results are merged by
their log-sum-exps, which is exact (Hydragen: Juravsky et al., 2024).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.plan import AnswerCall, Plan, SelfCall

_SCORE_BYTES = 1 << 28
"""Memory that one block of attention scores may take."""
_MANY = 384
"""Rows from which a context is attended to faster if each head's keys lie together."""


class Arena:
    """Keys and values of every layer: kv [layers, tokens, 2 * kv_heads, head_dim], keys' heads first.

    bad: bool [tokens], the addresses whose keys or values were not finite in some layer; they hold zeros
    there.
    """

    def __init__(self, kv: Tensor) -> None:
        self.kv = kv
        self.bad = np.zeros(kv.shape[1], np.bool_)
        self.tainted = False

    def __len__(self) -> int:
        return len(self.bad)

    def settle(self, address: NDArray[np.int64], bad_rows: NDArray[np.bool_] | None) -> None:
        """After a chunk: remember which of its addresses are bad; its others are good again."""
        if bad_rows is None and not self.tainted:
            return
        self.bad[address] = False if bad_rows is None else bad_rows
        self.tainted = bool(self.bad.any())

    def ill_answers(self, chunk: Chunk) -> NDArray[np.bool_]:
        """Answers [A] whose prompt holds a bad address."""
        if not self.tainted:
            return np.zeros(len(chunk.answers), np.bool_)
        before = np.concatenate([[0], np.cumsum(self.bad)])
        ill = np.zeros(len(chunk), np.bool_)
        for first, length, address in chunk.segments.tolist():
            ill[first : first + length] = before[address + 1 : address + length + 1] > before[address]
        for first, rows, address, keys in chunk.contexts.tolist():
            ill[first : first + rows] |= before[address + keys] > before[address]
        return ill[chunk.answers]


class ChunkAttention:
    """Attention of one chunk, call by call as planned."""

    def __init__(
        self,
        arena: Arena,
        chunk: Chunk,
        plan: Plan,
        kv_heads: int,
        written: Callable[[], object] = lambda: None,
    ) -> None:
        """written: called after each layer's `write`; returns when the keys of other parts are there too."""
        device = arena.kv.device
        self._written = written
        self._arena = arena
        self._kv_heads = kv_heads
        self._contexts = plan.contexts
        self._where = _place(chunk.kv_address, device)
        self._selves = tuple(_SelfRows(call, device) for call in plan.selves)
        self._answers = tuple(_AnswerRows(call, device) for call in plan.answers)
        self.answer_rows = torch.from_numpy(plan.answer_rows).to(device)
        self.bad_rows: Tensor | None = None

    def write(self, layer: int, kv: Tensor) -> None:
        """Keep kv [T, 2 * kv_heads, head_dim]; non-finite rows are zeroed in place and put in `bad_rows`."""
        # A sum is finite only if all its terms are.
        if not math.isfinite(kv.sum().item()):
            bad = ~torch.isfinite(kv).flatten(1).all(dim=1)
            kv[bad] = 0
            self.bad_rows = bad if self.bad_rows is None else self.bad_rows | bad
        if isinstance(self._where, slice):
            self._arena.kv[layer, self._where] = kv
        else:
            self._arena.kv[layer].index_copy_(0, self._where, kv)
        self._written()

    def all_rows(self, layer: int, queries: Tensor, kv: Tensor) -> Tensor:
        """Attention of every row: [T, heads * head_dim]."""
        keys, values = kv[:, : self._kv_heads], kv[:, self._kv_heads :]
        first = self._selves[0]
        if len(self._selves) == 1 and first.whole(len(kv)):
            result, weight = first.attend(queries, keys, values)
        else:
            result = torch.empty(queries.shape, dtype=torch.float32, device=kv.device)
            weight = torch.empty(queries.shape[:2], dtype=torch.float32, device=kv.device)
            for call in self._selves:
                call.attend_into(result, weight, queries, keys, values)
        for context in self._contexts:
            rows = slice(context.first, context.stop)
            self._merge(
                layer, slice(context.kv_first, context.kv_stop), queries[rows], result[rows], weight[rows]
            )
        return result.to(queries.dtype).flatten(1)

    def answers(self, layer: int, queries: Tensor, kv: Tensor) -> Tensor:
        """Attention of the answer rows: [A, heads * head_dim]."""
        keys, values = kv[:, : self._kv_heads], kv[:, self._kv_heads :]
        result = torch.empty(queries.shape, dtype=torch.float32, device=kv.device)
        weight = torch.empty(queries.shape[:2], dtype=torch.float32, device=kv.device)
        for call in self._answers:
            call.attend_into(result, weight, queries, keys, values)
        for context in self._contexts:
            rows = slice(context.answer_first, context.answer_stop)
            if context.answer_first < context.answer_stop:
                self._merge(
                    layer, slice(context.kv_first, context.kv_stop), queries[rows], result[rows], weight[rows]
                )
        return result.to(queries.dtype).flatten(1)

    def _merge(self, layer: int, where: slice, queries: Tensor, result: Tensor, weight: Tensor) -> None:
        """Attend to a KV range; merge into result [rows, heads, head_dim], log-sum-exp [rows, heads]."""
        kv = self._arena.kv[layer, where]
        if len(queries) >= _MANY:
            kv = kv.transpose(0, 1).contiguous().transpose(0, 1)
        more, heavier = attend(queries[None], kv[None, :, : self._kv_heads], kv[None, :, self._kv_heads :])
        result.lerp_(more[0], torch.sigmoid(heavier[0] - weight).unsqueeze(-1))
        torch.logaddexp(weight, heavier[0], out=weight)


def _place(address: NDArray[np.int64], device: torch.device) -> slice | Tensor:
    """A chunk's addresses: a slice where they follow each other, as they do in scratch; that copies faster."""
    if len(address) and (np.diff(address) == 1).all():
        return slice(int(address[0]), int(address[-1]) + 1)
    return torch.from_numpy(address.astype(np.int64)).to(device)


class _SelfRows:
    """A SelfCall with its indices on the device."""

    def __init__(self, call: SelfCall, device: torch.device) -> None:
        self._size = (call.count, call.length)
        self._slice = call.rows if isinstance(call.rows, slice) else None
        self._rows = None if isinstance(call.rows, slice) else torch.from_numpy(call.rows).to(device)
        self._valid = None if call.valid is None else torch.from_numpy(call.valid).to(device)

    def whole(self, tokens: int) -> bool:
        """Whether this call computes all rows of the chunk, in their order."""
        return self._slice == slice(0, tokens)

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Result [count * length, heads, head_dim] and log-sum-exp [count * length, heads]."""
        rows = self._slice if self._slice is not None else self._rows
        parts = [torch.unflatten(x[rows], 0, self._size) for x in (queries, keys, values)]
        result, weight = attend(*parts, causal=True)
        return result.flatten(0, 1), weight.flatten(0, 1)

    def attend_into(self, result: Tensor, weight: Tensor, *qkv: Tensor) -> None:
        """Attend and put the rows where they belong."""
        own, heavy = self.attend(*qkv)
        if self._rows is None:
            result[self._slice], weight[self._slice] = own, heavy
            return
        rows = self._rows
        if self._valid is not None:
            rows, own, heavy = rows[self._valid], own[self._valid], heavy[self._valid]
        result.index_copy_(0, rows, own)
        weight.index_copy_(0, rows, heavy)


class _AnswerRows:
    """An AnswerCall with its indices on the device."""

    def __init__(self, call: AnswerCall, device: torch.device) -> None:
        self._size = (call.count, call.keys)
        self._answers = torch.from_numpy(call.answers).to(device)
        self._rows = torch.from_numpy(call.rows).to(device)
        self._hidden = None if call.hidden is None else torch.from_numpy(call.hidden).to(device)

    def attend_into(
        self, result: Tensor, weight: Tensor, queries: Tensor, keys: Tensor, values: Tensor
    ) -> None:
        """Attend and put the answers where they belong."""
        own_keys, own_values = (torch.unflatten(x[self._rows], 0, self._size) for x in (keys, values))
        own, heavy = attend(queries[self._answers, None], own_keys, own_values, hidden=self._hidden)
        result.index_copy_(0, self._answers, own[:, 0])
        weight.index_copy_(0, self._answers, heavy[:, 0])


def attend(
    queries: Tensor, keys: Tensor, values: Tensor, *, causal: bool = False, hidden: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Attention with grouped heads: result [n, q, heads, head_dim] and natural log-sum-exp [n, q, heads].

    queries: [n, q, heads, head_dim]; keys, values: [n, k, kv_heads, head_dim]; causal: query i sees keys
    0..i; hidden: bool [n, k], keys that no query sees. Both results are float32.
    """
    if queries.device.type != "cpu" or hidden is not None:
        return _attend_plainly(queries, keys, values, causal, hidden)
    # The CPU kernel behind scaled_dot_product_attention, called for its log-sum-exp; it shares key heads.
    result, weight = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        queries.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2), 0.0, causal
    )
    return result.transpose(1, 2).float(), weight.transpose(1, 2).float()


def _attend_plainly(
    queries: Tensor, keys: Tensor, values: Tensor, causal: bool, hidden: Tensor | None
) -> tuple[Tensor, Tensor]:
    n, count, heads, head_dim = queries.shape
    group = heads // keys.shape[2]
    result = torch.empty(queries.shape, dtype=torch.float32, device=queries.device)
    weight = torch.empty(queries.shape[:3], dtype=torch.float32, device=queries.device)
    k = keys.float().permute(0, 2, 3, 1)
    v = values.float().transpose(1, 2)
    block = max(1, _SCORE_BYTES // (4 * n * heads * keys.shape[1]))
    for start in range(0, count, block):
        q = torch.unflatten(queries[:, start : start + block].float(), 2, (-1, group)).permute(0, 2, 3, 1, 4)
        rows = q.shape[3]
        scores = torch.unflatten(torch.matmul(q.flatten(2, 3), k).mul_(head_dim**-0.5), 2, (group, rows))
        if causal:
            later = torch.ones(rows, keys.shape[1], dtype=torch.bool, device=q.device).triu_(start + 1)
            scores.masked_fill_(later, -math.inf)
        if hidden is not None:
            scores.masked_fill_(hidden[:, None, None, None, :], -math.inf)
        total = torch.logsumexp(scores, dim=-1, keepdim=True)
        mixed = torch.unflatten(torch.matmul(scores.sub_(total).exp_().flatten(2, 3), v), 2, (group, rows))
        result[:, start : start + block] = mixed.permute(0, 3, 1, 2, 4).flatten(2, 3)
        weight[:, start : start + block] = total.squeeze(-1).permute(0, 3, 1, 2).flatten(2, 3)
    return result, weight
