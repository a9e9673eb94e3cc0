"""Fair shares of the device between users and queries, and scans of one column that go on together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from covey_engine.prefill.api import Anchor, Argument, WorkOrder
from support.bench import HEAD, Bench, expected, scan, tokens_of


def of(user: str, order: WorkOrder) -> WorkOrder:
    return replace(order, user=user)


@pytest.mark.parametrize("scans", [1, 10])
def test_a_small_query_behind_the_scans_of_one_other_user_is_answered_within_a_few_chunks(scans: int) -> None:
    bench = Bench(arena=40_000)
    rows = 2_000 // scans
    for n in range(scans):
        bench.submit(of("ann", scan(rows, question=1 + n % 4, query=f"scan {n}", begin=n * rows)))
    for _ in range(3):
        bench.step()
    small = bench.submit(of("bob", scan(50, question=6, query="small", begin=1_900)))
    # 50 prompts of at most 9 tokens: 5 chunks alone, twice as many at half of each chunk.
    assert bench.steps(lambda: small in bench.finished) <= 11
    assert bench.margins[small] == expected(50, 6, 1_900)
    assert bench.finished == [small]


def test_a_user_with_many_queries_and_a_query_with_many_orders_get_no_more_than_another() -> None:
    bench = Bench(arena=40_000)
    many = [bench.submit(of("ann", scan(100, query=f"{n}", begin=100 * n))) for n in range(8)]
    orders = [bench.submit(of("bob", scan(200, query="one", begin=800 + 200 * n))) for n in range(3)]
    other = bench.submit(of("bob", scan(400, query="other", begin=1_500)))
    for _ in range(24):
        bench.step()

    def served(tickets: list[int]) -> int:
        return sum(bench.figures[ticket].fresh_tokens for ticket in tickets if ticket in bench.figures)

    assert served(many) == pytest.approx(served([*orders, other]), abs=bench.chunk)
    assert served(orders) == pytest.approx(served([other]), abs=bench.chunk)
    bench.run()
    assert len(bench.finished) == 12


def test_a_small_query_behind_a_scan_of_a_million_rows_is_answered_within_a_few_chunks() -> None:
    bench = Bench(arena=40_000)
    rows = np.arange(1_000_000, dtype=np.int32)
    pair = (Argument("documents", rows // 500), Argument("documents", rows % 500))
    alone = scan(1)
    huge = bench.submit(
        of("ann", replace(alone, prefix=(HEAD, Anchor(0), Anchor(1)), anchors=pair, anchor_count=len(rows)))
    )
    for _ in range(3):
        bench.step()
    small = bench.submit(of("bob", scan(50, question=6, query="small", begin=1_900)))
    assert bench.steps(lambda: small in bench.finished) <= 11
    bench.scheduler.cancel(huge)
    bench.clean()


def test_one_user_alone_has_the_whole_device() -> None:
    bench = Bench()
    bench.submit(of("ann", scan(100)))
    bench.submit(of("bob", scan(1, query="short", begin=500)))
    bench.run()
    assert bench.runner.chunks <= bench.runner.embedded // (bench.chunk - 9) + 2


@pytest.mark.parametrize("share", [0.25, 0.6])
def test_a_second_query_on_a_column_larger_than_the_arena_joins_the_running_scan(share: float) -> None:
    rows = 1_500
    bench = Bench(arena=1_000)
    assert tokens_of(rows) > 4 * bench.arena
    first = bench.submit(of("ann", scan(rows)))
    bench.steps(lambda: len(bench.margins[first]) >= share * rows)
    past = len(bench.margins[first])
    second = bench.submit(of("bob", scan(rows, question=4, query="second")))
    # What is in chunks already, of which the answers are still to come, is past too.
    bench.run()
    assert len(bench.margins[first]) == len(bench.margins[second]) == rows
    total = bench.figures[first].fresh_tokens + bench.figures[second].fresh_tokens
    questions = 2 * 2 * rows
    one_pass = tokens_of(rows) + questions
    again = tokens_of(past) + 2 * bench.chunk
    assert total == bench.runner.embedded <= len(HEAD.tokens) * 2 + one_pass + again
    assert bench.finished[0] == first
