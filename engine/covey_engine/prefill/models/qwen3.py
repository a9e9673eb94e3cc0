"""Qwen3 dense decoders from a reader of tensors: the shared pass, with a norm of every query and key head."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from covey_engine.prefill.models.blocks import pair_rows, rms_norm
from covey_engine.prefill.models.decoder import Decoder
from covey_engine.prefill.models.weights import TensorReader


@dataclass(frozen=True, eq=False)
class HeadNorms:
    """weight: [heads + kv_heads, head_dim], rotary pairs side by side, as the heads have them."""

    weight: Tensor
    epsilon: float

    def __call__(self, heads: Tensor, first: int) -> None:
        """Norm heads [T, n, head_dim] in place: the query heads and after them the key heads, from `first` on."""
        heads.copy_(rms_norm(heads, self.weight[first : first + heads.shape[1]], self.epsilon))


def load(reader: TensorReader) -> Decoder:
    """The model on the reader's device. Raises ModelError."""
    shape = reader.shape

    def read_norms(layer: str) -> HeadNorms:
        weights = [reader.read(f"{layer}.self_attn.{kind}_norm.weight", shape.head_dim) for kind in "qk"]
        counts = (shape.heads, shape.kv_heads)
        rows = [pair_rows(w, 1).expand(n, -1) for w, n in zip(weights, counts, strict=True)]
        return HeadNorms(torch.cat(rows), shape.norm_epsilon)

    return Decoder(reader, read_norms)
