"""The batches of a draft go in, a flight comes out: the chunk, with all that is needed to make sense of its logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from covey_engine.prefill.api import Figures
from covey_engine.prefill.batches import Batch
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.groups import Ints
from covey_engine.prefill.jobs import Job
from covey_engine.prefill.kinds import Kind
from covey_engine.prefill.outline import Outline, outline
from covey_engine.prefill.packing import assemble, root_blocks, rows_of, token_ids
from covey_engine.prefill.replay import replay
from covey_engine.prefill.retain import Retention
from covey_engine.prefill.tree import Tree


@dataclass(eq=False)
class Flight:
    """A chunk that was given out and not settled.

    batches: its items; they hold nodes where they may go on. answers: for each batch, the rows of the logits that
    answer its items. costs: what it adds to each job's figures. tokens: the answer tokens it is read by.
    """

    chunk: Chunk
    batches: list[Batch]
    answers: list[Ints]
    costs: dict[Job, Figures]
    tokens: tuple[int, ...]


def launch(batches: Sequence[Batch], tree: Tree, tokens: tuple[int, ...]) -> Flight:
    """Pack items into a chunk. From here on what nobody else wants is free, and items that may go on hold nodes."""
    plan = outline(batches, tree)
    withdrawn = withdraw(batches)
    kept = Retention(plan, tree)
    chunk = assemble(rows_of(plan, kept.address), token_ids(plan), root_blocks(plan), tree)
    chunk, rows = replay(chunk, plan, tree)
    answers, index = _distinct(rows)
    costs = _costs(plan, kept)
    flight = Flight(replace(chunk, answers=answers.astype(np.int32)), [], [], costs, tokens)
    let_go = [plan.start]
    for strip in plan.strips:
        batch = strip.batch
        path = batch.job.paths[batch.ask]
        before, batch.held = batch.held, None
        if path.after:
            batch.held = kept.deepest(strip, path.hold)
            tree.hold(batch.held, waiting=True)
            _remember(batch, kept.ends(strip, path.hold), tree)
        if before is not None:
            tree.release(before, waiting=False)
            let_go.append(before)
        flight.batches.append(batch)
        flight.answers.append(index[strip.where])
    tree.prune(np.concatenate(let_go))
    tree.sweep(withdrawn)
    return flight


def withdraw(batches: Sequence[Batch]) -> set[Kind]:
    """Withdraw the items' claims on what no later ask of theirs needs; kinds of which nodes may be free now."""
    found: set[Kind] = set()
    for batch in batches:
        for claim in batch.job.claims:
            if claim.before[batch.ask] and not claim.after[batch.ask] and claim.drop(batch.rows):
                found.update(claim.kinds)
    return found


def restore(batches: Sequence[Batch]) -> None:
    """Undo `withdraw`."""
    for batch in batches:
        for claim in batch.job.claims:
            if claim.before[batch.ask] and not claim.after[batch.ask]:
                claim.restore(batch.rows)


def _remember(batch: Batch, ends: Ints, tree: Tree) -> None:
    """Note how far prompts were computed whose nodes found no place in the arena."""
    assert batch.held is not None
    dropped = tree.end[batch.held] < ends
    if dropped.any():
        before = np.zeros(len(ends), np.int64) if batch.lost is None else batch.lost
        batch.lost = np.where(dropped, np.maximum(before, ends), before)


def _distinct(rows: Ints) -> tuple[Ints, Ints]:
    """Ascending rows to read, and for each prompt the index of its own."""
    rises = np.diff(rows)
    if (rises > 0).all():
        return rows, np.arange(len(rows))
    if (rises >= 0).all():
        first = np.concatenate([[True], rises > 0])
        return rows[first], np.cumsum(first) - 1
    distinct, index = np.unique(rows, return_inverse=True)
    return distinct, index


def _costs(plan: Outline, kept: Retention) -> dict[Job, Figures]:
    """What each job pays for: the nodes that its items were the first to ask for."""
    jobs = list(dict.fromkeys(strip.batch.job for strip in plan.strips))
    of_strip = np.array([jobs.index(strip.batch.job) for strip in plan.strips])
    of_prompt = of_strip[plan.strip_of]
    payer = of_prompt[plan.item]
    if len(jobs) > 1 and plan.place is not None and len(payer):
        of_place = np.empty(len(of_prompt), np.int64)
        of_place[plan.place] = of_prompt
        payer = of_place[plan.over(np.minimum, plan.place)]
    again = np.flatnonzero(plan.row < 0)
    if len(again):
        # Of prompts that end at one node, one is computed once more.
        again = again[np.unique(plan.start[again], return_index=True)[1]]

    def by_job(owners: Ints, weights: Ints | None = None) -> list[int]:
        totals: list[int] = np.bincount(owners, weights, len(jobs)).astype(np.int64).tolist()
        return totals

    pairs = plan.length * plan.position + plan.length * (plan.length + 1) // 2
    once, span = by_job(of_prompt[again]), by_job(of_prompt[again], plan.tokens[again])
    columns = zip(
        jobs,
        by_job(of_prompt),
        by_job(of_prompt, plan.tokens),
        by_job(payer, plan.length),
        by_job(payer, kept.again),
        by_job(payer, pairs),
        once,
        span,
        strict=True,
    )
    return {
        job: Figures(prompts, tokens, fresh + one, recomputed + one, attention + keys)
        for job, prompts, tokens, fresh, recomputed, attention, one, keys in columns
    }
