"""The plan of a chunk's attention calls: rows see exactly the addresses that the chunk says, each once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.hopper import heads
from covey_engine.prefill.hopper import plan as plan_module
from covey_engine.prefill.hopper.plan import AttentionPlan, Call, ChunkPlan, Keys, plan_chunk
from numpy.typing import NDArray
from support import small_models
from support.hand_packing import HandPacker
from support.small_models import Packed, random_tokens

WIDTH = 3
REACH = 32
SHAPES = (small_models.fan_out, small_models.split_document, small_models.deep_paths)


def chunks(seeds: range) -> Iterator[Chunk]:
    for shape in SHAPES:
        yield from (chunk for chunk, _ in shape(np.random.default_rng(0)))
    for seed in seeds:
        yield from (chunk for chunk, _ in small_models.random_forest(np.random.default_rng(seed)))


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


def planned(
    plan: AttentionPlan, whole: ChunkPlan, chunk: Chunk, rows: NDArray[np.integer]
) -> list[Counter[int]]:
    """The addresses each row sees, as the calls say it; all coverages must agree with them."""
    seen: list[Counter[int]] = [Counter() for _ in rows]
    touched = np.zeros((len(plan.calls), len(rows)), np.bool_)
    for index, call in enumerate(plan.calls):
        for number, keys in queries(call):
            assert not touched[index, number], "a row twice in one call"
            touched[index, number] = True
            match call.keys:
                case Keys.ARENA:
                    seen[number].update(keys)
                case Keys.PACKED:
                    seen[number].update(whole.source[keys.start : keys.stop].tolist())
                case Keys.OWN_ROWS:
                    first, row = whole.first[rows[number]], rows[number]
                    assert 0 <= row - first <= REACH
                    seen[number].update(chunk.kv_address[first : row + 1].tolist())
    assert (touched.any(axis=0)).all(), "a row without a call"
    check_coverages(plan, touched)
    return seen


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


def own_lengths(plan: ChunkPlan) -> list[int]:
    return sorted(n for call in plan.every.calls if call.causal for n in call.pairs[:, 1].tolist())


def level_lengths(plan: ChunkPlan) -> list[list[int]]:
    return [call.pairs[:, 1].tolist() for call in plan.every.calls if not call.causal]


def check(chunk: Chunk, plan: ChunkPlan) -> None:
    expected = said(chunk)
    assert planned(plan.every, plan, chunk, np.arange(len(chunk))) == expected
    answers = chunk.answers.tolist()
    if answers:
        assert planned(plan.answers, plan, chunk, chunk.answers) == [expected[row] for row in answers]
    for spans, row in zip(plan.spans.tolist(), answers, strict=True):
        assert Counter(a for start, n in spans for a in range(start, start + n)) == expected[row]


@pytest.fixture(params=["as it is", "eager"])
def eager(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once with the limits as they are, once packing and shortening whatever can be."""
    if request.param == "eager":
        monkeypatch.setattr(heads, "HEAD_ROWS", 1)
        monkeypatch.setattr(heads, "WORTH", 1000)
        monkeypatch.setattr(plan_module, "MANY", 1)
        monkeypatch.setattr(plan_module, "SHORT", 4)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("room", [0, 70, 10_000])
def test_rows_see_what_the_chunk_says(room: int) -> None:
    for chunk in map(ascending, chunks(range(40))):
        check(chunk, planned_chunk(chunk, room))


def one_chunk(build: Callable[[HandPacker], None], gap: int = 1) -> ChunkPlan:
    packer = HandPacker(gap)
    build(packer)
    return planned_chunk(ascending(packer.chunk()[0]))


def test_a_question_behind_its_document_is_one_causal_call() -> None:
    def build(packer: HandPacker) -> None:
        for _ in range(3):
            document = packer.add(range(9))
            packer.add(range(4), packer.add(range(2), document, after=True), (-1,), after=True)

    plan = one_chunk(build)
    assert own_lengths(plan) == [15, 15, 15]
    assert not level_lengths(plan)


def test_a_document_over_several_chunks_needs_no_merge() -> None:
    packed: Packed = small_models.split_document(np.random.default_rng(0))
    plans = [planned_chunk(ascending(chunk)) for chunk, _ in packed[:2]]
    assert [level_lengths(plan) for plan in plans] == [[], []]
    assert plans[1].every.calls[0].pairs[:, 3].tolist() == [150]


def test_many_suffixes_of_an_anchor_are_one_pair() -> None:
    def build(packer: HandPacker) -> None:
        anchor = packer.add(range(40))
        for _ in range(50):
            packer.add(range(5), anchor, (-1,))

    plan = one_chunk(build)
    assert level_lengths(plan) == [[250]]
    assert [call.keys for call in plan.every.calls] == [Keys.ARENA, Keys.OWN_ROWS, Keys.ARENA]
    assert (plan.first >= 0).sum() == 250


