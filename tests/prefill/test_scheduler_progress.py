"""Progress of running orders: tokens done and to come, and the seconds that the rate so far predicts."""

from __future__ import annotations

import pytest
from covey_engine.prefill.api import Progress, WorkOrder
from support.bench import Bench, join, scan


def play(bench: Bench, seconds: float) -> dict[int, list[Progress]]:
    """Run to the end, each chunk taking so long; what each order heard after each of its chunks."""
    heard: dict[int, list[Progress]] = {}
    while bench.scheduler.running:
        chunk = bench.schedule()
        bench.runner.set_answer_tokens(*bench.scheduler.head)
        for report in bench.scheduler.settle(bench.runner.run(chunk), seconds):
            heard.setdefault(report.ticket, []).append(report.progress)
    bench.clean()
    return heard


@pytest.mark.parametrize("order", [scan(1_000), join(50, 60)], ids=["filter", "join"])
def test_an_order_alone_ends_when_it_was_predicted_to(order: WorkOrder) -> None:
    bench = Bench(arena=40_000)
    ticket = bench.submit(order)
    heard = play(bench, 0.5)[ticket]
    for chunks, progress in enumerate(heard[10:], 11):
        assert progress.seconds_to_come == pytest.approx(0.5 * (len(heard) - chunks), rel=0.25, abs=0.5)
    assert [p.fresh_tokens for p in heard] == sorted(p.fresh_tokens for p in heard)
    assert [p.tokens_to_come for p in heard] == sorted((p.tokens_to_come for p in heard), reverse=True)
    assert heard[-1] == Progress(heard[-1].fresh_tokens, 0, 0.0)


def test_a_neighbour_makes_the_prediction_longer() -> None:
    alone, shared = Bench(arena=40_000), Bench(arena=40_000)
    alone.submit(scan(600))
    ticket = shared.submit(scan(600))
    shared.submit(scan(600, question=4, query="other", begin=1_000))
    (heard,) = play(alone, 1.0).values()
    slower = play(shared, 1.0)[ticket]
    at = next(progress for progress in slower if progress.fresh_tokens >= heard[10].fresh_tokens)
    assert heard[10].seconds_to_come is not None
    assert at.seconds_to_come == pytest.approx(2 * heard[10].seconds_to_come, rel=0.2)
