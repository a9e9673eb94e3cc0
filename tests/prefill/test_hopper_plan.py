"""The plan of a chunk's attention calls: rows see exactly the addresses that the chunk says, each once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.hopper.plan import Call, ChunkPlan, Keys, TailCall
from covey_engine.prefill.hopper.tails import Tails
from support import small_models
from support.hand_packing import HandPacker
from support.replayed_plans import ascending, check, forests, pack_eagerly, planned_chunk
from support.small_models import Packed, random_tokens


def own_lengths(plan: ChunkPlan) -> list[int]:
    calls = [call for call in plan.every.calls if isinstance(call, Call) and call.causal]
    return sorted(n for call in calls for n in call.pairs[:, 1].tolist())


def level_lengths(plan: ChunkPlan) -> list[list[int]]:
    calls = [call for call in plan.every.calls if isinstance(call, Call) and not call.causal]
    return [call.pairs[:, 1].tolist() for call in calls]


def tails(plan: ChunkPlan) -> list[tuple[Keys, list[int], list[list[int]]]]:
    """Of each call of tails: its keys, rows of its groups, keys of their ranges."""
    calls = [call for call in plan.every.calls if isinstance(call, TailCall)]
    return [(call.keys, call.pairs[:, 1].tolist(), call.tails.ranges[:, :, 1].tolist()) for call in calls]


@pytest.fixture(params=["as it is", "eager"])
def eager(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once with the limits as they are, once packing and shortening whatever can be."""
    if request.param == "eager":
        pack_eagerly(monkeypatch)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("room", [0, 70, 10_000])
def test_rows_see_what_the_chunk_says(room: int) -> None:
    for chunks in forests(range(40)):
        for chunk in map(ascending, chunks):
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
        anchor = packer.add(range(200))
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
    assert not plan.placement.packed


def test_a_shared_head_is_copied_before_documents() -> None:
    chunk = under_a_head((200, 100, 300, 3))
    plan = planned_chunk(chunk)
    packed = next(call for call in plan.every.calls if call.keys is Keys.PACKED)
    assert packed.pairs[:, 1].tolist() == [204, 104, 304]
    assert packed.pairs[:, 3].tolist() == [212, 112, 312]
    assert level_lengths(plan) == [[7]], "the head remains for the short one"
    assert not planned_chunk(chunk, room=600).placement.packed, "no room, no copies"
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
    assert plan.placement.packed == 20 + 432
    assert plan.placement.copied[1].tolist() == list(range(20)), "the rest is written there"
    check(chunk, plan)


def asked_twice(resident: bool, documents: int = 40, head: int = 20) -> Chunk:
    """Under a head, documents of 100 tokens with two questions each; resident: they are of an earlier chunk."""
    packer = HandPacker()
    top = packer.add(range(head))
    packer.chunk()
    kept = [packer.add(range(100), top) for _ in range(documents)] if resident else []
    if resident:
        packer.chunk()
    for number in range(documents):
        document = kept[number] if resident else packer.add(range(100), top)
        packer.add(range(9), document, (-1,))
        packer.add(range(6 + number % 3), document, (-1,))
    return ascending(packer.chunk()[0])


def test_questions_read_their_documents_copy_and_themselves_in_one_call() -> None:
    chunk = asked_twice(resident=False)
    plan = planned_chunk(chunk)
    assert plan.every.apart, "nothing is left to merge"
    assert tails(plan) == [(Keys.PACKED, [15, 16, 17] * 13 + [15], [[120, 0]] * 40)]
    assert (plan.first >= 0).sum() == sum(tails(plan)[0][1])
    assert (plan.alone == -1).all()
    check(chunk, plan)


def test_questions_on_documents_of_earlier_chunks_read_them_in_place() -> None:
    chunk = asked_twice(resident=True)
    plan = planned_chunk(chunk)
    assert plan.every.apart
    assert tails(plan) == [(Keys.ARENA, [15, 16, 17] * 13 + [15], [[20, 100]] * 40)]
    assert not plan.placement.packed, "nothing is copied"
    check(chunk, plan)


def test_tiles_with_most_keys_come_first() -> None:
    groups, ranges = np.array([[0, 20], [20, 40]]), np.array([[[0, 5], [9, 3]], [[0, 7], [0, 2]]])
    tiles, seen = Tails(groups, ranges).tiles()
    assert tiles.tolist() == [[20, 32], [52, 8], [0, 20]]
    assert seen[:, :, 1].tolist() == [[7, 2], [7, 2], [5, 3]]


def test_few_questions_have_no_call_of_their_own() -> None:
    chunk = asked_twice(resident=True, documents=5)
    plan = planned_chunk(chunk)
    assert tails(plan) == []
    check(chunk, plan)


@pytest.mark.parametrize(
    ("anchor", "partners", "tail"), [(4000, 12, True), (4100, 12, False), (1000, 40, False)]
)
def test_long_contexts_and_many_rows_have_calls_of_their_own(anchor: int, partners: int, tail: bool) -> None:
    packer = HandPacker()
    anchors = [packer.add(range(anchor)) for _ in range(4)]
    packer.chunk()
    for each in anchors:
        for _ in range(partners):
            packer.add(range(4), each, (-1,))
    chunk = ascending(packer.chunk()[0])
    plan = planned_chunk(chunk)
    assert bool(tails(plan)) == tail
    assert bool(level_lengths(plan)) != tail
    check(chunk, plan)


def test_a_chunk_without_answers() -> None:
    plan = one_chunk(lambda packer: packer.add(random_tokens(np.random.default_rng(0), 7)) and None)
    assert plan.spans.shape == (0, 1, 2)
    assert plan.answers.calls == ()


def test_answers_out_of_order_are_a_fault() -> None:
    chunk, _ = small_models.split_document(np.random.default_rng(0))[1]
    with pytest.raises(AssertionError, match="ascending"):
        planned_chunk(replace(chunk, answers=chunk.answers[::-1]))
