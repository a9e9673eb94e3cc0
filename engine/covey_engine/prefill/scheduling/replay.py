"""Prompts that are in the arena to their last token go in; the chunk with one row more for each comes out.

The KV of such a prompt is there, its logits are not: the last token is computed once more.
"""

from __future__ import annotations

import numpy as np

from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.scheduling.groups import Ints
from covey_engine.prefill.scheduling.outline import Outline
from covey_engine.prefill.scheduling.sides import HOLLOW
from covey_engine.prefill.scheduling.strips import Strip
from covey_engine.prefill.scheduling.tree import Tree


def replay(chunk: Chunk, outline: Outline, tree: Tree) -> tuple[Chunk, Ints]:
    """Add a row for each prompt that has none, one for prompts of the same node; all prompts' answer rows."""
    if not outline.missing:
        return chunk, outline.row
    missing = (outline.row < 0).nonzero()[0]
    nodes, first, which = np.unique(outline.start[missing], return_index=True, return_inverse=True)
    size = len(chunk)
    rows = size + np.arange(len(nodes))
    tokens = [_last_token(outline, int(prompt)) for prompt in missing[first]]
    contexts = [(size + n, 1, *span) for n, node in enumerate(nodes.tolist()) for span in _spans(tree, node)]
    answer_rows = outline.row.copy()
    answer_rows[missing] = rows[which]
    one = np.ones(len(nodes), np.int64)
    return Chunk(
        tokens=np.concatenate([chunk.tokens, np.array(tokens, np.int32)]),
        positions=np.concatenate([chunk.positions, (tree.end[nodes] - 1).astype(np.int32)]),
        kv_address=np.concatenate([chunk.kv_address, rows]),
        segments=np.concatenate([chunk.segments, np.stack([rows, one, rows], 1)]),
        contexts=np.concatenate([chunk.contexts, np.array(contexts, np.int64).reshape(-1, 4)]),
        answers=chunk.answers,
    ), answer_rows


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
