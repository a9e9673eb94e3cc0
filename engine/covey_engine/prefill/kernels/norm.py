"""Residual add, RMSNorm, quantization: residual and update go in, new residual and activation come out.

Contract: source bfloat16 [rows, columns] or, with `index` int32 [rows], an embedding [vocabulary, columns] to
gather from; update bfloat16 [rows, columns] or None; weight bfloat16 [columns]; residual bfloat16 [rows,
columns] receives source + update (may be source itself); out an Activation of at least as many rows. All
tensors contiguous but BLOCK scales.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from covey_engine.prefill.kernels.precision import GROUP, Activation, Precision
from covey_engine.prefill.kernels.quantize import store_row


def add_rms_norm(
    source: Tensor,
    update: Tensor | None,
    weight: Tensor,
    residual: Tensor,
    out: Activation,
    epsilon: float,
    precision: Precision,
    index: Tensor | None = None,
) -> None:
    """Launch over all rows of `residual`."""
    rows, columns = residual.shape
    assert source.is_contiguous()
    assert residual.is_contiguous()
    assert len(out) >= rows
    assert out.values.shape[1] == columns
    scale = out.values if out.scale is None else out.scale
    groups = triton.next_power_of_2(triton.cdiv(columns, GROUP))
    _add_rms_norm[(rows,)](
        source,
        source if index is None else index,
        source if update is None else update,
        weight,
        residual,
        out.values,
        scale,
        columns,
        scale.stride(1),
        epsilon,
        HAS_INDEX=index is not None,
        HAS_UPDATE=update is not None,
        PRECISION=int(precision),
        GROUPS=groups,
        num_warps=max(1, min(16, groups // 8)),
    )


@triton.jit  # type: ignore[untyped-decorator]
def _add_rms_norm(  # type: ignore[no-untyped-def]
    source,
    index,
    update,
    weight,
    residual,
    out,
    scale,
    columns,
    scale_stride,
    epsilon,
    HAS_INDEX: tl.constexpr,  # noqa: N803
    HAS_UPDATE: tl.constexpr,  # noqa: N803
    PRECISION: tl.constexpr,  # noqa: N803
    GROUPS: tl.constexpr,  # noqa: N803
):
    row = tl.program_id(0)
    column = tl.arange(0, GROUPS)[:, None] * 128 + tl.arange(0, 128)[None, :]
    mask = column < columns
    # read
    own = row.to(tl.int64) * columns + column
    if HAS_INDEX:
        place = tl.load(index + row).to(tl.int64) * columns + column
        x = tl.load(source + place, mask=mask, other=0.0)
    else:
        x = tl.load(source + own, mask=mask, other=0.0)
    if HAS_UPDATE:
        delta = tl.load(update + own, mask=mask, other=0.0)
        x = (x.to(tl.float32) + delta.to(tl.float32)).to(tl.bfloat16)
    gain = tl.load(weight + column, mask=mask, other=0.0).to(tl.float32)
    # the residual is what later layers read: the norm sees it as stored
    if HAS_INDEX or HAS_UPDATE:
        tl.store(residual + own, x, mask=mask)
    wide = x.to(tl.float32)
    mean = tl.sum(tl.sum(wide * wide, axis=1), axis=0) / columns
    y = wide * (1.0 / tl.sqrt(mean + epsilon)) * gain
    store_row(y, out, scale, row, columns, scale_stride, column, mask, PRECISION)
