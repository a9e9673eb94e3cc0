"""How a worker is set up: one frozen record that the server fills in and that crosses the process boundary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from covey_engine.prefill.api import Rates


@dataclass(frozen=True)
class EngineConfig:
    """Settings of the prefill engine.

    model: a local path, a Hugging Face folder or a GGUF file; device: "auto", "cpu" or "cuda"; dtype: "auto",
    "float32", "bfloat16" or "fp8" (backend hopper only); backend: "auto", "reference" or "hopper"; arena_bytes: memory
    of the KV arena, 0 sizes it from the device; chunk_tokens: tokens of one forward pass, 0 chooses by device; threads:
    CPU threads, 0 for all cores; hang_seconds: a chunk that takes longer than this means the worker is lost.

    calibrate: whether the device's rates are measured when a worker starts: "auto" where rates_file has none of this
    setup, "always" or "never". rates_file: where they are kept; empty for nowhere, and then "auto" measures nothing.
    rates: those that are known already, so that nothing is measured.
    """

    model: str
    device: str = "auto"
    dtype: str = "auto"
    backend: str = "auto"
    arena_bytes: int = 0
    chunk_tokens: int = 0
    threads: int = 0
    hang_seconds: float = 120.0
    calibrate: Literal["auto", "always", "never"] = "auto"
    rates_file: str = ""
    rates: Rates | None = None
