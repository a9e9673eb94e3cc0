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
    scale = out.values if out.scale is None else out.scale
    groups = triton.cdiv(width, GROUP)
    tile = (
        triton.next_power_of_2(groups)
        if precision is Precision.ROW
        else min(TILE, triton.next_power_of_2(groups))
    )
    _silu_mul[(rows, triton.cdiv(groups, tile))](
        gate_up,
        out.values,
        scale,
        width,
        scale.stride(1),
        PRECISION=int(precision),
        GROUPS=tile,
        num_warps=max(1, min(16, tile // 4)),
    )


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
    gate = tl.load(place, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(place + width, mask=mask, other=0.0).to(tl.float32)
    y = gate / (1.0 + tl.exp(-gate)) * up
    store_row(y, out, scale, row, width, scale_stride, column, mask, PRECISION)
