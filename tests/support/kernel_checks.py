"""Random operands of kernels, and what an activation must be."""

from __future__ import annotations

import torch
from covey_engine.prefill.kernels.precision import Activation, Precision
from support.hopper_kernels import DEVICE, GPU, relative_error, restored, tolerance
from torch import Tensor

HALF = tolerance(Precision.BF16)


def random(*size: int, scale: float = 1.0) -> Tensor:
    return (torch.randn(size, device=DEVICE) * scale).bfloat16()


def check(found: Activation, expected: Tensor, precision: Precision) -> None:
    rows = len(expected)
    assert relative_error(restored(found)[:rows], expected) < tolerance(precision)
    if found.scale is None:
        return
    groups = expected.view(rows, found.scale.shape[1], -1)
    assert torch.allclose(found.scale[:rows], groups.abs().amax(-1) / 448, rtol=1e-5 if GPU else 1e-2)
