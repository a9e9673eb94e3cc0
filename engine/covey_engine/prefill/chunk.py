"""A chunk: the packed batch of tokens that one forward pass computes; what the scheduler writes and a runner reads.

Addresses are token positions in the KV arena (one address space for all layers). A chunk's pieces stand in
depth-first order of the prefix tree. For every layer a runner (1) writes the keys and values of all chunk tokens to
`kv_address`, (2) lets every segment attend causally to itself, (3) lets every context's queries attend fully to its
range, and merges the partial results of a query by log-sum-exp. Steps (2) and (3) may read only addresses written
in this chunk's step (1) or by earlier chunks. Of scratch, the addresses that outlive no chunk, they may read only
what this chunk writes; a runner may keep that elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Chunk:
    """One forward pass, T tokens.

    tokens: int32 [T]; positions: int32 [T], position in the prompt (rotary phase); kv_address: int64 [T];
    segments: int64 [S, 3] of (first query row, length, first kv address): causal self-attention, together they cover
    all T rows once; contexts: int64 [C, 4] of (first query row, query rows, first kv address, keys): full
    attention to ancestors, the union of a row's contexts and its segment is exactly its prompt so far;
    answers: int32 [A], the rows whose next-token logits are read; scratch: addresses below it are scratch.
    """

    tokens: NDArray[np.int32]
    positions: NDArray[np.int32]
    kv_address: NDArray[np.int64]
    segments: NDArray[np.int64]
    contexts: NDArray[np.int64]
    answers: NDArray[np.int32]
    scratch: int = 0

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def attention_pairs(self) -> int:
        """Query-key pairs of the pass."""
        lengths = self.segments[:, 1]
        causal = int((lengths * (lengths + 1) // 2).sum())
        return causal + int((self.contexts[:, 1] * self.contexts[:, 3]).sum())
