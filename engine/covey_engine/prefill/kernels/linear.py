"""Linear layers in the three precisions: an activation and stored weights go in, bfloat16 rows come out.

BLOCK runs on DeepGEMM, ROW on torch's row-scaled product with fast accumulation, BF16 on torch's product.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from covey_engine.prefill.errors import EngineError
from covey_engine.prefill.kernels.precision import FP8_MAX, GROUP, Activation


class BlockGemm(Protocol):
    """Product of a BLOCK activation and a block-scaled weight."""

    def __call__(self, x: tuple[Tensor, Tensor], weight: tuple[Tensor, Tensor], out: Tensor) -> None:
        """out [rows, n] = x [rows, k] @ weight [n, k].T, scales applied."""
        ...


class Linear(Protocol):
    """A weight [outputs, inputs] in some precision."""

    def __call__(self, x: Activation, out: Tensor) -> None:
        """Write x times the weight, transposed, to out bfloat16 [rows, outputs]."""
        ...

    def rows(self, start: int, stop: int) -> Linear:
        """Outputs start..stop-1 alone, without a copy; multiples of 128."""
        ...


@dataclass(frozen=True, eq=False)
class Bf16Linear:
    """weight: bfloat16 [outputs, inputs]; bias: bfloat16 [outputs] or None."""

    weight: Tensor
    bias: Tensor | None = None

    def __call__(self, x: Activation, out: Tensor) -> None:
        """As Linear says."""
        torch.mm(x.values, self.weight.t(), out=out)
        if self.bias is not None:
            out.add_(self.bias)

    def rows(self, start: int, stop: int) -> Linear:
        """As Linear says."""
        return Bf16Linear(self.weight[start:stop], None if self.bias is None else self.bias[start:stop])


@dataclass(frozen=True, eq=False)
class RowLinear:
    """weight: float8 e4m3 [outputs, inputs]; scale: float32 [1, outputs]."""

    weight: Tensor
    scale: Tensor

    def __call__(self, x: Activation, out: Tensor) -> None:
        """As Linear says."""
        assert x.scale is not None
        torch._scaled_mm(
            x.values,
            self.weight.t(),
            scale_a=x.scale,
            scale_b=self.scale,
            out_dtype=torch.bfloat16,
            use_fast_accum=True,
            out=out,
        )

    def rows(self, start: int, stop: int) -> Linear:
        """As Linear says."""
        return RowLinear(self.weight[start:stop], self.scale[:, start:stop])


@dataclass(frozen=True, eq=False)
class BlockLinear:
    """weight: float8 e4m3 [outputs, inputs]; scale: float32 [outputs / 128, inputs / 128]."""

    weight: Tensor
    scale: Tensor
    gemm: BlockGemm

    def __call__(self, x: Activation, out: Tensor) -> None:
        """As Linear says."""
        assert x.scale is not None
        self.gemm((x.values, x.scale), (self.weight, self.scale), out)

    def rows(self, start: int, stop: int) -> Linear:
        """As Linear says."""
        assert start % GROUP == 0
        assert stop % GROUP == 0
        return BlockLinear(self.weight[start:stop], self.scale[start // GROUP : stop // GROUP], self.gemm)


def quantize_rows(weight: Tensor) -> RowLinear:
    """A floating weight [outputs, inputs], each output's row scaled to the range of float8."""
    wide = weight.float()
    scale = wide.abs().amax(dim=1, keepdim=True).clamp_min_(1e-12) / FP8_MAX
    return RowLinear((wide / scale).to(torch.float8_e4m3fn), scale.view(1, -1))


def deep_gemm() -> BlockGemm:
    """DeepGEMM's block-scaled product; compiled kernels are kept. Raises EngineError where it is missing."""
    os.environ.setdefault("DG_JIT_CACHE_DIR", str(Path.home() / ".cache" / "covey" / "deep_gemm"))
    try:
        module = importlib.import_module("deep_gemm")
    except (ImportError, OSError, AssertionError) as error:
        raise EngineError(
            "block-quantized fp8 needs the package sgl-deep-gemm and a CUDA compiler "
            f"(pip install 'covey[hopper]'): {error}"
        ) from error
    return module.fp8_gemm_nt  # type: ignore[no-any-return]
