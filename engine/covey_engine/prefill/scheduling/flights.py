"""The batches of a draft go in, a flight comes out: the chunk, with all that is needed to make sense of its logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from covey_engine.prefill.api import Figures
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.readout import Head
from covey_engine.prefill.scheduling.batches import Batch, together
from covey_engine.prefill.scheduling.borders import cross, find_borders, nodes_to_keep, top_up
from covey_engine.prefill.scheduling.compiled import Ints, TableOut, Tokens, kernel
from covey_engine.prefill.scheduling.jobs import Job
from covey_engine.prefill.scheduling.kinds import Kind
from covey_engine.prefill.scheduling.outline import Outline, outline
from covey_engine.prefill.scheduling.packing import pack
from covey_engine.prefill.scheduling.replay import replay, with_rows
from covey_engine.prefill.scheduling.retain import Retention
from covey_engine.prefill.scheduling.savings import add_savings
from covey_engine.prefill.scheduling.tree import Nodes, Tree

_NONE = np.empty(0, np.int64)


@dataclass(eq=False)
class Flight:
    """A chunk that was given out and not settled.

    batches: its items; they hold nodes where they may go on. answers: for each batch, the rows of the logits that
    answer its items. costs: what it adds to each job's figures. head: what its logits are of.
    """

    chunk: Chunk
    batches: list[Batch]
    answers: list[Ints]
    costs: dict[Job, Figures]
    head: Head


def launch(batches: Sequence[Batch], tree: Tree, head: Head) -> Flight:
    """Pack items into a chunk. From here on what nobody else wants is free, and items that may go on hold nodes."""
    batches = together(batches)
    borders = find_borders(batches, tree)
    plan = outline(batches, tree)
    withdrawn = _withdraw(batches)
    kept = Retention(plan, tree, nodes_to_keep(borders, plan))
    more, rows = replay(plan)
    answers, index = _distinct(rows, plan.size + len(more))
    chunk = with_rows(pack(plan, kept.address, tree, answers), more, plan, tree)
    costs = add_savings(_costs(plan, kept), plan, kept, tree)
    flight = Flight(chunk, [], [], costs, head)
    let_go = [
        plan.start,
        *(before for border in borders if (before := cross(border, plan, kept, tree)) is not None),
    ]
    for batch, strips in plan.batches:
        path = batch.job.paths[batch.ask]
        before, batch.held, batch.follows = batch.held, None, False
        if path.after:
            batch.held = np.concatenate([kept.deepest(strip, path.hold) for strip in strips])
            tree.hold(batch.held, waiting=True)
            _remember(batch, np.concatenate([kept.ends(strip, path.hold) for strip in strips]), tree)
        if before is not None:
            tree.release(before, waiting=False)
            let_go.append(before)
        flight.batches.append(batch)
        flight.answers.append(index[strips[0].begin : strips[0].begin + len(batch)])
    for job in costs:
        top_up(job, tree)
    tree.prune(np.concatenate(let_go) if len(let_go) > 1 else plan.start)
    tree.sweep(withdrawn)
    return flight


def _withdraw(batches: Sequence[Batch]) -> set[Kind]:
    """Withdraw the items' claims on what no later ask of theirs needs; kinds off their way whose nodes may be free."""
    found: set[Kind] = set()
    for batch in batches:
        strays = batch.job.paths[batch.ask].strays
        for claim in batch.job.claims:
            if (
                claim.before[batch.ask]
                and not claim.after[batch.ask]
                and claim.drop(batch.rows)
                and claim in strays
            ):
                found.update(claim.kinds)
    return found


def restore(batches: Sequence[Batch]) -> None:
    """Undo `_withdraw`."""
    for batch in batches:
        for claim in batch.job.claims:
            if claim.before[batch.ask] and not claim.after[batch.ask]:
                claim.restore(batch.rows)


