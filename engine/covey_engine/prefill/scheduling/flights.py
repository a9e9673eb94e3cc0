"""The batches of a draft go in, a flight comes out: the chunk, with all that is needed to make sense of its logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from covey_engine.prefill.api import Figures
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.scheduling.batches import Batch, together
from covey_engine.prefill.scheduling.groups import Ints
from covey_engine.prefill.scheduling.jobs import Job
from covey_engine.prefill.scheduling.kinds import Kind
from covey_engine.prefill.scheduling.outline import Outline, outline
from covey_engine.prefill.scheduling.packing import pack
from covey_engine.prefill.scheduling.replay import replay
from covey_engine.prefill.scheduling.retain import Retention
from covey_engine.prefill.scheduling.tree import Tree


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
    batches = together(batches)
    plan = outline(batches, tree)
    withdrawn = _withdraw(batches)
    kept = Retention(plan, tree)
    chunk, rows = replay(pack(plan, kept.address, tree), plan, tree)
    answers, index = _distinct(rows)
    flight = Flight(replace(chunk, answers=answers.astype(np.int32)), [], [], _costs(plan, kept), tokens)
    let_go = [plan.start]
    for strip in plan.strips:
        batch = strip.batch
        before, batch.held = batch.held, None
        if strip.path.after:
            batch.held = kept.deepest(strip, strip.path.hold)
            tree.hold(batch.held, waiting=True)
            _remember(batch, kept.ends(strip, strip.path.hold), tree)
        if before is not None:
            tree.release(before, waiting=False)
            let_go.append(before)
        flight.batches.append(batch)
        flight.answers.append(index[strip.where])
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
    """Undo `withdraw`."""
    for batch in batches:
        for claim in batch.job.claims:
            if claim.before[batch.ask] and not claim.after[batch.ask]:
                claim.restore(batch.rows)


def _remember(batch: Batch, ends: Ints | None, tree: Tree) -> None:
    """Note how far prompts were computed whose nodes found no place in the arena."""
    if ends is None:
        return
    assert batch.held is not None
    dropped = tree.end[batch.held] < ends
    if dropped.any():
        before = np.zeros(len(ends), np.int64) if batch.lost is None else batch.lost
        batch.lost = np.where(dropped, np.maximum(before, ends), before)


def _distinct(rows: Ints) -> tuple[Ints, Ints]:
    """Ascending rows to read, and for each prompt the index of its own."""
    before, after = rows[:-1], rows[1:]
    if (after > before).all():
        return rows, np.arange(len(rows))
    distinct, index = np.unique(rows, return_inverse=True)
    return distinct, index


def _costs(plan: Outline, kept: Retention) -> dict[Job, Figures]:
    """What each job pays for: the nodes that its items were the first to ask for."""
    once = (plan.row < 0).nonzero()[0] if plan.row.min() < 0 else np.empty(0, np.int64)
    if len(once):
        # Of prompts that end at one node, one is computed once more.
        once = once[np.unique(plan.start[once], return_index=True)[1]]
    jobs = list(dict.fromkeys(strip.batch.job for strip in plan.strips))
    pairs = plan.length * (2 * plan.position + plan.length + 1)
    if len(jobs) == 1:
        again = 0 if kept.again is None else int(kept.again.sum())
        return {
            jobs[0]: Figures(
                len(plan.start),
                int(plan.tokens.sum()),
                plan.size + len(once),
                again + len(once),
                int(pairs.sum()) // 2 + int(plan.tokens[once].sum()),
            )
        }
    of_strip = np.array([jobs.index(strip.batch.job) for strip in plan.strips])
    of_prompt = of_strip[plan.strip_of]
    payer = of_prompt[plan.item]

    def by_job(owners: Ints, weights: Ints | None) -> list[int]:
        totals: list[int] = np.bincount(owners, weights, len(jobs)).astype(np.int64).tolist()
        return totals

    nothing = [0] * len(jobs)
    columns = zip(
        jobs,
        by_job(of_prompt, None),
        by_job(of_prompt, plan.tokens),
        by_job(payer, plan.length),
        nothing if kept.again is None else by_job(payer, kept.again),
        by_job(payer, pairs),
        by_job(of_prompt[once], None) if len(once) else nothing,
        by_job(of_prompt[once], plan.tokens[once]) if len(once) else nothing,
        strict=True,
    )
    return {
        job: Figures(prompts, tokens, fresh + one, recomputed + one, attention // 2 + keys)
        for job, prompts, tokens, fresh, recomputed, attention, one, keys in columns
    }
