"""Prompts that are in the arena to their last token go in; the chunk with one row more for each comes out.

The KV of such a prompt is there, its logits are not: the last token is computed once more.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.scheduling.groups import Ints
from covey_engine.prefill.scheduling.outline import Outline
from covey_engine.prefill.scheduling.sides import HOLLOW
from covey_engine.prefill.scheduling.strips import Strip
from covey_engine.prefill.scheduling.tree import Tree


def replay(outline: Outline) -> tuple[Ints, Ints]:
    """The prompts that need a row more, one for all of one node, in its order; all prompts' answer rows with those."""
    if not outline.missing:
        return outline.row[:0], outline.row
    missing = (outline.row < 0).nonzero()[0]
    _, first, which = np.unique(outline.start[missing], return_index=True, return_inverse=True)
    answer_rows = outline.row.copy()
    answer_rows[missing] = outline.size + which
    return missing[first], answer_rows


def with_rows(chunk: Chunk, prompts: Ints, outline: Outline, tree: Tree) -> Chunk:
    """The chunk with a row more for each of the prompts that `replay` found."""
    if not len(prompts):
        return chunk
    nodes, size = outline.start[prompts], len(chunk)
    rows = size + np.arange(len(nodes))
    tokens = [_last_token(outline, prompt) for prompt in prompts.tolist()]
    contexts = [(size + n, 1, *span) for n, node in enumerate(nodes.tolist()) for span in _spans(tree, node)]
    one = np.ones(len(nodes), np.int64)
    return replace(
        chunk,
        tokens=np.concatenate([chunk.tokens, np.array(tokens, np.int32)]),
        positions=np.concatenate([chunk.positions, (tree.end[nodes] - 1).astype(np.int32)]),
        kv_address=np.concatenate([chunk.kv_address, rows]),
        segments=np.concatenate([chunk.segments, np.stack([rows, one, rows], 1)]),
        contexts=np.concatenate([chunk.contexts, np.array(contexts, np.int64).reshape(-1, 4)]),
    )


def _spans(tree: Tree, node: int) -> list[tuple[int, int]]:
    """The ranges of a prompt without its last token, outermost first."""
    spans = []
    keys = int(tree.length[node]) - 1
    while node:
        if keys:
            spans.append((int(tree.address[node]), keys))
        node = int(tree.parent[node])
        keys = int(tree.length[node])
    return spans[::-1]


def _last_token(outline: Outline, prompt: int) -> int:
    strip: Strip = outline.strips[int(outline.strip_of[prompt])]
    index = prompt - strip.begin
    batch = strip.batch
    for step in reversed(batch.job.paths[batch.ask].steps):
        if step.kind.tokens is not None:
            return int(step.kind.tokens[-1])
        rows = batch.rows if step.ours else batch.partners
        assert step.side is not None
        assert step.kind.column is not None
        assert rows is not None
        slot = int(step.side.slots[rows[index]])
        if slot != HOLLOW:
            return int(step.kind.column.tokens(slot)[-1])
    raise AssertionError("a prompt without tokens")
