"""Orders that end before all is asked: waves of pairs, and so many matches as are needed, over a fake runner."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from covey_engine.prefill.api import MATCH, Ask, Literal, WorkOrder, YesNo
from covey_engine.prefill.errors import EngineError
from support.bench import HEAD, OTHERS, READOUT, Bench, document, join, scan, tokens_of
from support.fake_runner import plain_margin

ALWAYS, NEVER = YesNo((3,), (4,), -1e9), YesNo((3,), (4,), 1e9)


def ending(
    order: WorkOrder, readout: YesNo = READOUT, exists: bool = False, enough: int | None = None
) -> WorkOrder:
    """The order with one ask, whose true answer is a match."""
    ask = replace(order.asks[0], readout=readout, on_true=MATCH)
    return replace(order, asks=(ask,), exists=exists, enough=enough)


def truths(anchors: int, partners: int) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """Which pairs of `join` match, by plain evaluation."""
    return np.array(
        [
            [
                plain_margin((*document(a), *OTHERS.tokens(p).tolist(), 5), READOUT) > 0
                for p in range(partners)
            ]
            for a in range(anchors)
        ]
    )


def matches(bench: Bench, ticket: int, partners: int) -> set[int]:
    """Anchors with a match among the answers."""
    return {item // partners for (_, item), margin in bench.margins[ticket].items() if margin > 0}


def test_the_first_match_settles_an_anchor() -> None:
    bench = Bench()
    ticket = bench.submit(ending(join(60, 80), exists=True))
    bench.run()
    found = truths(60, 80)
    assert matches(bench, ticket, 80) == set(np.flatnonzero(found.any(axis=1)).tolist())
    # About every second pair matches: most anchors are settled by their first wave.
    assert bench.figures[ticket].prompts == len(bench.margins[ticket]) <= 60 * 8
    for anchor in np.flatnonzero(~found.any(axis=1)).tolist():
        assert sum(item // 80 == anchor for _, item in bench.margins[ticket]) == 80


@pytest.mark.parametrize("each", [2, 7, 60])
def test_so_many_matches_settle_an_anchor(each: int) -> None:
    bench = Bench()
    ticket = bench.submit(replace(ending(join(60, 80), exists=True), each=each))
    bench.run()
    counts = truths(60, 80).sum(axis=1)
    found = np.bincount(
        [item // 80 for (_, item), margin in bench.margins[ticket].items() if margin > 0], minlength=60
    )
    enough = counts >= each
    assert (found[enough] >= each).all()
    assert (found[~enough] == counts[~enough]).all()
    asked = np.bincount([item // 80 for _, item in bench.margins[ticket]], minlength=60)
    assert (asked[~enough] == 80).all()
    if each < 60:
        assert asked[enough].sum() < 80 * enough.sum() / 2


@pytest.mark.parametrize(("readout", "each"), [(ALWAYS, 4), (NEVER, 80)])
def test_waves_ask_a_few_pairs_of_many_anchors_and_all_pairs_where_none_matches(
    readout: YesNo, each: int
) -> None:
    bench = Bench(arena=40_000)
    ticket = bench.submit(ending(join(60, 80), readout, exists=True))
    bench.run()
    asked = np.bincount([item // 80 for _, item in bench.margins[ticket]], minlength=60)
    # A wave may be cut by the end of a chunk; the waves of the last anchors are wider, so that chunks stay full.
    assert asked[:20].max() == each
    assert asked.min() == (each if each == 80 else 1)
    assert bench.runner.embedded == len(HEAD.tokens) + tokens_of(60) + 3 * int(asked.sum())


def test_a_single_anchor_fills_its_chunks() -> None:
    bench = Bench()
    ticket = bench.submit(ending(join(1, 100), NEVER, exists=True))
    bench.run()
    assert len(bench.margins[ticket]) == 100
    assert bench.runner.chunks <= 5


@pytest.mark.parametrize("arena", [120, 200, 400])
def test_anchors_between_waves_give_way_where_memory_is_short(arena: int) -> None:
    bench = Bench(arena=arena)
    ticket = bench.submit(ending(join(60, 80), NEVER, exists=True))
    other = bench.submit(scan(200, query="other"))
    bench.run()
    assert len(bench.margins[ticket]) == 60 * 80
    assert len(bench.margins[other]) == 200
    assert bench.finished[0] == other


@pytest.mark.parametrize("ahead", [0, 1, 2])
@pytest.mark.parametrize("enough", [None, 500])
def test_an_order_in_waves_can_be_cancelled_between_them(ahead: int, enough: int | None) -> None:
    bench = Bench()
    ticket = bench.submit(ending(join(200, 100), exists=True, enough=enough))
    for _ in range(4):
        bench.step()
    chunks = [bench.schedule() for _ in range(ahead)]
    assert bench.scheduler.arena.used
    bench.scheduler.cancel(ticket)
    for chunk in chunks:
        bench.settle(chunk)
    bench.clean()
    assert bench.scheduler.schedule() is None


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("order", [join(60, 80), join(3, 80), scan(500)], ids=["many", "few", "filter"])
def test_items_whose_chunk_found_no_memory_are_dropped_once_they_are_not_needed(
    order: WorkOrder, steps: int
) -> None:
    bench = Bench()
    exists = bool(order.partners)
    ticket = bench.submit(ending(order, exists=exists, enough=None if exists else 20))
    other = bench.submit(scan(100, question=4, query="other", begin=600))
    for _ in range(steps):
        bench.step()
    bench.schedule()
    bench.schedule()
    assert bench.scheduler.shrink()
    bench.runner.forget([0], [bench.arena])
    bench.run()
    assert len(bench.margins[other]) == 100
    if exists:
        found = truths(order.anchor_count, 80).any(axis=1)
        assert matches(bench, ticket, 80) == set(np.flatnonzero(found).tolist())
    else:
        assert sum(margin > 0 for margin in bench.margins[ticket].values()) >= 20


@pytest.mark.parametrize("wanted", [1, 10, 300])
def test_enough_matches_end_a_scan(wanted: int) -> None:
    bench = Bench()
    ticket = bench.submit(ending(scan(2_000), enough=wanted))
    bench.run()
    found = sum(margin > 0 for margin in bench.margins[ticket].values())
    assert found >= wanted
    # About every second document matches.
    assert bench.figures[ticket].prompts <= 16 + 3 * wanted
    assert bench.figures[ticket].prompts == len(bench.margins[ticket])


def test_a_scan_without_enough_matches_is_asked_in_full_in_steps_that_grow() -> None:
    bench = Bench()
    ticket = bench.submit(ending(scan(600), NEVER, enough=1))
    bench.run()
    assert len(bench.margins[ticket]) == 600
    # Seven prompts or more fill a chunk; a few smaller ones came first.
    assert bench.runner.chunks <= 600 // 7 + 10


def test_an_order_that_needs_no_match_asks_nothing() -> None:
    bench = Bench()
    bench.scheduler.submit(ending(scan(10), enough=0))
    (report,) = bench.scheduler.finish_empty()
    assert report.finished
    assert bench.scheduler.schedule() is None


def test_enough_pairs_end_a_join_and_enough_anchors_one_in_waves() -> None:
    bench = Bench()
    pairs = bench.submit(ending(join(200, 100), enough=40))
    anchors = bench.submit(ending(join(200, 100, "other"), exists=True, enough=40))
    bench.run()
    assert sum(margin > 0 for margin in bench.margins[pairs].values()) >= 40
    assert len(bench.margins[pairs]) <= 16 + 3 * 40
    assert len(matches(bench, anchors, 100)) >= 40
    assert len(bench.margins[anchors]) <= 8 * (16 + 2 * 40)


def test_a_neighbour_on_the_same_documents_is_answered_in_full() -> None:
    bench = Bench(arena=40_000)
    some = bench.submit(ending(scan(300, query="some"), enough=20))
    all_ = bench.submit(scan(300, question=4, query="all"))
    bench.run()
    assert len(bench.margins[some]) < 100
    assert len(bench.margins[all_]) == 300
    # Each document is computed once all the same, and two tokens for each question.
    asked = len(bench.margins[some]) + 300
    assert bench.runner.embedded == len(HEAD.tokens) + tokens_of(300) + 2 * asked


def test_a_program_matches_where_it_says_so() -> None:
    first, second = Ask((Literal((1,)),), READOUT, 1), Ask((Literal((2,)),), READOUT, MATCH)
    bench = Bench()
    ticket = bench.submit(replace(scan(500), asks=(first, second), enough=30))
    bench.run()
    both = [n for ask, n in bench.margins[ticket] if ask == 1 and bench.margins[ticket][1, n] > 0]
    assert all(bench.margins[ticket][0, n] > 0 for n in both)
    assert 30 <= len(both) < 90
    assert len(bench.margins[ticket]) < 500


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (ending(scan(3), exists=True), "needs partners"),
        (replace(scan(3), enough=2), "no answer that is one"),
        (replace(join(3, 3), exists=True), "no answer that is one"),
        (replace(ending(join(3, 3), exists=True), each=0), "at least one match"),
    ],
)
def test_an_order_that_cannot_end_so_is_refused(order: WorkOrder, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        Bench().submit(order)
