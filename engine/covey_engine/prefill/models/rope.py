"""Rotary position settings go in, inverse frequencies come out; never touches activations.

The scaling rules and their float32 arithmetic are those of Hugging Face transformers, so that phases agree
to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from covey_engine.prefill.errors import ModelError


def inverse_frequencies(theta: float, head_dim: int, scaling: Mapping[str, object] | None) -> Tensor:
    """Inverse frequencies, float32 [head_dim / 2], after `scaling` (Hugging Face's rope parameters or None).

    Raises ModelError naming a scaling type other than default, linear and llama3.
    """
    exponents = torch.arange(0, head_dim, 2, dtype=torch.int64).to(torch.float32) / head_dim
    plain = 1.0 / (theta**exponents)
    scaling = scaling or {}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    match kind:
        case "default" | "none" | None:
            return plain
        case "linear":
            return plain / _number(scaling, "factor")
        case "llama3":
            return _llama3(plain, scaling)
    raise ModelError(f"rotary scaling type {kind!r} is not supported (supported: default, linear, llama3)")


def _llama3(plain: Tensor, scaling: Mapping[str, object]) -> Tensor:
    factor, original = _number(scaling, "factor"), _number(scaling, "original_max_position_embeddings")
    low, high = _number(scaling, "low_freq_factor"), _number(scaling, "high_freq_factor")
    wavelength = 2 * math.pi / plain
    smooth = (original / wavelength - low) / (high - low)
    blended = (1 - smooth) * plain / factor + smooth * plain
    slow, fast = wavelength > original / low, wavelength < original / high
    return torch.where(slow, plain / factor, torch.where(fast, plain, blended))


def _number(scaling: Mapping[str, object], key: str) -> float:
    value = scaling.get(key)
    if not isinstance(value, int | float):
        raise ModelError(f"the model's rotary scaling has no number {key!r}")
    return float(value)
