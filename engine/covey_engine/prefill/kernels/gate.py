"""SiLU(gate) times up, quantized: both projections go in, the down projection's input comes out.

Contract: gate_up bfloat16 [rows, 2 * width], contiguous, gates in the left half; out an Activation [at least
rows, width].
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from covey_engine.prefill.kernels.precision import GROUP, Activation, Precision
from covey_engine.prefill.kernels.quantize import store_row

TILE = 16
"""128-column groups of one program where a row's scales do not depend on each other."""


def silu_mul(gate_up: Tensor, out: Activation, precision: Precision) -> None:
    """Launch over all rows of gate_up."""
    rows, width = len(gate_up), gate_up.shape[1] // 2
    assert gate_up.is_contiguous()
    assert len(out) >= rows
    assert out.values.shape[1] == width
    if precision is Precision.ROW:
        large = triton.next_power_of_2(width + 1) // 2
        small = triton.next_power_of_2(width - large) if width > large else 0
        _silu_mul_row[(rows,)](gate_up, out.values, out.scale, width, LARGE=large, SMALL=small, num_warps=4)
        return
    groups = triton.cdiv(width, GROUP)
    scale = out.values if out.scale is None else out.scale
    tile = min(TILE, triton.next_power_of_2(groups))
    _silu_mul[(rows, triton.cdiv(groups, tile))](
        gate_up,
        out.values,
        scale,
        width,
        scale.stride(1),
        PRECISION=int(precision),
        GROUPS=tile,
        num_warps=max(1, tile // 4),
    )


@triton.jit
def _silu(gate, up):  # type: ignore[no-untyped-def]
    gate = gate.to(tl.float32)
    return gate / (1.0 + tl.exp(-gate)) * up.to(tl.float32)


@triton.jit  # type: ignore[untyped-decorator]
def _silu_mul_row(  # type: ignore[no-untyped-def]
    gate_up,
    out,
    scale,
    width,
    LARGE: tl.constexpr,  # noqa: N803
    SMALL: tl.constexpr,  # noqa: N803
):
    """One row whole, as two powers of two of columns: little of the second is beyond the row."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, LARGE)
    place = gate_up + row * (2 * width) + column
    gate = tl.load(place)
    up = tl.load(place + width)
    if SMALL > 0:
        rest = LARGE + tl.arange(0, SMALL)
        mask = rest < width
        rest_place = gate_up + row * (2 * width) + rest
        rest_gate = tl.load(rest_place, mask=mask, other=0.0)
        rest_up = tl.load(rest_place + width, mask=mask, other=0.0)
    y = _silu(gate, up)
    top = tl.maximum(tl.max(tl.abs(y), axis=0), 1e-12)
    if SMALL > 0:
        z = _silu(rest_gate, rest_up)
        top = tl.maximum(top, tl.max(tl.abs(z), axis=0))
        tl.store(out + row * width + rest, (z * (448.0 / top)).to(tl.float8e4nv), mask=mask)
    tl.store(out + row * width + column, (y * (448.0 / top)).to(tl.float8e4nv))
    tl.store(scale + row, top / 448.0)


@triton.jit  # type: ignore[untyped-decorator]
def _silu_mul(  # type: ignore[no-untyped-def]
    gate_up,
    out,
    scale,
    width,
    scale_stride,
    PRECISION: tl.constexpr,  # noqa: N803
    GROUPS: tl.constexpr,  # noqa: N803
):
    row = tl.program_id(0)
    column = (tl.program_id(1) * GROUPS + tl.arange(0, GROUPS)[:, None]) * 128 + tl.arange(0, 128)[None, :]
    mask = column < width
    place = gate_up + row.to(tl.int64) * (2 * width) + column
    y = _silu(tl.load(place, mask=mask, other=0.0), tl.load(place + width, mask=mask, other=0.0))
    store_row(y, out, scale, row, width, scale_stride, column, mask, PRECISION)
