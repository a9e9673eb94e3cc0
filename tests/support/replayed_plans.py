"""A planned chunk goes in, what each of its rows sees comes out: writes, copies and reads are played on paper.

The memory holds, instead of keys, the addresses whose keys they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.hopper import heads
from covey_engine.prefill.hopper import plan as plan_module
from covey_engine.prefill.hopper.pairs import covered_rows
from covey_engine.prefill.hopper.placing import Placement
from covey_engine.prefill.hopper.plan import AttentionPlan, Call, ChunkPlan, Keys, TailCall, plan_chunk
from numpy.typing import NDArray
from support import small_models

WIDTH = 3
REACH = 32
STALE = -1
SHAPES = (small_models.fan_out, small_models.split_document, small_models.deep_paths)


def pack_eagerly(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on, copy and shorten whatever can be."""
    monkeypatch.setattr(heads, "HEAD_ROWS", 1)
    monkeypatch.setattr(heads, "WORTH", 1000)
    monkeypatch.setattr(plan_module, "MANY", 1)
    monkeypatch.setattr(plan_module, "SHORT", 4)


def forests(seeds: range) -> Iterator[list[Chunk]]:
    for shape in SHAPES:
        yield [chunk for chunk, _ in shape(np.random.default_rng(0))]
    for seed in seeds:
        yield [chunk for chunk, _ in small_models.random_forest(np.random.default_rng(seed))]


def in_scratch(chunks: Sequence[Chunk], rng: np.random.Generator, part: float = 0.8) -> Iterator[Chunk]:
    """The chunks, last first, with a part of the segments that no later one reads in scratch; the others behind it."""
    scratch = max(map(len, chunks))
    read: set[int] = set()
    for chunk in reversed(chunks):
        moved = {
            address: row
            for row, _, address in chunk.segments.tolist()
            if address not in read and rng.random() < part
        }
        read.update(chunk.contexts[:, 2].tolist())
        segments, contexts = chunk.segments.copy(), chunk.contexts.copy()
        for column in (segments[:, 2], contexts[:, 2]):
            column[:] = [moved.get(address, address + scratch) for address in column.tolist()]
        address = np.concatenate([np.arange(first, first + n) for _, n, first in segments.tolist()])
        yield replace(chunk, kv_address=address, segments=segments, contexts=contexts, scratch=scratch)


def ascending(chunk: Chunk) -> Chunk:
    return replace(chunk, answers=np.sort(chunk.answers))


def said(chunk: Chunk) -> list[Counter[int]]:
    """The addresses each row sees, as the chunk says it."""
    seen: list[Counter[int]] = [Counter() for _ in range(len(chunk))]
    for first, length, address in chunk.segments.tolist():
        for row in range(length):
            seen[first + row].update(range(address, address + row + 1))
    for first, rows, address, keys in chunk.contexts.tolist():
        for row in range(first, first + rows):
            seen[row].update(range(address, address + keys))
    return seen


@dataclass(frozen=True)
class Memory:
    """The address whose keys each row of the arena and of the packed tensors holds after writing and copying."""

    arena: NDArray[np.int64]
    packed: NDArray[np.int64]


def written(chunk: Chunk, placement: Placement) -> Memory:
    """What reads find; STALE stands in scratch, in unwritten packed rows, and where the chunk should have written."""
    every = np.concatenate([chunk.kv_address + 1, chunk.contexts[:, 2:].sum(axis=1), [chunk.scratch]])
    arena, packed = np.arange(every.max()), np.full(placement.packed, STALE)
    arena[: chunk.scratch] = STALE
    arena[chunk.kv_address] = STALE
    stored, placed = placement.stored == 1, placement.placed >= 0
    assert (stored | placed).all(), "a row that is written nowhere"
    assert (stored | (chunk.kv_address < chunk.scratch)).all(), (
        "a row that outlives the chunk is not in the arena"
    )
    arena[chunk.kv_address[stored]] = chunk.kv_address[stored]
    packed[placement.placed[placed]] = chunk.kv_address[placed]
    source, target = placement.copied
    assert (packed[target] == STALE).all(), "a packed row is written and copied to"
    packed[target] = arena[source]
    assert placed.sum() + len(target) == placement.packed
    assert (packed != STALE).all()
    return Memory(arena, packed)


