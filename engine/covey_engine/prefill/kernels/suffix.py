"""Causal attention within short segments: queries and a layer's arena go in, results come out.

A batched attention kernel spends a tile of 128 rows on every segment; here a tile holds the rows of whatever
segments lie there, and as many rows before them.

Contract: queries bfloat16 [rows, heads, head_dim], heads and head_dim contiguous; keys and values bfloat16
[arena, kv_heads, head_dim], finite; address int32 [rows], where a row's key is; first int32 [rows], the first
row of the row's segment, at most REACH rows above, or -1 for rows to leave alone; out bfloat16 [rows, heads *
head_dim]; the log-sum-exp goes to float32 [heads, rows]. Rows left alone keep what they hold in both.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

REACH = 32
"""A segment may be one row longer than this."""

TILES = ((16, 4), (REACH, 8))
"""Query rows of a tile, as many rows before them, and warps: the first that reaches far enough was fastest."""


def suffix_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    address: Tensor,
    first: Tensor,
    out: Tensor,
    lse: Tensor,
    longest: int,
) -> None:
    """Launch over all rows. longest: rows of the longest segment in `first`."""
    rows, heads, head_dim = queries.shape
    kv_heads = keys.shape[1]
    assert queries.stride()[1:] == (head_dim, 1)
    assert out.is_contiguous()
    assert lse.shape == (heads, rows)
    tile, warps = next(pair for pair in TILES if longest <= pair[0] + 1)
    _suffix_attention[(triton.cdiv(rows, tile), kv_heads)](
        queries,
        keys,
        values,
        address,
        first,
        out,
        lse,
        rows,
        queries.stride(0),
        head_dim**-0.5,
        KV_HEADS=kv_heads,
        SHARED=heads // kv_heads,
        SHARED_BLOCK=triton.next_power_of_2(heads // kv_heads),
        HEAD_DIM=head_dim,
        LANES=triton.next_power_of_2(head_dim),
        TILE=tile,
        WIDE=not queries.is_cuda,
        num_warps=warps,
    )


@triton.jit  # type: ignore[untyped-decorator]
def _suffix_attention(  # type: ignore[no-untyped-def]
    queries,
    keys,
    values,
    address,
    first,
    out,
    lse,
    rows,
    stride,
    scale,
    KV_HEADS: tl.constexpr,  # noqa: N803
    SHARED: tl.constexpr,  # noqa: N803
    SHARED_BLOCK: tl.constexpr,  # noqa: N803
    HEAD_DIM: tl.constexpr,  # noqa: N803
    LANES: tl.constexpr,  # noqa: N803
    TILE: tl.constexpr,  # noqa: N803
    WIDE: tl.constexpr,  # noqa: N803
):
    start = tl.program_id(0) * TILE
    kv_head = tl.program_id(1)
    # a line of the tile is one row of one of the query heads that share the key head
    line = tl.arange(0, TILE * SHARED_BLOCK)
    row = start + line // SHARED_BLOCK
    shared = line % SHARED_BLOCK
    wanted = (row < rows) & (shared < SHARED)
    begin = tl.load(first + row, mask=wanted, other=-1)
    wanted = wanted & (begin >= 0)
    if tl.max(begin, axis=0) >= 0:
        head = kv_head * SHARED + shared
        lane = tl.arange(0, LANES)[None, :]
        inside = lane < HEAD_DIM
        q_place = queries + row.to(tl.int64)[:, None] * stride + head[:, None] * HEAD_DIM + lane
        q = tl.load(q_place, mask=wanted[:, None] & inside, other=0.0)
        key_row = start - TILE + tl.arange(0, 2 * TILE)
        there = (key_row >= 0) & (key_row < rows)
        place = tl.load(address + key_row, mask=there, other=0).to(tl.int64)
        offset = (place * KV_HEADS + kv_head)[:, None] * HEAD_DIM + lane
        k = tl.load(keys + offset, mask=there[:, None] & inside, other=0.0)
        v = tl.load(values + offset, mask=there[:, None] & inside, other=0.0)
        if WIDE:  # Triton's interpreter multiplies bfloat16 as integers
            q = q.to(tl.float32)
            k = k.to(tl.float32)
            v = v.to(tl.float32)
        scores = tl.dot(q, tl.trans(k)) * scale
        visible = (key_row[None, :] >= begin[:, None]) & (key_row[None, :] <= row[:, None]) & wanted[:, None]
        scores = tl.where(visible, scores, float("-inf"))
        top = tl.max(scores, axis=1)
        top = tl.where(wanted, top, 0.0)
        weights = tl.exp(scores - top[:, None])
        total = tl.where(wanted, tl.sum(weights, axis=1), 1.0)
        result = tl.dot(weights.to(v.dtype), v) / total[:, None]
        o_place = out + (row.to(tl.int64) * (KV_HEADS * SHARED) + head)[:, None] * HEAD_DIM + lane
        tl.store(o_place, result.to(tl.bfloat16), mask=wanted[:, None] & inside)
        tl.store(lse + head.to(tl.int64) * rows + row, top + tl.log(total), mask=wanted)
