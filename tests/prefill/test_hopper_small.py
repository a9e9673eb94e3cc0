"""Small chunks padded to a size: every row sees what the chunk says, what is padded sees and harms nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed: the Hopper kernels cannot run here")
import torch
from covey_engine.prefill.hopper.batch import Batch, DeviceCall, DevicePlan
from covey_engine.prefill.hopper.forward import Decoder
from covey_engine.prefill.hopper.plan import Keys
from covey_engine.prefill.hopper.sizes import small_chunks
from covey_engine.prefill.hopper.small import LEVELS, ROWS, Size, SmallPass, plan_small
from covey_engine.prefill.kernels.merge import MERGED
from support.hand_packing import HandPacker
from support.replayed_plans import ascending, forests, said

SPARE, REACH, MOST = 50_000, 1024, 2048
Seen = list[Counter[int]]


def seen(plan: DevicePlan, rows: int) -> Seen:
    """The addresses that each row's calls read and its merge takes."""
    (coverage,) = plan.coverages
    assert len(coverage) == rows
    assert 1 <= len(plan.calls) <= MERGED
    found: Seen = [Counter() for _ in range(rows)]
    for index, call in enumerate(plan.calls):
        assert isinstance(call, DeviceCall)
        assert call.keys is Keys.ARENA
        ranges, touched = call.ranges, np.zeros(rows, np.bool_)
        starts = ranges.query_start[:-1].tolist(), ranges.key_start[:-1].tolist()
        for q, k, n, m in zip(*starts, ranges.query_length.tolist(), ranges.key_length.tolist(), strict=True):
            assert n <= ranges.longest_query
            assert m <= ranges.longest_key
            assert not touched[q : q + n].any(), "a row twice in one call"
            touched[q : q + n] = True
            for row in range(n):
                found[q + row].update(range(k, k + (m - n + row + 1 if ranges.causal else m)))
        assert np.array_equal(coverage.numpy() >> index & 1, touched), "the merge takes what was computed"
    return found


def staged(pass_: SmallPass, chunk: Any, plan: Any) -> Batch:
    batch = pass_.stage(chunk, plan)
    rows = len(chunk)
    assert torch.equal(batch.tokens[:rows], torch.from_numpy(chunk.tokens))
    assert torch.equal(batch.positions[:rows], torch.from_numpy(chunk.positions))
    assert batch.address[:rows].tolist() == chunk.kv_address.tolist()
    assert set(batch.address[rows:].tolist()) <= {SPARE}
    assert batch.stored.all()
    return batch


def test_rows_see_what_the_chunk_says_and_padding_sees_nothing() -> None:
    decoder, passes, taken = cast(Decoder, None), dict[Size, SmallPass](), Counter[int]()
    for chunks in forests(range(40)):
        for chunk in map(ascending, chunks):
            found = plan_small(chunk, MOST)
            if found is None:
                continue
            size, plan = found
            taken[size.levels] += 1
            # Used again and again: nothing of the chunk before may be left.
            if size not in passes:
                passes[size] = SmallPass(size, decoder, SPARE, REACH, torch.device("cpu"))
            batch, expected = staged(passes[size], chunk, plan), said(chunk)
            assert seen(batch.every, size.rows) == expected + [Counter()] * (size.rows - len(chunk))
            answers = chunk.answers.tolist()
            wanted = [expected[row] for row in answers]
            nothing = [Counter[int]()] * (size.pairs - len(answers))
            assert seen(batch.answering, size.pairs) == wanted + nothing
            assert batch.answer_rows[: len(answers)].tolist() == answers
            assert batch.answer_positions[: len(answers)].tolist() == chunk.positions[answers].tolist()
            for spans, row in zip(batch.spans.tolist(), answers, strict=False):
                assert Counter(a for start, n in spans for a in range(start, start + n)) == expected[row]
    assert all(taken[levels] for levels in LEVELS), taken


def many(count: int, length: int) -> Any:
    packer = HandPacker(gap=2)
    for _ in range(count):
        packer.add(range(length), answers=(-1,))
    return ascending(packer.chunk()[0])


@pytest.mark.parametrize(
    ("count", "length", "size"),
    [
        (1, 1, Size(64, 0)),
        (1, 65, Size(128, 0)),
        (64, 2, Size(128, 0)),
        (65, 1, None),  # more pairs than there is room for
        (1, 1025, None),
    ],
)
def test_the_smallest_size_that_holds_a_chunk(count: int, length: int, size: Size | None) -> None:
    found = plan_small(many(count, length), MOST)
    assert (found and found[0]) == size


def test_no_size_is_larger_than_the_workspace_or_deeper_than_one_merge() -> None:
    assert plan_small(many(1, 100), 100) is None
    packer = HandPacker(gap=2)
    node = None
    for _ in range(6):
        node = packer.add(range(4), node)
    packer.chunk()
    packer.add(range(3), node, (-1,))
    deep = ascending(packer.chunk()[0])
    assert len(deep.contexts) > LEVELS[-1]
    assert plan_small(deep, MOST) is None
    assert plan_small(replace(deep, contexts=deep.contexts[:3]), MOST) is not None


def test_warm_chunks_bring_the_sizes_of_queries_over_few_rows() -> None:
    sizes = [found[0] for chunk in small_chunks(ROWS, 33_792) if (found := plan_small(chunk, 33_792))]
    assert sizes == [Size(rows, 1) for rows in ROWS]
    assert all(len(chunk) + 8 < 300 for chunk in small_chunks(ROWS, 300))
