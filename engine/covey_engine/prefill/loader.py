"""An engine configuration goes in, a runner with its model loaded and its arena allocated comes out.

The only place where a device, a dtype and a backend are chosen.
"""

from __future__ import annotations

import importlib.util
import os
import time
from pathlib import Path

import numpy as np
import torch

from covey_engine.prefill.api import EngineInfo
from covey_engine.prefill.attention import Arena
from covey_engine.prefill.config import EngineConfig
from covey_engine.prefill.errors import ModelError, OutOfDeviceMemory
from covey_engine.prefill.lanes import chunk_tokens
from covey_engine.prefill.models import llama, qwen3
from covey_engine.prefill.models.model import Model
from covey_engine.prefill.models.shape import ModelShape
from covey_engine.prefill.models.weights import TensorReader, open_source
from covey_engine.prefill.reference import ReferenceRunner
from covey_engine.prefill.runner import Runner

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
_CUDA_CHUNK_TOKENS = 16384
_CPU_ARENA_BYTES = 1 << 30
_HOPPER = 9
"""The major compute capability of an H100 or H200."""
_HOPPER_PACKAGES = (("deep_gemm",), ("fa3_fwd", "flash_attn.cute"), ("triton",))
"""Of each group one is needed."""


def open_runner(config: EngineConfig) -> Runner:
    """Load the model and set up its runner. Raises ModelError, or OutOfDeviceMemory where it does not fit."""
    started = time.perf_counter()
    if config.backend not in ("auto", "reference", "hopper"):
        raise ModelError(f"there is no backend {config.backend!r} (known: auto, reference, hopper)")
    if config.backend == "hopper" or (config.backend == "auto" and _suits_hopper(config)):
        # The packages of its kernels are there only where this backend can run.
        from covey_engine.prefill.hopper.runner import open_runner as open_hopper

        return open_hopper(config)
    if config.threads:
        torch.set_num_threads(config.threads)
    device, dtype = _device(config.device), _dtype(config)
    path = Path(config.model)
    try:
        with torch.inference_mode():
            model = _load(path, device, dtype)
            arena = _allocate(model.shape, config, device, dtype)
    except torch.OutOfMemoryError as error:
        raise OutOfDeviceMemory(f"{path} does not fit on {device}: {error}") from error
    numbers = str(dtype).removeprefix("torch.")
    threads = torch.get_num_threads() if device.type == "cpu" else 1
    tokens = config.chunk_tokens or _default_chunk_tokens(device, model.shape, threads)
    info = EngineInfo(
        model=path.stem if path.is_file() else path.name,
        architecture=model.shape.architecture,
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        dtype=numbers,
        context_length=model.shape.context_length,
        arena_tokens=len(arena),
        chunk_tokens=min(tokens, max(1, len(arena) // 2)),
        load_seconds=time.perf_counter() - started,
        sizes=model.shape.sizes(numbers, numbers),
    )
    return ReferenceRunner(model, arena, info, threads)


def _suits_hopper(config: EngineConfig) -> bool:
    """Whether backend "auto" is "hopper": a Hopper GPU may be used, and its kernels are installed."""
    return (
        config.device != "cpu"
        and config.dtype != "float32"
        and torch.cuda.is_available()
        and torch.cuda.get_device_capability()[0] == _HOPPER
        and all(any(map(is_installed, group)) for group in _HOPPER_PACKAGES)
    )


def is_installed(module: str) -> bool:
    """Whether a module is there to be imported; folders above it are imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _load(path: Path, device: torch.device, dtype: torch.dtype) -> Model:
    reader = TensorReader(open_source(path), device, dtype)
    match reader.shape.architecture:
        case "llama":
            return llama.load(reader)
        case "qwen3":
            return qwen3.load(reader)
    raise AssertionError(reader.shape.architecture)


def _device(wish: str) -> torch.device:
    match wish:
        case "auto":
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        case "cpu":
            return torch.device("cpu")
        case "cuda" if torch.cuda.is_available():
            return torch.device("cuda")
        case "cuda":
            raise ModelError("device 'cuda' was asked for, but this machine has no usable CUDA device")
    raise ModelError(f"there is no device {wish!r} (known: auto, cpu, cuda)")


def _dtype(config: EngineConfig) -> torch.dtype:
    if config.dtype == "auto":
        return torch.float32 if _device(config.device).type == "cpu" else torch.bfloat16
    if config.dtype not in _DTYPES:
        raise ModelError(f"there is no dtype {config.dtype!r} (known: auto, {', '.join(_DTYPES)})")
    return _DTYPES[config.dtype]


def _allocate(shape: ModelShape, config: EngineConfig, device: torch.device, dtype: torch.dtype) -> Arena:
    per_token = shape.layers * 2 * shape.kv_width * dtype.itemsize
    wish = config.arena_bytes or _default_arena_bytes(device)
    tokens = wish // per_token
    if not tokens:
        raise OutOfDeviceMemory(
            f"an arena of {wish} bytes holds no token: this model keeps {per_token} bytes for each"
        )
    size = (shape.layers, tokens, 2 * shape.kv_heads, shape.head_dim)
    if device.type == "cpu":
        # Zero pages of the system: an address costs memory and time only once it is written.
        pages = torch.from_numpy(np.zeros(tokens * per_token, np.uint8))
        return Arena(pages.view(dtype).view(size))
    return Arena(torch.zeros(size, dtype=dtype, device=device))


def _default_chunk_tokens(device: torch.device, shape: ModelShape, threads: int) -> int:
    if device.type == "cuda":
        return _CUDA_CHUNK_TOKENS
    return chunk_tokens(threads, 2 * shape.layers * shape.layer_weights)


def _default_arena_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free // 2
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(_CPU_ARENA_BYTES, memory // 4)
