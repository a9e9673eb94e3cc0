"""A flight and its logits go in, answers come out; the items go on with their next ask, or are done."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.api import DONE, Answers
from covey_engine.prefill.readout import MarginReader
from covey_engine.prefill.scheduling.batches import Batch
from covey_engine.prefill.scheduling.ending import drop, heed
from covey_engine.prefill.scheduling.flights import Flight
from covey_engine.prefill.scheduling.jobs import Job
from covey_engine.prefill.scheduling.kinds import Kind
from covey_engine.prefill.scheduling.tree import Tree

Margins = NDArray[np.float32]

NOT_FINITE = "the model's answer is not a finite number"


def land(
    flight: Flight, logits: NDArray[np.float32], reader: MarginReader, tree: Tree
) -> dict[Job, list[Answers]]:
    """Read a flight's answers and move its items on."""
    found: dict[Job, list[Answers]] = {job: [] for job in flight.costs}
    if not flight.batches:
        return found
    index = np.concatenate(flight.answers)
    readouts = [batch.job.asks[batch.ask].readout for batch in flight.batches]
    distinct = {readout: number for number, readout in enumerate(dict.fromkeys(readouts))}
    which = np.array([distinct[readout] for readout in readouts])
    which = which.repeat([len(batch) for batch in flight.batches])
    margins = reader.margins(logits.take(index, axis=0), tuple(distinct), which)
    let_go, withdrawn = [], set[Kind]()
    begin = 0
    for batch in flight.batches:
        theirs = margins[begin : begin + len(batch)]
        begin += len(batch)
        found[batch.job] += _answers(batch, theirs)
        withdrawn |= _move_on(batch, theirs, tree)
        if batch.held is not None:
            let_go.append(batch.held)
    for job in found:
        withdrawn |= drop(job, tree, let_go)
    if let_go:
        tree.prune(np.concatenate(let_go))
    tree.sweep(withdrawn)
    return found


def _answers(batch: Batch, margins: Margins) -> Iterable[Answers]:
    bad = np.isnan(margins)
    if not bad.any():
        yield Answers(batch.ask, batch.items, margins)
        return
    if not bad.all():
        yield Answers(batch.ask, batch.items[~bad], margins[~bad])
    yield Answers(batch.ask, batch.items[bad], margins[bad], NOT_FINITE)


def _move_on(batch: Batch, margins: Margins, tree: Tree) -> set[Kind]:
    """Queue the items' next asks; kinds of which nodes may be free now."""
    job, ask = batch.job, batch.job.asks[batch.ask]
    path = job.paths[batch.ask]
    job.skip(batch.ask, batch.rows, batch.partners)
    if not path.after and job.ending is None:
        job.unsettled -= len(batch)
        return set()
    following = np.where(margins > ask.readout.zero_point, ask.on_true, ask.on_false)
    following[np.isnan(margins)] = DONE
    if job.ending is not None:
        following = heed(batch, following)
    if not path.after:
        job.unsettled -= len(batch)
        return set()
    assert batch.held is not None
    withdrawn: set[Kind] = set()
    for target in np.unique(following).tolist():
        part = batch.part(following == target)
        assert part.held is not None
        tree.release(part.held, waiting=True)
        reachable = () if target < 0 else (target, *job.paths[target].after)
        for other in path.after:
            if other not in reachable:
                job.skip(other, part.rows, part.partners)
        for claim in job.claims:
            gone = target < 0 or not claim.before[target]
            if claim.after[batch.ask] and gone and claim.drop(part.rows) and claim in path.unheld:
                withdrawn.update(claim.kinds)
        if target < 0:
            job.unsettled -= len(part)
        else:
            _queue(part, path.common[target], target, tree)
    return withdrawn


def _queue(part: Batch, common: int, target: int, tree: Tree) -> None:
    """Put items into their job's queue, holding what their next ask shares with the one before."""
    job = part.job
    assert part.held is not None
    held = tree.climb(part.held, common)
    tree.hold(held, waiting=False)
    lost = part.lost
    if lost is not None:
        shared = job.prepared.measure(job.prepared.paths[target][:common])
        lost = np.minimum(lost, shared.lengths(part.rows, part.partners))
    job.ready.append(Batch(job, target, part.rows, part.partners, part.items, held, lost))
