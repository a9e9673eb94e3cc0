"""A flight and its logits go in, answers come out; the items go on with their next ask, or are done."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.api import DONE, Answers, YesNo
from covey_engine.prefill.scheduling.batches import Batch
from covey_engine.prefill.scheduling.ending import drop, heed
from covey_engine.prefill.scheduling.flights import Flight
from covey_engine.prefill.scheduling.groups import Ints
from covey_engine.prefill.scheduling.jobs import Job
from covey_engine.prefill.scheduling.kinds import Kind
from covey_engine.prefill.scheduling.margins import MarginReader
from covey_engine.prefill.scheduling.tree import Tree

NOT_FINITE = "the model's answer is not a finite number"


def land(
    flight: Flight, logits: NDArray[np.float32], reader: MarginReader, tree: Tree
) -> dict[Job, list[Answers]]:
    """Read a flight's answers and move its items on."""
    found: dict[Job, list[Answers]] = {job: [] for job in flight.costs}
    if not flight.batches:
        return found
    let_go, withdrawn = [], set[Kind]()
    for batch, rows in zip(flight.batches, flight.answers, strict=True):
        job, readout = batch.job, batch.job.asks[batch.ask].readout
        if isinstance(readout, YesNo):
            margins, finite = reader.read(logits, readout, rows)
            number = job.prepared.ask + batch.ask
            if finite:
                found[job].append(Answers(number, batch.items, margins))
            else:
                found[job] += _answers(number, batch.items, margins)
            withdrawn |= _move_on(batch, readout, margins, tree)
            if batch.held is not None:
                let_go.append(batch.held)
        else:
            assert job.scores is not None
            found[job] += _answers(job.prepared.ask, *job.scores.take(batch.items, logits[rows], flight.head))
            _finish(batch)
    for job in found:
        withdrawn |= drop(job, tree, let_go)
    if let_go:
        tree.prune(np.concatenate(let_go))
    tree.sweep(withdrawn)
    return found


def _answers(ask: int, items: Ints, values: NDArray[np.float32]) -> list[Answers]:
    bad = np.isnan(values if values.ndim == 1 else values[:, 0])
    if not bad.any():
        return [Answers(ask, items, values)] if len(items) else []
    wrong = Answers(ask, items[bad], values[bad], NOT_FINITE)
    return [wrong] if bad.all() else [Answers(ask, items[~bad], values[~bad]), wrong]


def _finish(batch: Batch) -> None:
    """The last ask of these items was answered."""
    batch.job.skip(batch.ask, batch.rows, batch.partners)
    batch.job.unsettled -= len(batch)


def _move_on(batch: Batch, readout: YesNo, margins: NDArray[np.float32], tree: Tree) -> set[Kind]:
    """Queue the items' next asks; kinds of which nodes may be free now."""
    job, ask = batch.job, batch.job.asks[batch.ask]
    path = job.paths[batch.ask]
    if not path.after and job.ending is None:
        _finish(batch)
        return set()
    job.skip(batch.ask, batch.rows, batch.partners)
    following = np.where(margins > readout.zero_point, ask.on_true, ask.on_false)
    following[np.isnan(margins)] = DONE
    if job.ending is not None:
        following = heed(batch, following)
    if not path.after:
        job.unsettled -= len(batch)
        return set()
    assert batch.held is not None
    withdrawn: set[Kind] = set()
    for target in sorted({ask.on_true, ask.on_false, DONE}):
        part = batch.part(following == target)
        if len(part) == 0:
            continue
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