def under_a_head(lengths: tuple[int, ...]) -> Chunk:
    packer = HandPacker()
    head = packer.add(range(8))
    packer.chunk()
    for length in lengths:
        packer.add(range(4), packer.add(range(length), head), (-1,), after=True)
    return ascending(packer.chunk()[0])


def test_a_shared_head_is_one_pair_for_a_few_short_documents() -> None:
    plan = planned_chunk(under_a_head((11, 5, 23)))
    assert own_lengths(plan) == [9, 15, 27]
    assert level_lengths(plan) == [[51]]
    assert not len(plan.source)


def test_a_shared_head_is_copied_before_documents() -> None:
    chunk = under_a_head((200, 100, 300, 3))
    plan = planned_chunk(chunk)
    packed = next(call for call in plan.every.calls if call.keys is Keys.PACKED)
    assert packed.pairs[:, 1].tolist() == [204, 104, 304]
    assert packed.pairs[:, 3].tolist() == [212, 112, 312]
    assert level_lengths(plan) == [[7]], "the head remains for the short one"
    assert not len(planned_chunk(chunk, room=600).source), "no room, no copies"
    check(chunk, plan)


def test_a_shared_head_is_copied_before_anchors() -> None:
    packer = HandPacker()
    head = packer.add(range(20))
    anchors = [packer.add(range(90), head) for _ in range(2)]
    packer.chunk()
    for anchor in anchors:
        for _ in range(60):
            packer.add(range(5), anchor, (-1,))
    chunk = ascending(packer.chunk()[0])
    plan = planned_chunk(chunk)
    assert [call.keys for call in plan.every.calls] == [Keys.OWN_ROWS, Keys.PACKED]
    assert plan.every.calls[1].pairs.tolist() == [[0, 300, 0, 110], [300, 300, 110, 110]]
    check(chunk, plan)


def kept_documents() -> Chunk:
    """Under a head, two documents with a question each that is not stored behind them, and one on an earlier one."""
    packer = HandPacker()
    head = packer.add(range(20))
    before = packer.add(range(200), head)
    packer.chunk()
    for length in (300, 250):
        document = packer.add(range(length), head)
        packer.add(range(12), document, (-1,))
    packer.add(range(12), before, (-1,))
    return ascending(packer.chunk()[0])


def test_a_question_is_copied_behind_its_document() -> None:
    chunk = kept_documents()
    plan = planned_chunk(chunk)
    (call,) = plan.every.calls
    assert call.keys is Keys.PACKED
    assert call.pairs[:, 1].tolist() == [312, 262, 12]
    assert call.pairs[:, 3].tolist() == [332, 282, 232]
    check(chunk, plan)


def test_several_questions_on_a_document_share_its_copy() -> None:
    packer = HandPacker()
    head = packer.add(range(20))
    packer.chunk()
    document = packer.add(range(300), head)
    for _ in range(2):
        packer.add(range(12), document, (-1,))
    chunk = ascending(packer.chunk()[0])
    plan = planned_chunk(chunk)
    packed = [call.pairs for call in plan.every.calls if call.keys is Keys.PACKED]
    assert [pairs[:, 1].tolist() for pairs in packed] == [[300], [24]]
    check(chunk, plan)


def turns(head: int = 0) -> Chunk:
    """Four turns of a conversation, one after another, then a question on the beginning up to each, last first."""
    packer = HandPacker()
    top = packer.add(range(head)) if head else None
    if head:
        packer.chunk()
    path = [packer.add(range(300), top)]
    for _ in range(3):
        path.append(packer.add(range(40), path[-1], after=True))
    packer.add(range(12), path[-1], (-1,), after=True)
    for turn in reversed(path[:-1]):
        packer.add(range(12), turn, (-1,))
    return ascending(packer.chunk()[0])


def test_beginnings_of_beginnings_are_read_in_one_call() -> None:
    plan = planned_chunk(turns())
    assert sorted(own_lengths(plan)) == [12, 12, 12, 432]
    assert level_lengths(plan) == [[12, 12, 12]], "each question has its beginning as one range"
    assert plan.every.calls[1].pairs[:, 3].tolist() == [380, 340, 300]
    check(turns(), plan)


def test_a_head_is_copied_once_for_what_begins_alike() -> None:
    chunk = turns(head=20)
    plan = planned_chunk(chunk)
    assert [call.keys for call in plan.every.calls] == [Keys.ARENA, Keys.PACKED, Keys.PACKED]
    assert len(plan.source) == 20 + 432
    check(chunk, plan)


def test_a_chunk_without_answers() -> None:
    plan = one_chunk(lambda packer: packer.add(random_tokens(np.random.default_rng(0), 7)) and None)
    assert plan.spans.shape == (0, 1, 2)
    assert plan.answers.calls == ()


def test_answers_out_of_order_are_a_fault() -> None:
    chunk, _ = small_models.split_document(np.random.default_rng(0))[1]
    with pytest.raises(AssertionError, match="ascending"):
        planned_chunk(replace(chunk, answers=chunk.answers[::-1]))
