"""Batches that become a chunk go in; out come the pairs that begin as the last of these do, which go on from there.

Pairs of one row follow each other in the order of what depends on their partners, so that what two of them begin with
is computed once where one chunk has both. Where a chunk ends between them, the nodes which the last pair shares with
those behind it stay, and these hold them: they come next, as items that are ready. Pairs of orders that may end early
wait for answers instead; nothing is kept for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from covey_engine.prefill.scheduling.batches import Batch
from covey_engine.prefill.scheduling.compiled import Ints
from covey_engine.prefill.scheduling.jobs import Job
from covey_engine.prefill.scheduling.outline import Outline
from covey_engine.prefill.scheduling.paths import Path
from covey_engine.prefill.scheduling.retain import Retention
from covey_engine.prefill.scheduling.strips import Strip
from covey_engine.prefill.scheduling.tree import Nodes, Tree


@dataclass(frozen=True, eq=False)
class Border:
    """The last pair of a chunk, and those behind it that begin as it does beyond what depends on no partner.

    number: which of the chunk's batches has it; item: its number; following: the others, not taken from their job yet;
    steps: int64 [following], how many segments each begins with alike, the first of them the most.
    """

    number: int
    item: int
    following: Batch
    steps: Ints

    def place(self, plan: Outline) -> tuple[Strip, int]:
        """The strip with the last pair, and which of its items that is."""
        for strip in plan.batches[self.number][1]:
            found = (strip.batch.items == self.item).nonzero()[0]
            if len(found):
                return strip, int(found[0])
        raise AssertionError("the last pair is in no strip")


def find_borders(batches: Sequence[Batch], tree: Tree) -> list[Border]:
    """Where the jobs of a chunk go on with what its last pairs begin with."""
    best = dict[Job, Border]()
    for number, batch in enumerate(batches):
        if batch.partners is None:
            continue
        border = _border(number, batch, batch.partners, tree)
        known = best.get(batch.job)
        if border is not None and (known is None or known.steps[0] < border.steps[0]):
            best[batch.job] = border
    return list(best.values())


def nodes_to_keep(borders: Iterable[Border], plan: Outline) -> list[int]:
    """The nodes of a chunk that pairs behind it begin with: the deepest of each border."""
    found = []
    for border in borders:
        strip, index = border.place(plan)
        steps = int(border.steps[0])
        if steps > strip.first:
            found.append(int(plan.current[strip.begin + index, strip.cell_after(steps)]) - 1)
    return found


def cross(border: Border, plan: Outline, kept: Retention, tree: Tree) -> Nodes | None:
    """Take the pairs behind a border from where they wait; they are ready, and hold what is there of their prompts.

    The nodes that they let go of or did not take, None for none.
    """
    strip, index = border.place(plan)
    held, ends = np.empty((2, len(border.steps)), np.int64)
    for steps in np.unique(border.steps).tolist():
        alike = border.steps == steps
        node = int(kept.deepest(strip, steps)[index])
        held[alike], ends[alike] = node, max(int(kept.ends(strip, steps)[index]), int(tree.end[node]))
    return _go_on(border.following, held, ends, tree)


def follow(item: Batch, tree: Tree) -> None:
    """Let the pairs behind one item go on from the nodes that it holds, as far as they begin as it does."""
    assert item.held is not None
    border = None if item.partners is None else _border(0, item, item.partners, tree)
    if border is not None:
        held = _above(item.held, border.steps, tree)
        let_go = _go_on(border.following, held, tree.end[held], tree)
        if let_go is not None:
            tree.prune(let_go)


def _above(node: Nodes, steps: Ints, tree: Tree) -> Nodes:
    """For each number of steps, the deepest node at or above one that is not beyond them."""
    found = np.empty(len(steps), np.int64)
    for some in np.unique(steps).tolist():
        found[steps == some] = tree.climb(node, some)
    return found


def _go_on(following: Batch, held: Nodes, ends: Ints, tree: Tree) -> Nodes | None:
    """Make pairs that wait ready, with nodes to hold, of prompts that were computed up to `ends`; what they let go, and
    what they did not take, as they hold as much already.
    """
    job, before, source = following.job, following.held, _ready(following.job, following.ask)
    offered = held
    if source is None:
        job.take(len(following))
    else:
        rest, place = source.part(slice(len(following), None)), job.ready.index(source)
        del job.ready[place]
        if len(rest):
            job.ready.insert(place, rest)
    if before is not None:
        held = np.where(tree.end[held] > tree.end[before], held, before)
        tree.release(before, waiting=False)
    following.held, following.follows = held, True
    tree.hold(held, waiting=False)
    dropped = tree.end[held] < ends
    if dropped.any():
        lost = np.zeros(len(ends), np.int64) if following.lost is None else following.lost
        following.lost = np.where(dropped, np.maximum(lost, ends), lost)
    job.ready.appendleft(following)
    return None if before is None else np.concatenate([before, offered])


def top_up(job: Job, tree: Tree) -> None:
    """Let more pairs go on as those that are ready do, so that no chunk comes to the end of these and begins anew."""
    last = next((batch for batch in reversed(job.ready) if batch.follows and not batch.ask), None)
    if last is None or sum(map(len, job.ready)) >= tree.arena.first:
        return
    assert last.held is not None
    assert last.partners is not None
    row, partner = int(last.rows[-1]), int(last.partners[-1])
    following = _unopened(job, row, partner, tree)
    steps = None if following is None else _beginning(following, partner, tree)
    if following is not None and steps is not None:
        job.take(len(steps))
        more = following.part(slice(len(steps)))
        more.held = _above(last.held[-1:], steps, tree)
        more.follows = True
        tree.hold(more.held, waiting=False)
        job.ready.append(more)


def _border(number: int, batch: Batch, partners: Ints, tree: Tree) -> Border | None:
    row, partner = int(batch.rows[-1]), int(partners[-1])
    following = _behind(batch.job, batch.ask, row, partner, tree)
    steps = None if following is None else _beginning(following, partner, tree)
    if following is None or steps is None:
        return None
    return Border(number, int(batch.items[-1]), following.part(slice(len(steps))), steps)


def _behind(job: Job, ask: int, row: int, partner: int, tree: Tree) -> Batch | None:
    """Pairs of a row that an ask is put to next, as far as they are known; they stay where they are."""
    rest = _ready(job, ask)
    if rest is None:
        return None if ask else _unopened(job, row, partner, tree)
    if rest.partners is None or rest.rows[0] != row:
        return None
    rest = rest.part(slice(2 * tree.arena.first))
    other = (rest.rows != row).nonzero()[0]
    return rest.part(slice(int(other[0]))) if len(other) else rest.part(slice(None))


def _ready(job: Job, ask: int) -> Batch | None:
    """The items that an ask is put to next, of those that are ready."""
    return next((batch for batch in job.ready if batch.ask == ask), None)


def _unopened(job: Job, row: int, partner: int, tree: Tree) -> Batch | None:
    """The next pairs of a row that were not drawn yet, as many as two chunks may have at a token each.

    None where the first of them has nothing of its partner in common with another pair.
    """
    pairs, opened = job.prepared.pairs, job.opened
    if pairs is None or job.ending is not None or not opened.pairs or opened.rows[0] != row:
        return None
    path, first = job.paths[0], int(opened.next[0])
    if _parts_first(path, partner, int(pairs.partner(opened.next[:1])[0])):
        return None
    positions = np.arange(first, min(int(opened.end[0]), first + 2 * tree.arena.first))
    partners = pairs.partner(positions)
    return Batch(job, 0, np.full(len(positions), row), partners, pairs.item(positions, partners))


def _beginning(following: Batch, partner: int, tree: Tree) -> Ints | None:
    """How many steps the first of some pairs begin with as another pair of their row does: those to whom it helps.

    It ends before the first pair that begins so with no more than what depends on no partner, and what it holds; None
    where that is the first one.
    """
    path, others = following.job.paths[following.ask], following.partners
    assert others is not None
    if _parts_first(path, partner, int(others[0])):
        return None
    least = np.full(len(others), path.fixed)
    if following.held is not None:
        least = np.maximum(least, tree.level[following.held])
    if _alike(path, partner, others[:1])[0] <= least[0]:
        return None
    steps = _alike(path, partner, others)
    few = (steps <= least).nonzero()[0]
    return steps[: few[0]] if len(few) else steps


def _parts_first(path: Path, partner: int, other: int) -> bool:
    """Whether the prompts of two pairs of a row part as soon as they depend on the partner."""
    if path.fixed == len(path.steps):
        return True
    side = path.steps[path.fixed].side
    return side is not None and bool(side.slots[other] != side.slots[partner])


def _alike(path: Path, partner: int, others: Ints) -> Ints:
    """How many steps the prompts of some pairs begin with as another one of their row does."""
    steps = np.full(len(others), len(path.steps))
    for n in range(len(path.steps) - 1, path.fixed - 1, -1):
        side = path.steps[n].side
        if side is not None and not path.steps[n].ours:
            steps[side.slots[others] != side.slots[partner]] = n
    return steps
