"""The scheduler step by step over a fake runner: fairness, cancelling, sharing, and chunks that fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from covey_engine.prefill.api import Anchor, Argument, Ask, Literal, Pairs, Partner, WorkOrder
from support.bench import HEAD, OTHERS, READOUT, Bench, both, chain, document, expected, join, scan, tokens_of
from support.fake_runner import plain_margin


def test_a_small_query_behind_a_huge_scan_is_answered_within_a_few_chunks() -> None:
    bench = Bench()
    huge = bench.submit(scan(2_000))
    for _ in range(3):
        bench.step()
    small = bench.submit(scan(50, question=6, query="small", begin=1_900))
    # 50 prompts of at most 9 tokens: 5 chunks alone, twice as many at half of each chunk.
    assert bench.steps(lambda: small in bench.finished) <= 11
    assert bench.margins[small] == expected(50, 6, 1_900)
    assert 0 < len(bench.margins[huge]) < 2_000
    assert huge not in bench.finished
    bench.run()
    assert bench.margins[huge] == expected(2_000)


def test_small_queries_one_after_another_do_not_hold_up_a_huge_scan() -> None:
    bench = Bench()
    huge = bench.submit(scan(2_000))
    for n in range(5):
        before = len(bench.margins[huge])
        small = bench.submit(scan(50, question=5, query=f"small {n}", begin=1_000 + 50 * n))
        bench.steps(lambda small=small: small in bench.finished)  # type: ignore[misc]
        assert len(bench.margins[huge]) >= before + 40
    bench.run()
    assert bench.margins[huge] == expected(2_000)


def test_two_orders_of_one_query_share_what_it_may_use() -> None:
    bench = Bench()
    first, second = bench.submit(scan(400)), bench.submit(scan(400, question=3, begin=400))
    other = bench.submit(scan(400, question=4, query="other", begin=800))
    for _ in range(10):
        bench.step()
    ours = bench.figures[first].fresh_tokens + (
        bench.figures[second].fresh_tokens if second in bench.figures else 0
    )
    assert ours == pytest.approx(bench.figures[other].fresh_tokens, abs=bench.chunk)
    bench.run()
    assert sorted(bench.finished) == [first, second, other]


ORDERS = {"filter": scan(2_000), "both": both(2_000), "and": chain(2_000), "join": join(200, 100)}


def test_questions_that_wait_for_no_answer_share_a_chunk_with_their_document() -> None:
    bench = Bench()
    ticket = bench.submit(both(3))
    bench.step()
    assert bench.finished == [ticket]
    assert set(bench.margins[ticket]) == {(ask, n) for ask in (0, 1) for n in range(3)}
    assert bench.figures[ticket].fresh_tokens == len(HEAD.tokens) + tokens_of(3) + 2 * 3
    bench.clean()


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("ahead", [0, 1, 2])
def test_a_cancelled_order_frees_everything_within_two_chunks(order: WorkOrder, ahead: int) -> None:
    bench = Bench()
    ticket = bench.submit(order)
    for _ in range(4):
        bench.step()
    chunks = [bench.schedule() for _ in range(ahead)]
    bench.scheduler.cancel(ticket)
    bench.scheduler.check()
    assert bench.scheduler.running == ()
    heard = len(bench.margins[ticket])
    for chunk in chunks:
        bench.settle(chunk)
    bench.clean()
    assert bench.scheduler.schedule() is None
    assert len(bench.margins[ticket]) == heard
    bench.scheduler.cancel(ticket)


def test_a_cancelled_order_leaves_what_its_neighbour_uses() -> None:
    bench = Bench()
    gone, stays = bench.submit(both(300, "gone")), bench.submit(scan(300, question=4, query="stays"))
    for _ in range(3):
        bench.step()
    chunk = bench.schedule()
    bench.scheduler.cancel(gone)
    bench.settle(chunk)
    bench.run()
    assert bench.margins[stays] == expected(300, 4)
    assert bench.finished == [stays]


def test_orders_on_one_column_share_its_documents() -> None:
    bench = Bench(arena=40_000)
    tickets = [bench.submit(scan(300, question=n, query=str(n))) for n in (1, 4)]
    bench.run()
    for ticket, question in zip(tickets, (1, 4), strict=True):
        assert bench.margins[ticket] == expected(300, question)
    # The head once, each document once, and two tokens for each of two questions.
    assert bench.runner.embedded == len(HEAD.tokens) + tokens_of(300) + 2 * 300 * 2
    total = bench.figures[tickets[0]] + bench.figures[tickets[1]]
    assert total.fresh_tokens == bench.runner.embedded
    assert total.prompt_tokens == 2 * (300 * (len(HEAD.tokens) + 2) + tokens_of(300))
    assert total.recomputed_tokens == 0


def test_a_filter_and_a_join_share_their_documents() -> None:
    bench = Bench(arena=40_000)
    bench.submit(scan(40, query="filter"))
    bench.submit(join(40, 10))
    bench.run()
    assert bench.runner.embedded == len(HEAD.tokens) + tokens_of(40) + 40 * 2 + 40 * 10 * 3


def test_documents_are_gone_once_no_order_wants_them() -> None:
    bench = Bench(arena=40_000)
    for question in (1, 4):
        bench.submit(scan(100, question=question))
        bench.run()
    assert bench.runner.embedded == 2 * (len(HEAD.tokens) + tokens_of(100) + 100 * 2)


@pytest.mark.parametrize("ahead", [1, 2])
def test_a_failed_chunk_drops_its_orders_and_leaves_the_arena_clean(ahead: int) -> None:
    bench = Bench()
    failed = [bench.submit(both(200)), bench.submit(scan(200, query="scan"))]
    for _ in range(3):
        bench.step()
    for _ in range(ahead):
        bench.schedule()
    dropped = bench.scheduler.fail()
    assert set(dropped) <= set(failed)
    assert dropped
    bench.clean()
    assert bench.scheduler.running == tuple(ticket for ticket in failed if ticket not in dropped)
    bench.runner.forget([0], [bench.arena])
    later = bench.submit(scan(100, question=7, query="later"))
    bench.run()
    assert bench.margins[later] == expected(100, 7)


def test_an_order_that_was_planned_after_the_failed_chunk_is_answered_in_full() -> None:
    bench = Bench()
    first = bench.submit(scan(10))
    doomed = bench.schedule()
    assert len(doomed) < bench.chunk
    spared = bench.submit(both(200, "spared"))
    bench.schedule()
    assert bench.scheduler.fail() == [first]
    bench.clean()
    # What was computed for the failed chunk cannot be read any more.
    bench.runner.forget([0], [bench.arena])
    bench.run()
    assert bench.finished == [spared]
    assert set(bench.margins[spared]) == {(ask, n) for ask in (0, 1) for n in range(200)}
    for ask in (0, 1):
        for n in range(200):
            margin = plain_margin((*document(n), ask + 1), READOUT)
            assert bench.margins[spared][ask, n] == pytest.approx(margin, abs=1e-5)


@pytest.mark.parametrize("rows", [11, 13])
def test_pairs_that_go_on_from_the_chunk_before_go_back_where_there_is_no_memory(rows: int) -> None:
    bench = Bench()
    # The pairs of a row begin alike beyond the anchor, so that the second chunk's go on from the first one's last.
    ask = Ask((Partner(0), Partner(1), Literal((5,))), READOUT)
    slots = [np.arange(3), np.full(rows, 9), np.arange(rows)]
    names = ("documents", "others", "others")
    ours, *theirs = (Argument(name, some.astype(np.int32)) for name, some in zip(names, slots, strict=True))
    ticket = bench.submit(WorkOrder("join", (HEAD, Anchor()), (ask,), (ours,), tuple(theirs)))
    bench.step()
    bench.schedule()
    assert bench.scheduler.shrink()
    bench.clean()
    bench.runner.forget([0], [bench.arena])
    bench.run()
    for item, (anchor, partner) in enumerate((a, p) for a in range(3) for p in range(rows)):
        both = OTHERS.tokens(9).tolist() + OTHERS.tokens(partner).tolist()
        margin = plain_margin((*document(anchor), *both, 5), READOUT)
        assert bench.margins[ticket][0, item] == pytest.approx(margin, abs=1e-5)


def test_slots_and_pairs_may_stand_anywhere_in_memory() -> None:
    def moved(values: np.ndarray) -> np.ndarray:
        found = np.frombuffer(b"\0" + values.tobytes(), np.int8)[1:].view(values.dtype)
        assert not found.flags.aligned
        return found

    found = []
    for place in (np.copy, moved):
        bench = Bench()
        order = join(6, 5)
        sides = [[replace(a, slots=place(a.slots)) for a in some] for some in (order.anchors, order.partners)]
        pairs = Pairs(place(np.arange(0, 19, 3)), place(np.tile(np.arange(3, dtype=np.int32), 6)))
        order = replace(order, anchors=tuple(sides[0]), partners=tuple(sides[1]), pairs=pairs)
        ticket = bench.submit(order)
        bench.run()
        found.append(bench.margins[ticket])
    assert len(found[0]) == 18
    assert found[0] == found[1]
