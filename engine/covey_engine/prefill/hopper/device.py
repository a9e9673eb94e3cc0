"""The first Hopper GPU with its libraries out, or an error that says what is missing; loads and runs nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import torch

from covey_engine.prefill.errors import EngineError, OutOfDeviceMemory
from covey_engine.prefill.kernels.attention import Attention, flash_attention
from covey_engine.prefill.kernels.linear import BlockGemm, deep_gemm


@dataclass(frozen=True)
class Backend:
    """The kernels that are not ours, and the device they run on."""

    device: torch.device
    attention: Attention
    gemm: Callable[[], BlockGemm]


def hopper_backend() -> Backend:
    """The first GPU with its libraries. Raises EngineError where there is no Hopper GPU."""
    if not torch.cuda.is_available():
        raise EngineError("backend 'hopper' needs a CUDA device, and there is none")
    major, minor = torch.cuda.get_device_capability()
    if major != 9:
        raise EngineError(
            f"backend 'hopper' needs compute capability 9.0, this {torch.cuda.get_device_name()} has "
            f"{major}.{minor}"
        )
    return Backend(torch.device("cuda", torch.cuda.current_device()), flash_attention(), deep_gemm)


def multiprocessors(device: torch.device) -> int:
    """Of a GPU; 1 elsewhere."""
    if device.type != "cuda":
        return 1
    return torch.cuda.get_device_properties(device).multi_processor_count


def out_of_memory(purpose: str, error: torch.cuda.OutOfMemoryError) -> OutOfDeviceMemory:
    """Torch's error in one line: what was needed for what, and what the device has."""
    free, total = torch.cuda.mem_get_info()
    wanted = re.search(r"Tried to allocate ([\d.]+ \w+)", str(error))
    needed = f": {wanted[1]} more is needed, and" if wanted else ":"
    return OutOfDeviceMemory(
        f"the GPU has too little memory {purpose}{needed} {free / 1e9:.1f} GB of {total / 1e9:.1f} GB is free"
    )
