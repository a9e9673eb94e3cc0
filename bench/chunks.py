"""Sizes of a workload go in, chunks like those of its steady state come out; schedules nothing.

The first `budget` arena addresses are scratch; what outlives a chunk lies behind them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from covey_engine.prefill.chunk import Chunk
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass
class ChunkBuilder:
    """Collects segments in row order. address: -1 places a segment's KV at its row, in scratch."""

    rng: np.random.Generator
    vocabulary: int
    rows: int = 0
    segments: list[tuple[int, int, int]] = field(default_factory=list)
    positions: list[Ints] = field(default_factory=list)
    addresses: list[Ints] = field(default_factory=list)
    contexts: list[tuple[int, int, int, int]] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)

    def add(self, length: int, position: int, address: int = -1, answer: bool = False) -> None:
        """One segment; answer: its last token is read."""
        first = self.rows if address < 0 else address
        self.segments.append((self.rows, length, first))
        self.positions.append(np.arange(position, position + length))
        self.addresses.append(np.arange(first, first + length))
        self.rows += length
        if answer:
            self.answers.append(self.rows - 1)

    def build(self) -> Chunk:
        """The chunk."""
        return Chunk(
            tokens=self.rng.integers(0, self.vocabulary, self.rows).astype(np.int32),
            positions=np.concatenate(self.positions).astype(np.int32),
            kv_address=np.concatenate(self.addresses),
            segments=np.array(self.segments, np.int64).reshape(-1, 3),
            contexts=np.array(self.contexts, np.int64).reshape(-1, 4),
            answers=np.array(self.answers, np.int32),
            scratch=self.rows,
        )


def filter_chunk(budget: int, vocabulary: int, head: int = 0, question: int = 12, seed: int = 0) -> Chunk:
    """Documents of about 300 tokens, each with its question; `head` tokens before each are resident."""
    builder = ChunkBuilder(np.random.default_rng(seed), vocabulary)
    while True:
        document = int(builder.rng.lognormal(5.6, 0.45))
        if builder.rows + document + question > budget:
            break
        builder.add(document, head)
        builder.add(question, head + document, answer=True)
        first = builder.rows - question
        builder.contexts.append((first, question, first - document, document))
    if head:
        builder.contexts.append((0, builder.rows, budget, head))
    return builder.build()


def anchor_chunk(budget: int, vocabulary: int, length: int, address: int) -> Chunk:
    """One anchor that stays resident."""
    builder = ChunkBuilder(np.random.default_rng(1), vocabulary)
    builder.add(min(length, budget), 0, address)
    return builder.build()


def join_chunk(budget: int, vocabulary: int, anchor: int, partner: float, group: int, seed: int = 0) -> Chunk:
    """Suffixes of about `partner` tokens, `group` of them under each resident anchor."""
    builder = ChunkBuilder(np.random.default_rng(seed), vocabulary)
    index = 0
    while builder.rows < budget:
        first = builder.rows
        for _ in range(group):
            length = max(2, int(builder.rng.normal(partner, 1.2)))
            if builder.rows + length > budget:
                break
            builder.add(length, anchor, answer=True)
        if builder.rows == first:
            break
        builder.contexts.append((first, builder.rows - first, budget + index * anchor, anchor))
        index += 1
    return builder.build()
