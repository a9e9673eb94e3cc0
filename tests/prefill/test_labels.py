"""Orders for labels over a fake runner: scores, every token counted, errors of rows, cancelling, refusals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from covey_engine.prefill.api import (
    Anchor,
    Answers,
    Argument,
    Ask,
    Figures,
    Labels,
    Literal,
    Pairs,
    Partner,
    WorkOrder,
    YesNo,
)
from covey_engine.prefill.errors import EngineError
from covey_engine.prefill.scheduling.orders import Limits
from covey_engine.prefill.scheduling.scheduler import Scheduler
from covey_engine.prefill.scheduling.settling import NOT_FINITE
from support.fake_runner import FakeRunner, plain_margin, plain_scores
from support.memory_column import MemoryColumn

HEAD = Literal((9, 8))
DOCUMENTS = MemoryColumn([[20 + n % 3, n, *range(n % 11), 30 + n] for n in range(300)])
NAMES = MemoryColumn([[n, 50 + n % 3] for n in range(20)])
COLUMNS = {"documents": DOCUMENTS, "names": NAMES}
COLOURS = Labels(((1, 2, 3), (1, 2, 4), (1, 5), (6,), (6, 7, 7, 7), (1, 2, 3)))
MANY = Labels(tuple((n % 3, n % 5, n // 5, 11) for n in range(30)))


@dataclass
class Bench:
    """A scheduler with its runner, and what it answered so far, by ticket, ask and item."""

    arena: int = 10_000
    chunk: int = 200
    found: dict[tuple[int, int, int], Any] = field(default_factory=dict)
    errors: dict[tuple[int, int, int], str | None] = field(default_factory=dict)
    figures: dict[int, Figures] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.runner = FakeRunner(self.arena, self.chunk)
        self.scheduler = Scheduler(Limits(self.arena, self.chunk, 1 << 20), COLUMNS.__getitem__)

    def step(self) -> None:
        chunk = self.scheduler.schedule()
        assert chunk is not None
        self.runner.set_answer_tokens(*self.scheduler.head)
        for report in self.scheduler.settle(self.runner.run(chunk)):
            for answers in report.answers:
                self._keep(report.ticket, answers)
            self.figures[report.ticket] = report.figures
        self.scheduler.check()

    def _keep(self, ticket: int, answers: Answers) -> None:
        for item, values in zip(answers.items.tolist(), answers.values.tolist(), strict=True):
            assert (ticket, answers.ask, item) not in self.found, "answered twice"
            self.found[ticket, answers.ask, item] = values
            self.errors[ticket, answers.ask, item] = answers.error

    def run(self, *orders: WorkOrder) -> list[int]:
        tickets = [self.scheduler.submit(order) for order in orders]
        while self.scheduler.running:
            self.step()
        self.clean()
        assert sum(figures.fresh_tokens for figures in self.figures.values()) == self.runner.embedded
        return tickets

    def clean(self) -> None:
        self.scheduler.check()
        assert self.scheduler.arena.free == self.scheduler.arena.total


def scan(rows: int, *sets: Labels, query: str = "q", question: int = 1) -> WorkOrder:
    """Each set of labels asked of the first documents, each by a question of its own."""
    asks = tuple(Ask((Literal((question + n, 2)),), labels) for n, labels in enumerate(sets))
    slots = np.arange(rows, dtype=np.int32)
    return WorkOrder(query, (HEAD, Anchor()), asks, (Argument("documents", slots),))


def prompt(document: int, *rest: int) -> tuple[int, ...]:
    return (*HEAD.tokens, *DOCUMENTS.tokens(document).tolist(), *rest)


def inner_tokens(labels: Labels) -> int:
    """Distinct beginnings of labels that are not a whole prompt nor a whole branch: each is one token to compute."""
    return len({label[:n] for label in labels.labels for n in range(1, len(label))})


def documents(rows: int) -> int:
    return len(HEAD.tokens) + int(DOCUMENTS.lengths[:rows].sum())


def scores(tokens: Sequence[int], labels: Labels) -> Any:
    return pytest.approx(plain_scores(tokens, labels), abs=1e-4)


@pytest.mark.parametrize("chunk", [60, 75, 500, 5_000])
def test_an_item_costs_its_document_and_the_inner_tokens_of_the_trie(chunk: int) -> None:
    bench = Bench(chunk=chunk)
    (ticket,) = bench.run(scan(100, MANY))
    assert bench.found == {(ticket, 0, n): scores(prompt(n, 1, 2), MANY) for n in range(100)}
    figures = bench.figures[ticket]
    assert figures.fresh_tokens == documents(100) + 100 * (2 + inner_tokens(MANY))
    assert figures.recomputed_tokens == 0
    assert figures.prompts == 100 * (1 + inner_tokens(MANY))


def test_labels_of_one_token_cost_nothing_beside_the_prompt() -> None:
    labels = Labels(((3,), (4,), (17,)))
    bench = Bench()
    (ticket,) = bench.run(scan(100, labels))
    assert bench.found == {(ticket, 0, n): scores(prompt(n, 1, 2), labels) for n in range(100)}
    assert bench.figures[ticket].fresh_tokens == documents(100) + 100 * 2


@pytest.mark.parametrize("arena", [10_000, 700])
def test_two_label_sets_at_once_share_the_documents(arena: int) -> None:
    """Also where the arena holds a small part of the documents."""
    bench = Bench(arena=arena)
    (ticket,) = bench.run(scan(300, COLOURS, MANY))
    for ask, labels in enumerate((COLOURS, MANY)):
        for n in range(300):
            assert bench.found.pop((ticket, ask, n)) == scores(prompt(n, 1 + ask, 2), labels)
    assert not bench.found
    inner = inner_tokens(COLOURS) + inner_tokens(MANY)
    assert bench.figures[ticket].fresh_tokens == documents(300) + 300 * (4 + inner)


def test_orders_with_different_label_sets_and_a_filter_share_the_documents() -> None:
    filtered = replace(scan(100, COLOURS), asks=(Ask((Literal((7,)),), YesNo((3,), (4,))),))
    bench = Bench()
    first, second, third = bench.run(scan(100, MANY), scan(100, COLOURS, query="other"), filtered)
    for n in range(100):
        assert bench.found[first, 0, n] == scores(prompt(n, 1, 2), MANY)
        assert bench.found[second, 0, n] == scores(prompt(n, 1, 2), COLOURS)
        margin = plain_margin(prompt(n, 7), YesNo((3,), (4,)))
        assert bench.found[third, 0, n] == pytest.approx(margin, abs=1e-5)
    both = inner_tokens(Labels(MANY.labels + COLOURS.labels))
    least, most = documents(100) + 100 * (3 + both), documents(100) + 100 * (5 + 2 * both)
    assert least <= bench.runner.embedded <= most


@pytest.mark.parametrize("listed", [False, True])
def test_labels_of_pairs(listed: bool) -> None:
    ask = Ask((Literal((5,)), Partner(), Literal((6,))), COLOURS)
    slots = np.arange(10, dtype=np.int32)
    names = np.array([3, 1, 4, 1], np.int32)
    order = WorkOrder("q", (Anchor(),), (ask,), (Argument("documents", slots),), (Argument("names", names),))
    met = [(a, p) for a in range(10) for p in range(4)]
    if listed:
        met = [(a, p) for a in range(10) for p in (2, 0, 3) if (a + p) % 3]
        offsets = np.searchsorted([a for a, _ in met], np.arange(11)).astype(np.int64)
        order = replace(order, pairs=Pairs(offsets, np.array([p for _, p in met], np.int32)))
    bench = Bench(chunk=90)
    (ticket,) = bench.run(order)
    assert len(bench.found) == len(met)
    for item, (anchor, partner) in enumerate(met):
        text = (*DOCUMENTS.tokens(anchor).tolist(), 5, *NAMES.tokens(int(names[partner])).tolist(), 6)
        assert bench.found[ticket, 0, item] == scores(text, COLOURS)
    distinct = {(a, int(names[p])) for a, p in met}
    fresh = int(DOCUMENTS.lengths[:10].sum()) + 10 + len(distinct) * (3 + inner_tokens(COLOURS))
    assert bench.figures[ticket].fresh_tokens == fresh


def test_a_row_that_is_not_finite_gets_its_own_error_and_all_of_its_scores_are_missing() -> None:
    bench = Bench()
    bench.runner.bad = frozenset({30 + 7})
    order = replace(scan(20, COLOURS), asks=(Ask((), COLOURS),))
    (ticket,) = bench.run(order)
    assert bench.errors.pop((ticket, 0, 7)) == NOT_FINITE
    assert np.isnan(bench.found.pop((ticket, 0, 7))).all()
    assert set(bench.errors.values()) == {None}
    assert bench.found == {(ticket, 0, n): scores(prompt(n), COLOURS) for n in range(20) if n != 7}


def test_a_bad_token_within_the_labels_spoils_every_row() -> None:
    bench = Bench()
    bench.runner.bad = frozenset({5, 2})
    (ticket,) = bench.run(replace(scan(20, COLOURS), asks=(Ask((), COLOURS),)))
    assert set(bench.errors.values()) == {NOT_FINITE}
    assert np.isnan([bench.found[ticket, 0, n] for n in range(20)]).all()


@pytest.mark.parametrize("steps", [0, 1, 5, 12])
def test_cancelling_leaves_nothing_behind(steps: int) -> None:
    bench = Bench(arena=900, chunk=60)
    ticket, stays = (bench.scheduler.submit(scan(300, MANY, COLOURS)), bench.scheduler.submit(scan(9, MANY)))
    for _ in range(steps):
        bench.step()
    bench.scheduler.schedule()
    bench.scheduler.cancel(ticket)
    bench.scheduler.check()
    bench.scheduler.cancel(stays)
    assert bench.scheduler.running == ()
    assert bench.scheduler.head == ((), False)
    bench.clean()


def test_a_chunk_that_fails_takes_whole_orders_with_it() -> None:
    bench = Bench()
    lost = bench.scheduler.submit(scan(300, MANY, COLOURS))
    bench.scheduler.schedule()
    assert bench.scheduler.fail() == [lost]
    bench.clean()
    bench.run(scan(5, MANY))


def test_nobody_to_ask() -> None:
    bench = Bench()
    ticket = bench.scheduler.submit(scan(0, COLOURS, MANY))
    (report,) = bench.scheduler.finish_empty()
    assert (report.ticket, report.finished, report.answers) == (ticket, True, ())
    assert not bench.scheduler.running


@pytest.mark.parametrize(
    ("asks", "message"),
    [
        ((Ask((), Labels(())),), "ask 0 needs at least one label"),
        ((Ask((), Labels(((1,), ()))),), "label 1 of ask 0 has no tokens"),
        ((Ask((), COLOURS, 1, 1), Ask((), COLOURS)), "ask 0 is for labels, which are neither true nor false"),
        ((Ask((), YesNo((1,), (2,))), Ask((), COLOURS)), "either for labels or for yes and no"),
        ((Ask((), COLOURS), Ask((), Labels(((1 << 20,), (1 << 20, 1))))), "slot 1048577 was asked for"),
    ],
)
def test_orders_that_can_never_run(asks: tuple[Ask, ...], message: str) -> None:
    bench = Bench()
    with pytest.raises(EngineError, match=message):
        bench.scheduler.submit(replace(scan(5, COLOURS), asks=asks))
    bench.clean()
    bench.run(scan(5, COLOURS))


def test_labels_that_are_longer_than_the_context() -> None:
    scheduler = Scheduler(Limits(1_000, 100, 20), COLUMNS.__getitem__)
    labels = Labels(((1,) * 20,))
    with pytest.raises(EngineError, match="anchor 4 has 30 tokens, the model's context is 20"):
        scheduler.submit(scan(5, labels))
