"""Where rows are written: each packed row once, the arena only where somebody reads it, and rows see the right keys."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from covey_engine.prefill.api import WorkOrder
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.hopper.placing import place_rows
from support.bench import Bench, both, chain, join, scan
from support.hand_packing import HandPacker
from support.replayed_plans import (
    ascending,
    check,
    forests,
    in_scratch,
    pack_eagerly,
    planned_chunk,
)

HEAD, QUESTION, DOCUMENTS = 20, 12, (300, 250)
NO_PAIRS = np.zeros((0, 4), np.int64)


@pytest.mark.parametrize("room", [70, 10_000])
@pytest.mark.parametrize("part", [0.7, 1.0])
def test_rows_see_what_the_chunk_says_where_much_is_in_scratch(
    monkeypatch: pytest.MonkeyPatch, room: int, part: float
) -> None:
    pack_eagerly(monkeypatch)
    rng, placed, unstored = np.random.default_rng(room), 0, 0
    for chunks in forests(range(12)):
        for chunk in map(ascending, in_scratch(chunks, rng, part)):
            plan = planned_chunk(chunk, room)
            check(chunk, plan)
            placed += (plan.placement.placed >= 0).sum()
            unstored += (plan.placement.stored == 0).sum()
    assert placed > unstored > 0, "some rows go to both places, some to one"


ORDERS = {"filter": scan(60), "both": both(60), "and": chain(60), "join": join(9, 20)}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_what_the_scheduler_packs_is_written_where_it_is_read(
    monkeypatch: pytest.MonkeyPatch, order: WorkOrder
) -> None:
    pack_eagerly(monkeypatch)
    bench, unstored = Bench(), 0
    bench.submit(order)
    while bench.scheduler.running:
        chunk = bench.schedule()
        assert chunk.scratch == bench.chunk
        plan = planned_chunk(chunk)
        check(chunk, plan)
        unstored += (plan.placement.stored == 0).sum()
        bench.settle(chunk)
    assert unstored > 0


def filter_chunk(scratch: bool) -> Chunk:
    """Questions on two documents and on an earlier one, below a resident head; scratch: where what it computes is."""
    packer = HandPacker()
    head = packer.add(range(HEAD))
    before = packer.add(range(200), head)
    kept = [packer.chunk()[0]]
    for length in DOCUMENTS:
        packer.add(range(QUESTION), packer.add(range(length), head), (-1,))
    packer.add(range(QUESTION), before, (-1,))
    kept.append(packer.chunk()[0])
    return ascending(next(in_scratch(kept, np.random.default_rng(0), 1.0 if scratch else 0.0)))


def test_what_only_its_own_chunk_reads_is_written_where_it_is_read_alone() -> None:
    chunk = filter_chunk(scratch=True)
    plan = planned_chunk(chunk)
    assert not plan.placement.stored.any()
    assert (plan.placement.placed >= 0).all()
    resident = 3 * HEAD + 200
    assert plan.placement.copied.shape == (2, resident), "three heads and the earlier document"
    assert plan.placement.packed == resident + len(chunk)
    check(chunk, plan)


def test_what_outlives_the_chunk_is_written_to_both_places() -> None:
    chunk = filter_chunk(scratch=False)
    plan = planned_chunk(chunk)
    assert plan.placement.stored.all()
    assert (plan.placement.placed >= 0).all()
    assert plan.placement.copied.shape[1] == 3 * HEAD + 200
    check(chunk, plan)


def test_kept_documents_go_to_both_places_and_their_questions_to_one() -> None:
    chunk = filter_chunk(scratch=True)
    row, length, _ = chunk.segments[1]
    question = np.arange(row, row + length)
    kept = chunk.kv_address.copy()
    kept[:row] += 10_000
    segments, contexts = chunk.segments.copy(), chunk.contexts.copy()
    segments[0, 2] += 10_000
    contexts[contexts[:, 2] == 0, 2] += 10_000
    plan = planned_chunk(replace(chunk, kv_address=kept, segments=segments, contexts=contexts))
    assert plan.placement.stored.nonzero()[0].tolist() == list(range(row))
    assert (plan.placement.placed >= 0).all()
    assert not np.isin(question, plan.placement.stored.nonzero()[0]).any()


def test_without_packed_rows_all_go_to_the_arena() -> None:
    chunk = filter_chunk(scratch=True)
    placement = planned_chunk(chunk, room=0).placement
    assert (placement.packed, placement.copied.size) == (0, 0)
    assert placement.stored.all()
    assert (placement.placed == -1).all()


def test_scratch_that_others_read_too_is_written_to_both_places() -> None:
    chunk = replace(filter_chunk(scratch=True), answers=np.zeros(0, np.int32))
    source = np.array([9_000, 5, 6, 7, 8], np.int32)
    placement = place_rows(chunk, source, np.array([(0, 3, 6, 2), (0, 1, 3, 1)], np.int64))
    assert placement.placed[5:9].tolist() == [1, 2, 3, 4]
    assert placement.stored[:10].tolist() == [1, 1, 1, 1, 1, 0, 1, 1, 0, 1]
    assert placement.copied.tolist() == [[9_000], [0]]


def test_a_row_packed_twice_is_written_once_and_copied_from_the_arena() -> None:
    chunk = filter_chunk(scratch=True)
    placement = place_rows(chunk, np.array([4, 5, 5, 6], np.int32), NO_PAIRS)
    assert placement.placed[4:7].tolist() == [0, 1, 3]
    assert placement.stored[4:7].tolist() == [0, 1, 0]
    assert placement.copied.tolist() == [[5], [2]]


def test_rows_are_found_at_addresses_in_any_order() -> None:
    address = np.array([50, 51, 52, 7, 3, 4, 90], np.int64)
    rows = len(address)
    chunk = replace(
        filter_chunk(scratch=True), tokens=np.zeros(rows, np.int32), kv_address=address, scratch=0
    )
    placement = place_rows(chunk, np.array([2, 3, 4, 5, 49, 52, 53, 90, 91, 50], np.int32), NO_PAIRS)
    assert placement.placed.tolist() == [9, -1, 5, -1, 1, 2, 7]
    assert placement.copied.tolist() == [[2, 5, 49, 53, 91], [0, 3, 4, 6, 8]]
    assert placement.stored.all()
