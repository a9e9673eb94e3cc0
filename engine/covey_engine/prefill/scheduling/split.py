"""One item whose prompt is longer than a chunk goes in; out comes a chunk with the next part of it.

Parts become nodes of the tree, so they stay until the item's last part, which is computed as any other prompt is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.api import Figures
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.readout import Head
from covey_engine.prefill.scheduling.batches import Batch
from covey_engine.prefill.scheduling.claims import Claim, find
from covey_engine.prefill.scheduling.flights import Flight
from covey_engine.prefill.scheduling.groups import Slots
from covey_engine.prefill.scheduling.packing import assemble
from covey_engine.prefill.scheduling.paths import Step
from covey_engine.prefill.scheduling.savings import note_end
from covey_engine.prefill.scheduling.sides import HOLLOW
from covey_engine.prefill.scheduling.tree import Tree


def remaining(item: Batch, tree: Tree) -> int:
    """Tokens of the item's prompt that are not in the arena."""
    assert item.held is not None
    path = item.job.paths[item.ask]
    length = path.start.total(item.rows, None) + path.rest.total(item.rows, item.partners)
    return length - int(tree.end[item.held[0]])


def launch_part(item: Batch, tokens: int, tree: Tree, head: Head) -> Flight:
    """Compute the next `tokens` of the item's prompt, for which the arena has room; the item then holds them."""
    assert item.held is not None
    start = node = int(item.held[0])
    path, again, left = item.job.paths[item.ask], 0, tokens
    made: list[int] = []
    texts: list[NDArray[np.int32]] = []
    level, offset = int(tree.level[node]), int(tree.offset[node])
    while left:
        step, columns = path.steps[level], _columns(item, level)
        text = _tokens(item, step)
        count = min(left, len(text) - offset, tree.arena.largest)
        if count == 0:
            note_end(item, level, node, tree)
            level, offset = level + 1, 0
            continue
        claimants = _claimants(item, level, columns)
        known = _lost(item, claimants) - int(tree.end[node])
        again += min(max(known, 0), count)
        texts.append(text[offset : offset + count])
        whole = offset + count == len(text)
        node = _add(tree, node, count, level + whole, 0 if whole else offset + count)
        if level < path.fixed:
            one = np.array([node])
            tree.give_names(
                one, step.kind, np.array([-1 if step.side is None else _slot(item, step)]), columns
            )
            for claim, group in claimants:
                tree.promise(one, claim, np.array([group]))
        made.append(node)
        left -= count
        level, offset = (level + 1, 0) if whole else (level, offset + count)
    tree.hold(np.array([node]), waiting=False)
    tree.release(item.held, waiting=False)
    item.held = np.array([node])
    chunk = _chunk(np.array(made), np.concatenate(texts), start, tree)
    costs = Figures(fresh_tokens=tokens, recomputed_tokens=again, attention_pairs=chunk.attention_pairs)
    return Flight(chunk, [], [], {item.job: costs}, head)


def _chunk(nodes: NDArray[np.int64], tokens: NDArray[np.int32], start: int, tree: Tree) -> Chunk:
    lengths = tree.length[nodes]
    begin = np.cumsum(lengths) - lengths
    return assemble(
        tokens,
        tree,
        length=lengths,
        position=tree.end[nodes] - lengths,
        address=tree.address[nodes],
        parent=np.arange(len(nodes)) - 1,
        begin=begin,
        end=np.full(len(nodes), len(tokens)),
        start=np.full(len(nodes), start),
        answers=np.empty(0, np.int32),
    )


def _add(tree: Tree, parent: int, count: int, level: int, offset: int) -> int:
    length = np.array([count])
    (node,) = tree.add(
        np.array([-1]),
        np.array([parent]),
        tree.arena.allocate(length),
        length,
        tree.end[[parent]],
        np.array([0]),
        np.array([level]),
        np.array([True]),
        offset,
    ).tolist()
    return int(node)


def _tokens(item: Batch, step: Step) -> NDArray[np.int32]:
    if step.kind.tokens is not None:
        return step.kind.tokens
    assert step.kind.column is not None
    slot = _slot(item, step)
    return np.empty(0, np.int32) if slot == HOLLOW else step.kind.column.tokens(slot)


def _slot(item: Batch, step: Step) -> int:
    rows = item.rows if step.ours else item.partners
    assert rows is not None
    assert step.side is not None
    return int(step.side.slots[rows[0]])


def _columns(item: Batch, level: int) -> list[Slots]:
    steps = item.job.paths[item.ask].steps[: level + 1]
    return [np.array([_slot(item, step)], np.int32) for step in steps if step.side is not None]


def _claimants(item: Batch, level: int, columns: list[Slots]) -> list[tuple[Claim, int]]:
    """Who may want the item's prompt up to a level, with the group."""
    path = item.job.paths[item.ask]
    if level >= path.fixed:
        return []
    found = [(claim, int(find(claim, columns, 1)[0])) for claim in path.steps[level].kind.claims]
    return [(claim, group) for claim, group in found if group >= 0]


def _lost(item: Batch, claimants: list[tuple[Claim, int]]) -> int:
    """Up to which position the item's prompt was computed before."""
    lost = 0 if item.lost is None else int(item.lost[0])
    for claim, group in claimants:
        known = claim.recall(np.array([group]))
        lost = max(lost, 0 if known is None else int(known[0]))
    return lost
