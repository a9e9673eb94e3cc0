"""Llama-family decoders (SmolLM2, Llama 2 and 3) from a reader of tensors: the shared pass and nothing of their own."""

from __future__ import annotations

from covey_engine.prefill.models.decoder import Decoder
from covey_engine.prefill.models.weights import TensorReader


def load(reader: TensorReader) -> Decoder:
    """The model on the reader's device. Raises ModelError."""
    return Decoder(reader)