def forget(flight: Flight, job: Job, tree: Tree) -> list[Nodes]:
    """Take a job's items off a flight, which computes them all the same; the nodes that they let go of."""
    flight.costs.pop(job, None)
    let_go = []
    keep = [batch.job is not job for batch in flight.batches]
    for batch, kept in zip(flight.batches, keep, strict=True):
        if not kept and batch.held is not None:
            tree.release(batch.held, waiting=True)
            let_go.append(batch.held)
    flight.answers = [rows for rows, kept in zip(flight.answers, keep, strict=True) if kept]
    flight.batches = [batch for batch, kept in zip(flight.batches, keep, strict=True) if kept]
    return let_go


def _remember(batch: Batch, ends: Ints, tree: Tree) -> None:
    """Note how far prompts were computed whose nodes found no place in the arena."""
    assert batch.held is not None
    dropped = tree.end[batch.held] < ends
    if dropped.any():
        before = np.zeros(len(ends), np.int64) if batch.lost is None else batch.lost
        batch.lost = np.where(dropped, np.maximum(before, ends), before)


def _costs(plan: Outline, kept: Retention) -> dict[Job, Figures]:
    """What each job pays for: the nodes that its items were the first to ask for."""
    once = _NONE
    if plan.missing:
        # Of prompts that end at one node, one is computed once more.
        once = (plan.row < 0).nonzero()[0]
        once = once[np.unique(plan.start[once], return_index=True)[1]]
    numbers: dict[Job, int] = {}
    payers = [numbers.setdefault(strip.batch.job, len(numbers)) for strip in plan.strips]
    table = np.zeros((len(numbers), 5), np.int64)
    _charge(
        table,
        np.array(payers),
        plan.strip_of,
        plan.tokens,
        plan.item,
        plan.length,
        plan.position,
        _NONE if kept.again is None else kept.again,
        once,
    )
    return {job: Figures(*figures) for job, figures in zip(numbers, table.tolist(), strict=True)}


@kernel
def _charge(
    table: TableOut,
    payers: Ints,
    strip_of: Ints,
    tokens: Ints,
    item: Ints,
    length: Ints,
    position: Ints,
    again: Ints,
    once: Ints,
) -> None:
    """Add up the integers of Figures [jobs, 5].

    payers: the job of each strip; once: prompts whose last token is computed once more.
    """
    # Runs of one payer are summed up before they are written.
    count = total = pairs = payer = 0
    for prompt in range(len(tokens)):
        if payers[strip_of[prompt]] != payer:
            table[payer, 0] += count
            table[payer, 1] += total
            payer, count, total = payers[strip_of[prompt]], 0, 0
        count += 1
        total += tokens[prompt]
    table[payer, 0] += count
    table[payer, 1] += total
    total = payer = 0
    for node in range(len(item)):
        if payers[strip_of[item[node]]] != payer:
            table[payer, 2] += total
            table[payer, 4] += pairs
            payer, total, pairs = payers[strip_of[item[node]]], 0, 0
        total += length[node]
        pairs += length[node] * (2 * position[node] + length[node] + 1) // 2
        if len(again):
            table[payer, 3] += again[node]
    table[payer, 2] += total
    table[payer, 4] += pairs
    for prompt in once:
        payer = payers[strip_of[prompt]]
        table[payer, 2] += 1
        table[payer, 3] += 1
        table[payer, 4] += tokens[prompt]


@kernel
def _distinct(rows: Ints, size: int) -> tuple[Tokens, Ints]:
    """Rows below `size`, ascending and each once, and for each prompt the index of its own."""
    distinct, of_prompt = np.empty(len(rows), np.int32), np.empty(len(rows), np.int64)
    ascend = True
    for prompt in range(len(rows)):
        ascend = ascend and (prompt == 0 or rows[prompt - 1] < rows[prompt])
        distinct[prompt], of_prompt[prompt] = rows[prompt], prompt
    if ascend:
        return distinct, of_prompt
    index, count = np.zeros(size, np.int64), 0
    for row in rows:
        index[row] = 1
    for row in range(size):
        if index[row]:
            distinct[count], index[row] = row, count
            count += 1
    for prompt in range(len(rows)):
        of_prompt[prompt] = index[rows[prompt]]
    return distinct[:count], of_prompt
