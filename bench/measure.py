"""What GPU benchmarks share: calls go in, their seconds, bytes a second and joules come out."""

from __future__ import annotations

from collections.abc import Callable

import torch


def copy_rate() -> float:
    """Bytes a second of a device-to-device copy, read and written."""
    source = torch.empty(1 << 31, dtype=torch.uint8, device="cuda").random_(0, 255)
    target = torch.empty_like(source)
    seconds = timed(lambda: target.copy_(source), 10)
    return 2 * source.numel() / seconds


def timed(call: Callable[[], object], repeats: int) -> float:
    """Seconds a call on the device, after one warm-up."""
    call()
    began, ended = (torch.cuda.Event(enable_timing=True) for _ in "ab")
    began.record()
    for _ in range(repeats):
        call()
    ended.record()
    ended.synchronize()
    return float(began.elapsed_time(ended)) / 1e3 / repeats


def energy() -> float:
    """Joules since the driver was loaded; 0 where it does not say."""
    try:
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        return float(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)) / 1e3
    except Exception:
        return 0.0
