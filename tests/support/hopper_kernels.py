"""Where Hopper kernels run in tests (a GPU, else Triton's interpreter), and their oracles in plain torch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="Triton is not installed: the Hopper kernels cannot run here")
import triton

GPU = torch.cuda.is_available()
if not GPU and not isinstance(triton.language.max, triton.runtime.interpreter.InterpretedFunction):
    pytest.skip("Triton was imported before TRITON_INTERPRET=1 was set", allow_module_level=True)

from covey_engine.prefill.hopper.device import Backend, hopper_backend  # noqa: E402
from covey_engine.prefill.kernels.attention import Ranges  # noqa: E402
from covey_engine.prefill.kernels.precision import GROUP, Activation, Precision, block_scales  # noqa: E402

DEVICE = torch.device("cuda" if GPU else "cpu")


def backend() -> Backend:
    """The real libraries on a GPU; their torch oracles on a CPU."""
    return hopper_backend() if GPU else Backend(DEVICE, plain_attention, lambda: plain_block_gemm)


def plain_attention(queries: Tensor, keys: Tensor, values: Tensor, ranges: Ranges, out: Tensor) -> Tensor:
    """Attention one pair of ranges at a time, in float32; what no range covers is left as NaN."""
    rows, heads, head_dim = queries.shape
    lse = torch.full((heads, rows), float("nan"), device=queries.device)
    starts = ranges.query_start[:-1].tolist(), ranges.key_start[:-1].tolist()
    lengths = ranges.query_length.tolist(), ranges.key_length.tolist()
    for q0, k0, n, m in zip(*starts, *lengths, strict=True):
        if not n:
            continue
        repeat = heads // keys.shape[1]
        q = queries[q0 : q0 + n].float().transpose(0, 1)
        k, v = (x[k0 : k0 + m].float().repeat_interleave(repeat, 1).transpose(0, 1) for x in (keys, values))
        scores = q @ k.transpose(1, 2) * head_dim**-0.5
        if ranges.causal:
            hidden = torch.ones(n, m, dtype=torch.bool, device=q.device).tril(m - n).logical_not()
            scores = scores.masked_fill(hidden, float("-inf"))
        out[q0 : q0 + n] = (scores.softmax(-1) @ v).transpose(0, 1).to(out.dtype)
        lse[:, q0 : q0 + n] = scores.logsumexp(-1)
    return lse


def plain_block_gemm(x: tuple[Tensor, Tensor], weight: tuple[Tensor, Tensor], out: Tensor) -> None:
    """The block-scaled product in float32."""
    wide = weight[0].float() * weight[1].repeat_interleave(GROUP, 0).repeat_interleave(GROUP, 1)
    out.copy_((x[0].float() * x[1].repeat_interleave(GROUP, 1)) @ wide.t())


def empty_activation(rows: int, columns: int, precision: Precision) -> Activation:
    """Memory for an activation, poisoned: what a kernel leaves unwritten shows as NaN."""
    values = torch.full((rows, columns), float("nan"), device=DEVICE).to(precision.dtype)
    match precision:
        case Precision.BF16:
            return Activation(values)
        case Precision.ROW:
            return Activation(values, torch.full((rows, 1), float("nan"), device=DEVICE))
        case Precision.BLOCK:
            return Activation(values, block_scales(rows, columns, DEVICE).fill_(float("nan")))


def restored(x: Activation) -> Tensor:
    """The float32 values that an activation stands for."""
    wide = x.values.float()
    if x.scale is None:
        return wide
    return wide * (x.scale if x.scale.shape[1] == 1 else x.scale.repeat_interleave(GROUP, 1))


def relative_error(out: Tensor, reference: Tensor) -> float:
    """Norm of the deviation over the norm of the reference; NaN where out has one."""
    return float((out.double() - reference.double()).norm() / reference.double().norm())


def tolerance(precision: Precision) -> float:
    """Relative error of storing in a precision; Triton's interpreter cuts off where hardware rounds."""
    if precision is Precision.BF16:
        return 4e-3 if GPU else 1e-2
    return 4e-2 if GPU else 2e-1


def ranges(
    starts: list[int], lengths: list[int], key_starts: list[int], key_lengths: list[int], causal: bool
) -> Ranges:
    """A call's ranges on the device."""
    lists = ([*starts, 0], lengths, [*key_starts, 0], key_lengths)
    arrays = (torch.tensor(values, dtype=torch.int32, device=DEVICE) for values in lists)
    return Ranges(*arrays, max(lengths), max(key_lengths), causal)
