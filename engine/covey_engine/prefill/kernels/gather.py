"""Copies of arena rows: pairs of rows and a layer's keys and values go in, packed rows come out.

Contract: keys and values bfloat16 [arena, kv_heads, head_dim]; source and target int32 [n]; packed_keys and
packed_values bfloat16 [packed, kv_heads, head_dim]; all contiguous. Row target[i] of the packed tensors
becomes row source[i] of the arena.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor


def gather_rows(
    keys: Tensor,
    values: Tensor,
    source: Tensor,
    target: Tensor,
    packed_keys: Tensor,
    packed_values: Tensor,
) -> None:
    """Launch over all pairs."""
    width = keys.shape[1] * keys.shape[2]
    assert source.shape == target.shape
    assert source.is_contiguous()
    assert target.is_contiguous()
    assert keys.is_contiguous()
    block = triton.next_power_of_2(width)
    rows = max(1, 4096 // block)
    _gather_rows[(triton.cdiv(len(source), rows),)](
        keys,
        values,
        source,
        target,
        packed_keys,
        packed_values,
        len(source),
        width,
        ROWS=rows,
        BLOCK=block,
        num_warps=4,
    )


@triton.jit  # type: ignore[untyped-decorator]
def _gather_rows(  # type: ignore[no-untyped-def]
    keys,
    values,
    source,
    target,
    packed_keys,
    packed_values,
    count,
    width,
    ROWS: tl.constexpr,  # noqa: N803
    BLOCK: tl.constexpr,  # noqa: N803
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    lane = tl.arange(0, BLOCK)[None, :]
    mask = (row < count)[:, None] & (lane < width)
    origin = tl.load(source + row, mask=row < count, other=0).to(tl.int64)[:, None] * width + lane
    place = tl.load(target + row, mask=row < count, other=0).to(tl.int64)[:, None] * width + lane
    k = tl.load(keys + origin, mask=mask)
    v = tl.load(values + origin, mask=mask)
    tl.store(packed_keys + place, k, mask=mask)
    tl.store(packed_values + place, v, mask=mask)