def planned(
    plan: AttentionPlan, whole: ChunkPlan, chunk: Chunk, rows: NDArray[np.integer]
) -> list[Counter[int]]:
    """The addresses whose keys each row sees, as the calls say it; all coverages must agree with them."""
    seen: list[Counter[int]] = [Counter() for _ in rows]
    memory = written(chunk, whole.placement)
    touched = np.zeros((len(plan.calls), len(rows)), np.bool_)
    for index, call in enumerate(plan.calls):
        if isinstance(call, TailCall):
            for number, addresses in tail_rows(call, whole, chunk, memory):
                assert not touched[index, number], "a row twice in one call"
                touched[index, number] = True
                seen[number].update(addresses)
            continue
        for number, keys in queries(call):
            assert not touched[index, number], "a row twice in one call"
            touched[index, number] = True
            match call.keys:
                case Keys.ARENA:
                    seen[number].update(memory.arena[keys.start : keys.stop].tolist())
                case Keys.PACKED:
                    seen[number].update(memory.packed[keys.start : keys.stop].tolist())
                case Keys.OWN_ROWS:
                    first, row = whole.alone[rows[number]], rows[number]
                    assert 0 <= row - first <= REACH
                    seen[number].update(memory.arena[chunk.kv_address[first : row + 1]].tolist())
    assert (touched.any(axis=0)).all(), "a row without a call"
    if plan.apart:
        assert (touched.sum(axis=0) == 1).all()
        assert [coverage.tolist() for coverage in plan.coverages] == [[1] * len(rows)]
    else:
        check_coverages(plan, touched)
    # The kernel for short segments takes every row that it is not told to leave.
    reached = [call.pairs for call in plan.calls if call.keys is Keys.OWN_ROWS]
    if whole.every is plan:
        assert (
            covered_rows(np.concatenate([np.zeros((0, 4), np.int64), *reached]), len(rows))
            == (whole.alone >= 0)
        ).all()
    return seen


def tail_rows(
    call: TailCall, whole: ChunkPlan, chunk: Chunk, memory: Memory
) -> Iterator[tuple[int, list[int]]]:
    """Each row of a tail call, and the addresses whose keys it sees."""
    context = memory.packed if call.keys is Keys.PACKED else memory.arena
    for (start, count), ranges in zip(*(array.tolist() for array in call.tails.tiles()), strict=True):
        assert 0 < count <= call.tails.size
        read = [address for first, keys in ranges for address in context[first : first + keys].tolist()]
        for row in range(start, start + count):
            first = whole.first[row]
            assert 0 <= row - first <= REACH
            assert first >= start - REACH
            yield row, [*read, *memory.arena[chunk.kv_address[first : row + 1]].tolist()]


def check_coverages(plan: AttentionPlan, touched: NDArray[np.bool_]) -> None:
    waiting = touched[:WIDTH]
    for index, coverage in enumerate(plan.coverages):
        for bit, mask in enumerate(waiting):
            assert ((coverage >> bit & 1) == mask).all()
        begin = WIDTH + index * (WIDTH - 1)
        waiting = np.concatenate([waiting.any(axis=0)[None], touched[begin : begin + WIDTH - 1]])
    assert len(touched) <= WIDTH + (len(plan.coverages) - 1) * (WIDTH - 1)


def queries(call: Call) -> Iterator[tuple[int, range]]:
    for q0, n, k0, m in call.pairs.tolist():
        for row in range(n):
            yield q0 + row, range(k0, k0 + (m - n + row + 1 if call.causal else m))


def planned_chunk(chunk: Chunk, room: int = 10_000) -> ChunkPlan:
    return plan_chunk(chunk, room, WIDTH)


def check(chunk: Chunk, plan: ChunkPlan) -> None:
    expected = said(chunk)
    assert planned(plan.every, plan, chunk, np.arange(len(chunk))) == expected
    answers = chunk.answers.tolist()
    if answers:
        assert planned(plan.answers, plan, chunk, chunk.answers) == [expected[row] for row in answers]
    for spans, row in zip(plan.spans.tolist(), answers, strict=True):
        assert Counter(a for start, n in spans for a in range(start, start + n)) == expected[row]
