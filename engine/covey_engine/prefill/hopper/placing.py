"""Addresses of packed rows go in, where each row's keys and values are written comes out; writes nothing itself.

A packed row that the chunk computes is written where it is read, beside its arena row or, where nobody reads
that, instead of it. What is left to copy are rows of earlier chunks, such as heads, and rows packed twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.hopper.pairs import Ints, covered_rows


@dataclass(frozen=True, eq=False)
class Placement:
    """How packed rows come about.

    packed: their number; placed: int32 [rows], the packed row that a chunk's row is written to, -1 for none;
    stored: int32 [rows], 1 for the rows that are written to the arena; copied: int32 [2, n], arena addresses, and
    the packed rows that they are copied to after that.
    """

    packed: int
    placed: NDArray[np.int32]
    stored: NDArray[np.int32]
    copied: NDArray[np.int32]


def place_rows(chunk: Chunk, source: NDArray[np.int32], read: Ints) -> Placement:
    """Place packed rows that hold the addresses `source`. read: pairs that read the arena.

    A row goes to its first packed row. It goes to the arena too unless it is in scratch, packed once and not read
    there.
    """
    rows = _rows_at(chunk.kv_address, source)
    fresh = (rows >= 0).nonzero()[0]
    placed = np.full(len(chunk), -1, np.int32)
    placed[rows[fresh[::-1]]] = fresh[::-1]
    copied = np.ones(len(source), np.bool_)
    copied[placed[placed >= 0]] = False
    stored = placed < 0
    stored[rows[copied & (rows >= 0)]] = True
    in_scratch = chunk.kv_address < chunk.scratch
    stored |= ~in_scratch
    stored[in_scratch] |= _read_keys(read, chunk.scratch)[chunk.kv_address[in_scratch]]
    targets = copied.nonzero()[0].astype(np.int32)
    return Placement(len(source), placed, stored.astype(np.int32), np.stack([source[targets], targets]))


def _rows_at(address: Ints, wanted: NDArray[np.int32]) -> Ints:
    """The row with each address wanted, -1 for none; looked up by runs, of which there are few."""
    begins = np.concatenate([[0], (np.diff(address) != 1).nonzero()[0] + 1])
    ends = np.append(begins[1:], len(address))
    order = np.argsort(address[begins], kind="stable")
    begins, lengths = begins[order], (ends - begins)[order]
    run = np.searchsorted(address[begins], wanted, "right") - 1
    within = wanted - address[begins[run]]
    found: Ints = np.where((run >= 0) & (within < lengths[run]), begins[run] + within, -1)
    return found


def _read_keys(pairs: Ints, limit: int) -> NDArray[np.bool_]:
    """Which addresses below a limit any pair reads."""
    begins = np.minimum(pairs[:, 2], limit)
    ends = np.minimum(pairs[:, 2] + pairs[:, 3], limit)
    return covered_rows(np.column_stack([begins, ends - begins]), limit)
