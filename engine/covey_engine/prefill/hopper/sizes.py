"""Row counts go in, the padded ones that kernels are compiled for come out; and the compiling, before the first query.

Also the size of a chunk, by the device.

DeepGEMM compiles a kernel for each tiling, and chooses the tiling by the number of rows: seconds each, the first time.
Above 2,048 rows a padded size costs nothing, because tiles are that high anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.hopper.heads import HEAD_ROWS
from covey_engine.prefill.hopper.weights import Weights
from covey_engine.prefill.hopper.workspace import Workspace

SMALL = (64, 128, 256, 512, 1024, 2048)
STEP = 256

TILE = 128
"""Rows of a tile of the linear layers' products, whatever their columns."""

ROUNDS = 2
"""Tiles of a chunk's rows for each multiprocessor: from three on a token costs the same, and queries wait longer."""

_HEAD = 8
"""Keys of the head of the warming chunk with documents."""


def chunk_rows(multiprocessors: int) -> int:
    """Tokens of a chunk with which no product ends in a round of tiles that leaves multiprocessors without one."""
    return ROUNDS * multiprocessors * TILE


def padded_rows(rows: int) -> int:
    """The smallest size that holds `rows` rows."""
    return next((size for size in SMALL if rows <= size), -(-rows // STEP) * STEP)


def padded_sizes(most: int) -> list[int]:
    """All sizes up to the one that holds `most` rows."""
    top = padded_rows(most)
    return [size for size in (*SMALL, *range(SMALL[-1] + STEP, top + 1, STEP)) if size <= top]


def compile_linears(weights: Weights, workspace: Workspace, most: int) -> None:
    """Run every shape of linear layer once at every padded size."""
    shape, layer = weights.shape, weights.layers[-1]
    query, kv = shape.query_width, 2 * shape.kv_width
    with torch.inference_mode():
        for rows in padded_sizes(most):
            x = workspace.activation(rows, shape.hidden)
            layer.qkv(x, workspace.qkv(rows, query + kv))
            layer.qkv.rows(0, query)(x, workspace.qkv(rows, query))
            layer.qkv.rows(query, query + kv)(x, workspace.qkv(rows, kv))
            layer.gate_up(x, workspace.gate_up(rows))
            layer.output(workspace.activation(rows, query), workspace.update(rows))
            layer.down(workspace.activation(rows, shape.intermediate), workspace.update(rows))


def first_chunks(most: int) -> Iterator[Chunk]:
    """Chunks at the arena's beginning that bring every kind of call.

    Alone, with a context, many short segments, and where there is room two long ones below a head.
    """
    anchor = min(256, most // 2)
    yield _suffixes(1, anchor, 0)
    for count in (1, max(1, min(96, (most - anchor - 1) // 3))):
        yield _suffixes(count, 3, anchor)
    if most > HEAD_ROWS + _HEAD:
        yield _suffixes(2, HEAD_ROWS // 2, _HEAD)


def small_chunks(sizes: Sequence[int], most: int) -> Iterator[Chunk]:
    """A chunk of each size that fits into `most` rows, under a head: the shape of most queries over few rows."""
    for rows in sizes:
        if rows + _HEAD < most:
            yield _suffixes(max(1, rows // 16), 16, _HEAD)


def _suffixes(count: int, length: int, keys: int) -> Chunk:
    rows = count * length
    row = np.arange(rows)
    starts = np.arange(count, dtype=np.int64) * length
    # One address is left out, so that the context is not absorbed.
    segments = np.column_stack([starts, np.full(count, length), keys + 1 + starts])
    contexts = np.array([(0, rows, 0, keys)] if keys else [], np.int64).reshape(-1, 4)
    return Chunk(
        tokens=np.zeros(rows, np.int32),
        positions=(keys + row % length).astype(np.int32),
        kv_address=(keys + 1 + row).astype(np.int64),
        segments=segments,
        contexts=contexts,
        answers=(starts + length - 1).astype(np.int32),
    )
