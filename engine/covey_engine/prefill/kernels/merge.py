"""Log-sum-exp merge of attention results, quantized: partial results go in, an activation comes out.

Contract: each partial is (result bfloat16 [rows, heads * head_dim], log-sum-exp float32 [heads, rows]),
contiguous. Partial i covers the rows whose bit i is set in coverage int32 [rows], its other rows hold
anything; every row is covered by at least one partial, and by the only one where there is one. out: an
Activation [at least rows, heads * head_dim]; BLOCK needs head_dim 128. At most MERGED partials a launch; more
are folded into the first beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence

import triton
import triton.language as tl
from torch import Tensor

from covey_engine.prefill.kernels.precision import GROUP, Activation, Precision
from covey_engine.prefill.kernels.quantize import store_row

MERGED = 4
"""Partials that one launch merges."""

Partial = tuple[Tensor, Tensor]


def merge(
    partials: Sequence[Partial], coverage: Tensor, out: Activation, head_dim: int, precision: Precision
) -> None:
    """Launch over all rows."""
    _launch(partials, coverage, out, head_dim, precision, None)


def fold(partials: Sequence[Partial], coverage: Tensor, head_dim: int) -> None:
    """Merge all partials into the first, in place: afterwards it covers whatever any of them covered."""
    _launch(partials, coverage, Activation(partials[0][0]), head_dim, Precision.BF16, partials[0][1])


def _launch(
    partials: Sequence[Partial],
    coverage: Tensor,
    out: Activation,
    head_dim: int,
    precision: Precision,
    total: Tensor | None,
) -> None:
    rows, columns = partials[0][0].shape
    assert 1 <= len(partials) <= MERGED
    assert len(out) >= rows
    assert precision is not Precision.BLOCK or head_dim == GROUP
    scale = out.values if out.scale is None else out.scale
    padded = [*partials, *[partials[0]] * (MERGED - len(partials))]
    heads = triton.next_power_of_2(columns // head_dim)
    lanes = triton.next_power_of_2(head_dim)
    _merge[(rows,)](
        *[tensor for pair in padded for tensor in pair],
        coverage,
        partials[0][1] if total is None else total,
        out.values,
        scale,
        rows,
        columns,
        scale.stride(1),
        COUNT=len(partials),
        HEAD_DIM=head_dim,
        KEEP_TOTAL=total is not None,
        PRECISION=int(precision),
        HEADS=heads,
        LANES=lanes,
        num_warps=max(1, min(16, heads * lanes // 1024)),
    )


@triton.jit
def _total(lse, where, there, covered):  # type: ignore[no-untyped-def]
    return tl.load(lse + where, mask=there & covered, other=float("-inf"))


@triton.jit
def _weigh(result, total, top, numerator, denominator, place, read):  # type: ignore[no-untyped-def]
    # An uncovered partial is never read: its memory may hold anything, NaN included.
    x = tl.load(result + place, mask=read, other=0.0).to(tl.float32)
    weight = tl.exp(total - top)
    return numerator + x * weight, denominator + weight


@triton.jit  # type: ignore[untyped-decorator]
def _merge(  # type: ignore[no-untyped-def]
    result0,
    lse0,
    result1,
    lse1,
    result2,
    lse2,
    result3,
    lse3,
    coverage,
    total,
    out,
    scale,
    rows,
    columns,
    scale_stride,
    COUNT: tl.constexpr,  # noqa: N803
    HEAD_DIM: tl.constexpr,  # noqa: N803
    KEEP_TOTAL: tl.constexpr,  # noqa: N803
    PRECISION: tl.constexpr,  # noqa: N803
    HEADS: tl.constexpr,  # noqa: N803
    LANES: tl.constexpr,  # noqa: N803
):
    row = tl.program_id(0)
    head = tl.arange(0, HEADS)[:, None]
    lane = tl.arange(0, LANES)[None, :]
    column = head * HEAD_DIM + lane
    there = head * HEAD_DIM < columns
    mask = there & (lane < HEAD_DIM)
    place = row.to(tl.int64) * columns + column
    if COUNT == 1:
        y = tl.load(result0 + place, mask=mask, other=0.0).to(tl.float32)
    else:
        where = head.to(tl.int64) * rows + row
        bits = tl.load(coverage + row)
        has0 = (bits & 1) > 0
        has1 = (bits & 2) > 0
        total0 = _total(lse0, where, there, has0)
        total1 = _total(lse1, where, there, has1)
        top = tl.maximum(total0, total1)
        if COUNT > 2:
            has2 = (bits & 4) > 0
            total2 = _total(lse2, where, there, has2)
            top = tl.maximum(top, total2)
        if COUNT > 3:
            has3 = (bits & 8) > 0
            total3 = _total(lse3, where, there, has3)
            top = tl.maximum(top, total3)
        # heads beyond the last have no total; rows that a fold does not cover keep what they hold
        any_covered = there & (bits & ((1 << COUNT) - 1) > 0)
        top = tl.where(any_covered, top, 0.0)
        y = tl.zeros([HEADS, LANES], tl.float32)
        denominator = tl.zeros([HEADS, 1], tl.float32)
        y, denominator = _weigh(result0, total0, top, y, denominator, place, mask & has0)
        y, denominator = _weigh(result1, total1, top, y, denominator, place, mask & has1)
        if COUNT > 2:
            y, denominator = _weigh(result2, total2, top, y, denominator, place, mask & has2)
        if COUNT > 3:
            y, denominator = _weigh(result3, total3, top, y, denominator, place, mask & has3)
        denominator = tl.where(any_covered, denominator, 1.0)
        y = y / denominator
        if KEEP_TOTAL:
            tl.store(total + where, top + tl.log(denominator), mask=any_covered)
            mask = mask & any_covered
    store_row(y, out, scale, row, columns, scale_stride, column, mask, PRECISION)
