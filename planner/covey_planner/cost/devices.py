"""Devices by name in, their published or measured peaks out; never looks for a device.

Published peaks are dense (no 2:4 sparsity), of one device at its full power. Sources:

- H100 and H200: NVIDIA H100 and H200 Tensor Core GPU datasheets (SXM): 3,958 TFLOP/s FP8 and 1,979 BF16 with
  sparsity, half of that without; 67 TFLOP/s FP32; 3.35 and 4.8 TB/s.
- B200: NVIDIA HGX B200 datasheet at 1,000 W: 4.5 PFLOP/s FP8 and 2.25 BF16 dense; 80 TFLOP/s FP32; 8 TB/s.
- L40S: NVIDIA L40S datasheet: 733 TFLOP/s FP8 and 362 BF16 dense; 91.6 FP32; 864 GB/s.
- RTX PRO 6000: NVIDIA RTX PRO 6000 Blackwell Workstation Edition datasheet: 4,000 AI TOPS, which are FP4 with
  sparsity, so a quarter of it in dense FP8 and an eighth in BF16; 125 TFLOP/s FP32; 1,792 GB/s.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from covey_planner.cost.shape import Precision


@dataclass(frozen=True)
class DeviceProfile:
    """Peaks of a device: FLOP/s by precision, bytes a second of its memory. measured: not from a datasheet."""

    name: str
    fp8: float
    bfloat16: float
    float32: float
    bandwidth: float
    measured: bool = False

    def peak(self, precision: Precision) -> float:
        """FLOP/s of matrix products of this precision."""
        match precision:
            case "fp8":
                return self.fp8
            case "bfloat16":
                return self.bfloat16
            case "float32":
                return self.float32


DATASHEETS = (
    DeviceProfile("H100", 1979e12, 989e12, 67e12, 3.35e12),
    DeviceProfile("H200", 1979e12, 989e12, 67e12, 4.8e12),
    DeviceProfile("B200", 4500e12, 2250e12, 80e12, 8.0e12),
    DeviceProfile("L40S", 733e12, 362e12, 91.6e12, 0.864e12),
    DeviceProfile("RTX PRO 6000", 1000e12, 500e12, 125e12, 1.792e12),
)


def datasheet(name: str) -> DeviceProfile | None:
    """The profile of a device as its driver calls it (`NVIDIA H200`, …); None for one that is not known."""
    said = " ".join(name.upper().replace("-", " ").replace("_", " ").split())
    return next((profile for profile in DATASHEETS if profile.name in said), None)


def measure_cpu(size: int = 384, repeats: int = 5) -> DeviceProfile:
    """This machine's peaks, the best of a few tries: float32 products of size x size matrices, and copies.

    What numpy reaches with its own threads. A CPU computes every precision in float32.
    """
    left = np.ones((size, size), np.float32)
    right, out = left.copy(), np.empty_like(left)
    block = np.ones(4 << 20, np.float32)
    copied = np.empty_like(block)
    product = min(_seconds(lambda: np.matmul(left, right, out=out)) for _ in range(repeats))
    copy = min(_seconds(lambda: np.copyto(copied, block)) for _ in range(repeats))
    flops = 2.0 * size**3 / product
    return DeviceProfile("CPU", flops, flops, flops, 2.0 * block.nbytes / copy, measured=True)


def _seconds(action: Callable[[], object]) -> float:
    before = time.perf_counter()
    action()
    return time.perf_counter() - before
