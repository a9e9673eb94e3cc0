"""Random forests of work orders over a fake runner: every answer, and every token counted.

That free + resident + reserved = total is asserted after every step, as in all tests: `support.lawful`.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace
from random import Random

import pytest
from covey_engine.prefill.api import Figures
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.readout import Head
from covey_engine.prefill.scheduling.orders import Limits
from covey_engine.prefill.scheduling.scheduler import Scheduler
from hypothesis import given, settings
from hypothesis import strategies as st
from support.expected import Expected, check_end, expect
from support.fake_runner import FakeRunner
from support.forests import Forest, Grove, build_forest, groves


def agree(found: float | list[float], due: float | list[float]) -> bool:
    """Whether a margin, or each of an item's scores, is what was due."""
    if not isinstance(found, list) or not isinstance(due, list):
        assert not isinstance(found, list)
        assert not isinstance(due, list)
        return abs(found - due) <= 1e-4
    return all(abs(a - b) <= 1e-4 for a, b in zip(found, due, strict=True))


def run(forest: Forest, expected: Expected) -> Figures:
    """Run a forest to its end, checking every step and that nothing was left out; what it cost together."""
    figures, answered = play(forest, expected)
    assert answered == expected.values.keys()
    assert [each.prompt_tokens for each in figures] == expected.prompt_tokens
    total = sum(figures, Figures())
    assert total.prompts == expected.prompts
    return total


def run_early(forest: Forest) -> Figures:
    """Run a forest whose orders may end early; what it cost together."""
    figures, answered = play(forest, expect(forest.orders, forest.columns))
    heard = expect(forest.orders, forest.columns, answered)
    assert answered == heard.values.keys(), "an ask was put that does not follow"
    for index, order in enumerate(forest.orders):
        check_end(order, {item: matched for (n, item), matched in heard.outcomes.items() if n == index})
    assert [each.prompt_tokens for each in figures] == heard.prompt_tokens
    total = sum(figures, Figures())
    assert total.prompts == heard.prompts
    assert heard.fresh_tokens <= total.fresh_tokens - total.recomputed_tokens
    assert total.fresh_tokens - total.recomputed_tokens <= heard.fresh_tokens + heard.slack
    return total


def play(forest: Forest, expected: Expected) -> tuple[list[Figures], set[tuple[int, int, int]]]:
    """Run a forest to its end, checking every step; the cost of each order, and (order, ask, item) of all answers."""
    runner = FakeRunner(forest.arena, forest.chunk)
    limits = Limits(forest.arena, forest.chunk, 1 << 20)
    scheduler = Scheduler(limits, forest.columns.__getitem__, forest.rule)
    orders = {scheduler.submit(order): index for index, order in enumerate(forest.orders)}
    figures = [Figures() for _ in forest.orders]
    missing, most = dict(expected.values), 2 * sum(expected.prompt_tokens)
    scheduler.finish_empty()
    while True:
        runner.set_answer_tokens(*scheduler.head)
        chunk = scheduler.schedule()
        if chunk is None:
            break
        reports = scheduler.settle(runner.run(chunk), 1.0)
        assert runner.embedded <= most, "the same tokens are computed again and again"
        for report in reports:
            for answers in report.answers:
                for item, value in zip(answers.items.tolist(), answers.values.tolist(), strict=True):
                    name = (orders[report.ticket], answers.ask, item)
                    assert agree(value, missing.pop(name))
            assert report.progress.tokens_to_come >= 0
            if report.finished:
                figures[orders[report.ticket]] = report.figures
    assert not scheduler.running
    assert scheduler.arena.free == scheduler.arena.total
    total = sum(figures, Figures())
    assert total.fresh_tokens == runner.embedded
    assert total.attention_pairs == runner.attention_pairs
    assert math.isclose(total.device_seconds, runner.chunks)
    return figures, expected.values.keys() - missing.keys()


def run_exactly(forest: Forest) -> None:
    """Run a forest that is answered in full; what it computes for the first time is what it must."""
    expected = expect(forest.orders, forest.columns, alike=forest.alike)
    figures = run(forest, expected)
    needed = figures.fresh_tokens - figures.recomputed_tokens
    assert expected.fresh_tokens <= needed <= expected.fresh_tokens + expected.slack
    if forest.alike and forest.roomy:
        assert figures.prefix_tokens_saved >= expected.whole_tokens - needed
        if not expected.slack:
            assert figures.prefix_tokens_saved == expected.whole_tokens - needed


@settings(max_examples=60, deadline=None)
@given(groves(roomy=True))
def test_every_shared_token_is_computed_once_where_the_arena_has_room(grove: Grove) -> None:
    grove.each(run_exactly)


@settings(max_examples=60, deadline=None)
@given(groves())
def test_answers_are_exact_in_an_arena_that_is_barely_enough(grove: Grove) -> None:
    grove.each(run_exactly)


