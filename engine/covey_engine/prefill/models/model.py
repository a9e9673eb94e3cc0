"""The two contracts between a decoder and its runner; computes nothing."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from covey_engine.prefill.models.blocks import Vocabulary
from covey_engine.prefill.models.shape import ModelShape


class Attention(Protocol):
    """Attention over one chunk: which query sees which key, and where keys and values are kept.

    queries: [rows, heads, head_dim]; kv: [T, 2 * kv_heads, head_dim], the keys' heads first, as a layer
    computed them.
    """

    @property
    def answer_rows(self) -> Tensor:
        """int64 [A], ascending: the rows that the last layer is computed for."""
        ...

    def write(self, layer: int, kv: Tensor) -> None:
        """Keep the chunk's keys and values; non-finite rows of kv are zeroed in place and flagged."""
        ...

    def all_rows(self, layer: int, queries: Tensor, kv: Tensor) -> Tensor:
        """Attention of every row: [T, heads * head_dim]. Call after `write`."""
        ...

    def answers(self, layer: int, queries: Tensor, kv: Tensor) -> Tensor:
        """Attention of the answer rows: [A, heads * head_dim]. Call after `write`."""
        ...


class Model(Protocol):
    """A decoder on one device."""

    @property
    def shape(self) -> ModelShape:
        """Its sizes."""
        ...

    @property
    def vocabulary(self) -> Vocabulary:
        """Its embedding and head."""
        ...

    def forward(self, tokens: Tensor, positions: Tensor, attention: Attention) -> Tensor:
        """Hidden states [answers, hidden], after the final norm, of int64 tokens and positions [T]."""
        ...
