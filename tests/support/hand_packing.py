"""Prompt trees written by hand go in, chunks come out, packed without the scheduler as plainly as can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from covey_engine.prefill.chunk import Chunk


@dataclass(frozen=True, eq=False)
class Segment:
    """Tokens under a parent; address: where their KV is."""

    tokens: tuple[int, ...]
    parent: Segment | None
    address: int
    answers: tuple[int, ...]

    @property
    def chain(self) -> tuple[Segment, ...]:
        """The ancestors, root first."""
        return () if self.parent is None else (*self.parent.chain, self.parent)

    @property
    def start(self) -> int:
        """Position of the first token in the prompt."""
        return sum(len(ancestor.tokens) for ancestor in self.chain)

    def prompt(self, answer: int) -> tuple[int, ...]:
        """The whole prompt up to the segment's token of that index."""
        before = tuple(token for ancestor in self.chain for token in ancestor.tokens)
        return before + self.tokens[: answer + 1]


class HandPacker:
    """Places segments one after another, with gaps between them; packs those added since the last chunk."""

    def __init__(self, gap: int = 1) -> None:
        self._gap = gap
        self._next = gap
        self._fresh: list[Segment] = []

    def add(
        self,
        tokens: Sequence[int],
        parent: Segment | None = None,
        answers: Sequence[int] = (),
        after: bool = False,
    ) -> Segment:
        """A segment; answers: which of its tokens are read; after: without a gap behind the last segment."""
        if after:
            self._next -= self._gap
        kept = tuple(int(token) for token in tokens)
        read = tuple(answer % len(kept) for answer in answers)
        segment = Segment(kept, parent, self._next, read)
        self._next += len(kept) + self._gap
        self._fresh.append(segment)
        return segment

    def chunk(self) -> tuple[Chunk, list[tuple[int, ...]]]:
        """The chunk of the segments added since the last one, and the prompt of each of its answers."""
        segments, self._fresh = self._fresh, []
        lengths = [len(segment.tokens) for segment in segments]
        rows = np.concatenate([[0], np.cumsum(lengths)])
        contexts = [
            (rows[i], lengths[i], ancestor.address, len(ancestor.tokens))
            for i, segment in enumerate(segments)
            for ancestor in segment.chain
        ]
        chunk = Chunk(
            tokens=np.array([token for segment in segments for token in segment.tokens], np.int32),
            positions=np.concatenate([s.start + np.arange(len(s.tokens)) for s in segments]).astype(np.int32),
            kv_address=np.concatenate([s.address + np.arange(len(s.tokens)) for s in segments]).astype(
                np.int64
            ),
            segments=np.array(
                [(rows[i], lengths[i], s.address) for i, s in enumerate(segments)], np.int64
            ).reshape(-1, 3),
            contexts=np.array(contexts, np.int64).reshape(-1, 4),
            answers=np.array([rows[i] + a for i, s in enumerate(segments) for a in s.answers], np.int32),
        )
        return chunk, [segment.prompt(answer) for segment in segments for answer in segment.answers]