@settings(max_examples=60, deadline=None)
@given(groves(roomy=True, alike=True))
def test_every_token_that_texts_begin_with_alike_is_computed_once(grove: Grove) -> None:
    grove.each(run_exactly)


@settings(max_examples=60, deadline=None)
@given(groves(alike=True))
def test_texts_that_begin_alike_are_answered_exactly_in_an_arena_that_is_barely_enough(grove: Grove) -> None:
    grove.each(run_exactly)


def disturb(forest: Forest, expected: Expected, random: Random) -> None:
    """Run a forest, chunks planned ahead; some fail or lack memory, some orders come late or are cancelled."""
    runner = FakeRunner(forest.arena, forest.chunk)
    limits = Limits(forest.arena, forest.chunk, 1 << 20)
    scheduler = Scheduler(limits, forest.columns.__getitem__, forest.rule)
    late, orders = list(enumerate(forest.orders)), dict[int, int]()
    flying: deque[tuple[Chunk, Head]] = deque()
    trouble = random.choice((0.0, 0.004, 0.02, 0.1))
    missing, finished, dropped = dict(expected.values), set[int](), set[int]()
    while late or flying or scheduler.running:
        if late and random.random() < 0.3:
            index, order = late.pop(0)
            orders[scheduler.submit(order)] = index
        if scheduler.running and random.random() < trouble:
            ticket = random.choice(scheduler.running)
            scheduler.cancel(ticket)
            dropped.add(ticket)
        if flying and random.random() < trouble:
            flying.clear()
            dropped.update(scheduler.fail())
            assert scheduler.arena.free == scheduler.arena.total
            runner.forget([0], [forest.arena])
        if flying and random.random() < trouble and scheduler.shrink():
            flying.clear()
            assert scheduler.arena.free == scheduler.arena.total
            runner.forget([0], [forest.arena])
        finished.update(report.ticket for report in scheduler.finish_empty())
        chunk = scheduler.schedule() if len(flying) < random.randint(1, 2) else None
        if chunk is not None:
            flying.append((chunk, scheduler.head))
        elif flying:
            chunk, head = flying.popleft()
            runner.set_answer_tokens(*head)
            for report in scheduler.settle(runner.run(chunk), 1.0):
                assert report.ticket not in dropped | finished
                for answers in report.answers:
                    for item, value in zip(answers.items.tolist(), answers.values.tolist(), strict=True):
                        due = missing.pop((orders[report.ticket], answers.ask, item))
                        assert agree(value, due)
                if report.finished:
                    finished.add(report.ticket)
        else:
            assert not scheduler.running, "orders run, but no chunk of theirs can"
    assert scheduler.arena.free == scheduler.arena.total
    assert finished | dropped == orders.keys()
    heard = expect(forest.orders, forest.columns, expected.values.keys() - missing.keys())
    for index in (orders[ticket] for ticket in finished):
        check_end(
            forest.orders[index], {item: ended for (n, item), ended in heard.outcomes.items() if n == index}
        )


@settings(max_examples=40, deadline=None)
@given(groves(roomy=True, early=True))
def test_orders_that_end_early_leave_out_only_what_is_not_needed(grove: Grove) -> None:
    grove.each(run_early)


@settings(max_examples=40, deadline=None)
@given(groves(early=True))
def test_orders_end_early_in_an_arena_that_is_barely_enough(grove: Grove) -> None:
    grove.each(run_early)


@settings(max_examples=30, deadline=None)
@given(groves(early=True), st.integers(0, 1 << 32))
def test_orders_that_end_early_are_undisturbed_by_what_happens_to_others(grove: Grove, seed: int) -> None:
    grove.each(lambda forest: disturb(forest, expect(forest.orders, forest.columns), Random(seed)))


@settings(max_examples=30, deadline=None)
@given(groves() | groves(alike=True), st.integers(0, 1 << 32))
def test_what_is_not_dropped_is_answered_whatever_happens_to_the_others(grove: Grove, seed: int) -> None:
    grove.each(lambda forest: disturb(forest, expect(forest.orders, forest.columns), Random(seed)))


@pytest.mark.parametrize(
    ("seed", "size", "arena", "chunk"),
    [
        pytest.param(
            2625471629, 5, 292, 11, id="a prompt longer than a chunk is drawn when memory runs short"
        ),
        pytest.param(1892739140, 4, 100_027, 4, id="a pair's text stands where another ask has the anchor's"),
    ],
)
def test_forests_that_failed_once(seed: int, size: int, arena: int, chunk: int) -> None:
    forest = replace(build_forest(seed, size, roomy=False), arena=arena, chunk=chunk)
    run(forest, expect(forest.orders, forest.columns))


def test_what_pairs_hold_already_is_not_kept_for_them_once_more() -> None:
    """The last pair of a chunk computed anew what those behind it hold from an earlier one."""
    forest = build_forest(78, 5, roomy=False)
    disturb(forest, expect(forest.orders, forest.columns), Random(1))
