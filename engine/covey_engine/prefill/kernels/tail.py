"""Attention of short segments to a few ranges of keys and to themselves: queries and keys go in, results come out.

Where few rows follow a context, calls of their own for the context and for the rows, and the merge of their results,
cost more than the attention: here one program reads the ranges and then the rows, with one sum.

Contract: queries bfloat16 [rows, heads, head_dim], heads and head_dim contiguous; keys and values bfloat16 [arena,
kv_heads, head_dim], finite, and those of the ranges, of the same shape but for the first size; address int32 [rows],
where a row's own key is; first int32 [rows], the first row of the row's segment, at most REACH rows above; tiles
int32 [tiles, 2], the first of a tile's neighbouring query rows and how many, at most as many as the tile has; ranges
int32 [tiles, RANGES, 2], the (start, length) of the keys that all its rows see besides their segment's; out bfloat16
[rows, heads * head_dim]; the log-sum-exp goes to float32 [heads, rows]. Rows of no tile keep what they hold in both.
"""

from __future__ import annotations

import math

import triton
import triton.language as tl
from torch import Tensor

from covey_engine.prefill.kernels.suffix import REACH

KEYS = 32
"""Keys of a step through a range: with more, fewer programs fit a multiprocessor, which was slower."""

SIZES = (16, 32)
"""Rows of a tile."""

RANGES = 2
"""Ranges that a tile's rows see besides their own segments."""

OPTIONS = {16: {"num_warps": 4}, 32: {"num_warps": 8, "maxnreg": 128}}
"""By the rows of a tile; registers are limited so that two programs fit a multiprocessor."""


def tail_attention(
    queries: Tensor,
    own: tuple[Tensor, Tensor],
    context: tuple[Tensor, Tensor],
    address: Tensor,
    first: Tensor,
    tiles: Tensor,
    ranges: Tensor,
    out: Tensor,
    lse: Tensor,
    size: int,
) -> None:
    """Launch over all tiles. own, context: keys and values; size: rows of a tile at most, one of SIZES."""
    rows, heads, head_dim = queries.shape
    kv_heads = own[0].shape[1]
    assert queries.stride()[1:] == (head_dim, 1)
    assert out.is_contiguous()
    assert lse.shape == (heads, rows)
    assert ranges.shape == (len(tiles), RANGES, 2)
    _tail_attention[(len(tiles), kv_heads)](
        queries,
        *own,
        *context,
        address,
        first,
        tiles,
        ranges,
        out,
        lse,
        rows,
        queries.stride(0),
        head_dim**-0.5 * math.log2(math.e),
        KV_HEADS=kv_heads,
        SHARED=heads // kv_heads,
        SHARED_BLOCK=triton.next_power_of_2(heads // kv_heads),
        HEAD_DIM=head_dim,
        LANES=triton.next_power_of_2(head_dim),
        TILE=size,
        BEFORE=REACH,
        STEP=KEYS,
        WIDE=not queries.is_cuda,
        num_stages=3,
        **OPTIONS[size],
    )


@triton.jit  # type: ignore[untyped-decorator]
def _tail_attention(  # type: ignore[no-untyped-def]
    queries,
    own_keys,
    own_values,
    keys,
    values,
    address,
    first,
    tiles,
    ranges,
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
    BEFORE: tl.constexpr,  # noqa: N803
    STEP: tl.constexpr,  # noqa: N803
    WIDE: tl.constexpr,  # noqa: N803
):
    tile = tl.program_id(0)
    kv_head = tl.program_id(1)
    start = tl.load(tiles + 2 * tile)
    count = tl.load(tiles + 2 * tile + 1)
    one_start = tl.load(ranges + 4 * tile)
    one_keys = tl.load(ranges + 4 * tile + 1)
    two_start = tl.load(ranges + 4 * tile + 2)
    two_keys = tl.load(ranges + 4 * tile + 3)
    one_steps = tl.cdiv(one_keys, STEP)
    key_step = tl.arange(0, STEP)
    # a line of the tile is one row of one of the query heads that share the key head
    line = tl.arange(0, TILE * SHARED_BLOCK)
    row = start + line // SHARED_BLOCK
    shared = line % SHARED_BLOCK
    wanted = (line // SHARED_BLOCK < count) & (shared < SHARED)
    head = kv_head * SHARED + shared
    lane = tl.arange(0, LANES)[None, :]
    inside = lane < HEAD_DIM
    q_place = queries + row.to(tl.int64)[:, None] * stride + head[:, None] * HEAD_DIM + lane
    q = tl.load(q_place, mask=wanted[:, None] & inside, other=0.0)
    # the rows themselves, so that every line has seen a key before it meets the ranges
    begin = tl.load(first + row, mask=wanted, other=0)
    key_row = start - BEFORE + tl.arange(0, BEFORE + BEFORE)
    there = (key_row >= 0) & (key_row < start + count)
    place = tl.load(address + key_row, mask=there, other=0).to(tl.int64)
    offset = (place * KV_HEADS + kv_head)[:, None] * HEAD_DIM + lane
    k = tl.load(own_keys + offset, mask=there[:, None] & inside, other=0.0)
    v = tl.load(own_values + offset, mask=there[:, None] & inside, other=0.0)
    if WIDE:  # Triton's interpreter multiplies bfloat16 as integers
        q = q.to(tl.float32)
        k = k.to(tl.float32)
        v = v.to(tl.float32)
    scores = tl.dot(q, tl.trans(k)) * scale
    visible = (key_row[None, :] >= begin[:, None]) & (key_row[None, :] <= row[:, None]) & wanted[:, None]
    scores = tl.where(visible, scores, float("-inf"))
    top = tl.where(wanted, tl.max(scores, axis=1), 0.0)
    weights = tl.exp2(scores - top[:, None])
    total = tl.sum(weights, axis=1)
    result = tl.dot(weights.to(v.dtype), v)
    # one loop through both ranges, so that one set of buffers serves them
    for step in range(one_steps + tl.cdiv(two_keys, STEP)):
        later = step - one_steps
        key_start = tl.where(later < 0, one_start + step * STEP, two_start + later * STEP)
        left = tl.where(later < 0, one_keys - step * STEP, two_keys - later * STEP)
        known = key_step < left
        range_offset = ((key_start + key_step).to(tl.int64) * KV_HEADS + kv_head)[:, None] * HEAD_DIM + lane
        range_k = tl.load(keys + range_offset, mask=known[:, None] & inside, other=0.0)
        range_v = tl.load(values + range_offset, mask=known[:, None] & inside, other=0.0)
        if WIDE:
            range_k = range_k.to(tl.float32)
            range_v = range_v.to(tl.float32)
        range_scores = tl.where(known[None, :], tl.dot(q, tl.trans(range_k)) * scale, float("-inf"))
        higher = tl.maximum(top, tl.max(range_scores, axis=1))
        shrink = tl.exp2(top - higher)
        range_weights = tl.exp2(range_scores - higher[:, None])
        total = total * shrink + tl.sum(range_weights, axis=1)
        result = tl.dot(range_weights.to(range_v.dtype), range_v, result * shrink[:, None])
        top = higher
    total = tl.where(wanted, total, 1.0)
    result = result / total[:, None]
    o_place = out + (row.to(tl.int64) * (KV_HEADS * SHARED) + head)[:, None] * HEAD_DIM + lane
    tl.store(o_place, result.to(tl.bfloat16), mask=wanted[:, None] & inside)
    tl.store(lse + head.to(tl.int64) * rows + row, (top + tl.log2(total)) * 0.6931471805599453, mask=wanted)
