"""Device function shared by the kernels: a float32 tile of one row goes in, its stored format goes out."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def store_row(y, out, scale, row, columns, scale_stride, column, mask, PRECISION: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    """Store y [groups, 128] as columns `column` of row `row` of out, with its scales.

    PRECISION as in Precision. ROW needs the whole row in y. A row with a non-finite value comes out non-
    finite and touches no other row: its scale becomes infinite or its values NaN.
    """
    place = out + row.to(tl.int64) * columns + column
    if PRECISION == 0:
        tl.store(place, y.to(tl.bfloat16), mask=mask)
    elif PRECISION == 1:
        top = tl.maximum(tl.max(tl.max(tl.abs(y), axis=1), axis=0), 1e-12)
        tl.store(place, (y * (448.0 / top)).to(tl.float8e4nv), mask=mask)
        tl.store(scale + row, top / 448.0)
    else:
        top = tl.maximum(tl.max(tl.abs(y), axis=1, keep_dims=True), 1e-12)
        tl.store(place, (y * (448.0 / top)).to(tl.float8e4nv), mask=mask)
        group = tl.min(column, axis=1, keep_dims=True) // 128
        tl.store(scale + group.to(tl.int64) * scale_stride + row, top / 448.0, mask=group * 128 < columns)
