"""Attention over scattered key ranges: queries and a layer's arena go in, results and their sums come out.

A call is a batch of (query range, key range) pairs; ranges are starts and lengths, so that they may lie
anywhere, in any order, overlap and repeat. Causal calls are aligned at the bottom right: the last query sees
every key of its range.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from covey_engine.prefill.errors import EngineError


@dataclass(frozen=True, eq=False)
class Ranges:
    """One batched call on the device.

    query_start, key_start: int32 [pairs + 1], the last one unused; query_length, key_length: int32 [pairs];
    longest_query and longest_key bound the lengths.
    """

    query_start: Tensor
    query_length: Tensor
    key_start: Tensor
    key_length: Tensor
    longest_query: int
    longest_key: int
    causal: bool


class Attention(Protocol):
    """A forward attention kernel."""

    def __call__(self, queries: Tensor, keys: Tensor, values: Tensor, ranges: Ranges, out: Tensor) -> Tensor:
        """Attend: queries [rows, heads, head_dim], keys and values [arena, kv_heads, head_dim].

        Writes the rows of the query ranges to out [rows, heads, head_dim] and returns the log-sum-exp,
        float32 [heads, rows]; rows outside every range keep what they hold in out. Scores are scaled by head_dim
        ** -0.5.
        """
        ...


def flash_attention() -> Attention:
    """The attention kernel for this machine: FlashAttention 3, else 4. Raises EngineError where neither is there."""
    missing = []
    for kernel in (FlashAttention3, FlashAttention4):
        try:
            return kernel()
        except ImportError as error:
            missing.append(str(error))
    raise EngineError(
        "backend 'hopper' needs the package fa3-fwd or flash-attn-4 "
        f"(pip install 'covey[hopper]'): {'; '.join(missing)}"
    )


class FlashAttention3:
    """FlashAttention 3, forward only; one split, so that the same call gives the same bits.

    Raises ImportError where the package fa3-fwd is not installed.
    """

    def __init__(self) -> None:
        importlib.import_module("fa3_fwd._C")
        self._forward = torch.ops.fa3_fwd.fwd

    def __call__(self, queries: Tensor, keys: Tensor, values: Tensor, ranges: Ranges, out: Tensor) -> Tensor:
        """As Attention says."""
        result = self._forward(
            queries,
            keys,
            values,
            None,  # new keys
            None,  # new values
            None,  # query part of another width
            out,
            ranges.query_start,
            ranges.key_start,
            None,  # starts of new keys
            ranges.query_length,
            ranges.key_length,
            ranges.longest_query,
            ranges.longest_key,
            None,  # page table
            None,  # batch index
            None,  # left padding
            None,  # rotary cosines
            None,  # rotary sines
            None,  # rotary lengths
            None,  # query scale
            None,  # key scale
            None,  # value scale
            queries.shape[-1] ** -0.5,
            ranges.causal,
            -1,  # window to the left
            -1,  # window to the right
            0,  # chunked attention
            0.0,  # softcap
            False,  # interleaved rotation
            None,  # scheduler metadata
            1,  # splits
            None,  # pack query heads: let the kernel choose
            0,  # multiprocessors left free
        )
        return result[1]  # type: ignore[no-any-return]


class FlashAttention4:
    """FlashAttention 4, written in CuTe; it compiles a kernel for each kind of call, seconds each, at the first.

    Raises ImportError where the package flash-attn-4 is not installed.
    """

    def __init__(self) -> None:
        self._forward = importlib.import_module("flash_attn.cute.interface")._flash_attn_fwd

    def __call__(self, queries: Tensor, keys: Tensor, values: Tensor, ranges: Ranges, out: Tensor) -> Tensor:
        """As Attention says."""
        result = self._forward(
            queries,
            keys,
            values,
            cu_seqlens_q=ranges.query_start,
            cu_seqlens_k=ranges.key_start,
            seqused_q=ranges.query_length,
            seqused_k=ranges.key_length,
            max_seqlen_q=ranges.longest_query,
            max_seqlen_k=ranges.longest_key,
            softmax_scale=queries.shape[-1] ** -0.5,
            causal=ranges.causal,
            num_splits=1,
            return_lse=True,
            out=out,
        )
        return result[1]  # type: ignore[no-any-return]
