"""How a worker is set up: one frozen record that the server fills in and that crosses the process boundary."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EngineConfig:
    """Settings of the prefill engine.

    model: a local path, a Hugging Face folder or a GGUF file; device: "auto", "cpu" or "cuda"; dtype: "auto",
    "float32", "bfloat16" or "fp8" (backend hopper only); backend: "auto", "reference" or "hopper"; arena_bytes: memory
    of the KV arena, 0 sizes it from the device; chunk_tokens: tokens of one forward pass, 0 chooses by device; threads:
    CPU threads, 0 for all cores; hang_seconds: a chunk that takes longer than this means the worker is lost.
    """

    model: str
    device: str = "auto"
    dtype: str = "auto"
    backend: str = "auto"
    arena_bytes: int = 0
    chunk_tokens: int = 0
    threads: int = 0
    hang_seconds: float = 120.0
