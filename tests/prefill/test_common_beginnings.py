"""Texts that begin alike, query by query: what is computed is a trie of tokens, and figures say what that saved."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from covey_engine.prefill.api import Anchor, Argument, Ask, Figures, Literal, Partner, WorkOrder, YesNo
from covey_engine.prefill.scheduling.orders import Columns, Limits
from covey_engine.prefill.scheduling.prefixes import Rule
from covey_engine.prefill.scheduling.scheduler import Scheduler
from support.expected import expect
from support.fake_runner import FakeRunner
from support.families import traces
from support.memory_column import MemoryColumn
from support.tries import trie_tokens

HEAD, FIRST, SECOND = Literal((1, 2, 3)), Literal((4, 5, 6, 7)), Literal((8, 9))
READOUT = YesNo((3,), (4,))
TURNS = traces(Random(1), 6, 8, 60)
RANDOM = Random(2)
FORM = [RANDOM.randrange(1000) for _ in range(50)]
FORMS = [FORM + [RANDOM.randrange(1000) for _ in range(RANDOM.randint(5, 15))] for _ in range(30)]
NOTES = [[RANDOM.randrange(1000) for _ in range(RANDOM.randint(3, 6))] for _ in range(6)]
COLUMNS = {"turns": MemoryColumn(TURNS), "forms": MemoryColumn(FORMS), "notes": MemoryColumn(NOTES)}


def rows(folder: str, count: int | None = None) -> tuple[Argument, ...]:
    slots = np.random.default_rng(3).permutation(len(COLUMNS[folder])).astype(np.int32)
    return (Argument(folder, slots[:count]),)


def ask(*suffix: Literal | Anchor | Partner, **after: int) -> Ask:
    return Ask(suffix, READOUT, **after)


def question(query: str, folder: str, *asks: Ask) -> WorkOrder:
    return WorkOrder(query, (HEAD, Anchor()), asks or (ask(FIRST),), rows(folder))


def join(query: str, anchors: str, partners: str, prefix: Literal = HEAD) -> WorkOrder:
    asks = (ask(FIRST, Partner(), SECOND),)
    return WorkOrder(query, (prefix, Anchor()), asks, rows(anchors, 8), rows(partners, 6))


CHAIN = (ask(FIRST, on_true=1, on_false=1), ask(SECOND, on_true=2), ask(FIRST, SECOND))
SECOND_TEXT = (ask(FIRST, on_true=1), ask(SECOND, Anchor(), SECOND))
WORKLOADS = {
    "filter over traces": [question("q", "turns")],
    "filter over forms": [question("q", "forms")],
    "question first": [WorkOrder("q", (FIRST,), (ask(Anchor(), SECOND),), rows("turns"))],
    "chain of filters": [question("q", "turns", *CHAIN)],
    "a text that comes again": [question("q", "forms", *SECOND_TEXT)],
    "join with traces as anchors": [join("q", "turns", "notes")],
    "join with forms as partners": [join("q", "notes", "forms")],
    "join of both": [join("q", "turns", "forms")],
    "star": [join("q", "turns", "notes"), join("q", "turns", "forms")],
    "chain of joins": [join("q", "turns", "notes"), join("q", "notes", "forms"), join("q", "forms", "turns")],
    "two queries on a column": [question("a", "turns"), question("b", "turns", ask(SECOND))],
    "two queries, some rows": [question("a", "turns"), join("b", "turns", "notes")],
}


def run(orders: list[WorkOrder], arena: int = 60_000, chunk: int = 2_000, ahead: bool = True) -> Figures:
    runner = FakeRunner(arena, chunk)
    scheduler = Scheduler(Limits(arena, chunk, 1 << 20), COLUMNS.__getitem__)
    tickets = {scheduler.submit(order): index for index, order in enumerate(orders)}
    expected = expect(tuple(orders), COLUMNS).values
    total = Figures()
    while scheduler.running:
        runner.set_answer_tokens(*scheduler.head)
        chunks = [scheduler.schedule()]
        assert chunks[0] is not None
        if ahead and (following := scheduler.schedule()) is not None:
            chunks.append(following)
        for planned in chunks:
            assert planned is not None
            for report in scheduler.settle(runner.run(planned), 1.0):
                for answers in report.answers:
                    for item, margin in zip(answers.items.tolist(), answers.margins.tolist(), strict=True):
                        due = expected.pop((tickets[report.ticket], answers.ask, item))
                        assert margin == pytest.approx(due, abs=1e-5)
                if report.finished:
                    total += report.figures
            scheduler.check()
    assert not expected
    assert scheduler.arena.free == scheduler.arena.total
    assert total.fresh_tokens == runner.embedded
    return total


@pytest.mark.parametrize("name", WORKLOADS)
def test_what_is_computed_is_a_trie_of_tokens(name: str) -> None:
    expected = expect(tuple(WORKLOADS[name]), COLUMNS, alike=True)
    figures = run(WORKLOADS[name])
    assert expected.fresh_tokens < 0.95 * expected.whole_tokens
    assert figures.fresh_tokens - figures.recomputed_tokens == expected.fresh_tokens
    # Where all of a prompt is there, its last token is computed once more.
    assert figures.recomputed_tokens <= (2 if name == "two queries, some rows" else 0)
    assert figures.prefix_tokens_saved == expected.whole_tokens - expected.fresh_tokens


def test_traces_cost_what_a_trie_of_them_has() -> None:
    figures = run(WORKLOADS["filter over traces"])
    assert trie_tokens(TURNS) == 6 * 8 * 60
    assert figures.fresh_tokens == 3 + 6 * 8 * 60 + 48 * 4
    assert figures.prefix_tokens_saved == sum(map(len, TURNS)) - 6 * 8 * 60


@pytest.mark.parametrize("name", WORKLOADS)
def test_answers_are_exact_where_the_arena_is_tight(name: str) -> None:
    figures = run(WORKLOADS[name], arena=700 + 200, chunk=200)
    expected = expect(tuple(WORKLOADS[name]), COLUMNS, alike=True)
    assert figures.fresh_tokens - figures.recomputed_tokens >= expected.fresh_tokens


@pytest.mark.parametrize("chunk", [60, 333])
@pytest.mark.parametrize("name", WORKLOADS)
def test_texts_longer_than_a_chunk_are_shared_too(name: str, chunk: int) -> None:
    expected = expect(tuple(WORKLOADS[name]), COLUMNS, alike=True)
    figures = run(WORKLOADS[name], chunk=chunk)
    assert figures.fresh_tokens - figures.recomputed_tokens == expected.fresh_tokens
    assert figures.prefix_tokens_saved == expected.whole_tokens - expected.fresh_tokens


def test_a_text_that_two_queries_cut_into_many_chunks_saves_once() -> None:
    name = "two queries on a column"
    expected = expect(tuple(WORKLOADS[name]), COLUMNS, alike=True)
    figures = run(WORKLOADS[name], chunk=11)
    assert figures.fresh_tokens == expected.fresh_tokens
    assert figures.prefix_tokens_saved == expected.whole_tokens - expected.fresh_tokens


def test_pairs_that_begin_alike_go_on_where_the_chunk_before_ended() -> None:
    """A hundred partners that differ in their last token only, four pairs a chunk."""
    beginning = [RANDOM.randrange(1000) for _ in range(30)]
    columns = {"notes": COLUMNS["notes"], "ends": MemoryColumn([[*beginning, 1000 + n] for n in range(100)])}
    asks = (ask(FIRST, Partner(), SECOND),)
    order = WorkOrder(
        "q", (HEAD, Anchor()), asks, rows("notes", 2), (Argument("ends", np.arange(100, dtype=np.int32)),)
    )
    runner = FakeRunner(3_000, 12)
    scheduler = Scheduler(Limits(3_000, 12, 1 << 20), columns.__getitem__)
    ticket, total, answered = scheduler.submit(order), Figures(), 0
    while scheduler.running:
        runner.set_answer_tokens(*scheduler.head)
        chunk = scheduler.schedule()
        assert chunk is not None
        (report,) = scheduler.settle(runner.run(chunk), 1.0)
        assert report.ticket == ticket
        answered += sum(len(answers.items) for answers in report.answers)
        total = report.figures
    assert answered == 200
    notes = [len(NOTES[slot]) for slot in order.anchors[0].slots.tolist()]
    assert total.fresh_tokens == 3 + sum(notes) + 2 * (4 + 30) + 200 * (1 + 2)
    assert total.recomputed_tokens == 0
    assert total.prefix_tokens_saved == 2 * 99 * 30


def test_rows_that_share_their_beginning_fill_a_chunk() -> None:
    scheduler = Scheduler(Limits(20_000, 600, 1 << 20), COLUMNS.__getitem__)
    scheduler.submit(question("q", "turns"))
    chunk = scheduler.schedule()
    assert chunk is not None
    assert len(chunk) > 540


def test_orders_have_the_same_pieces_as_long_as_they_know_the_texts() -> None:
    texts = traces(Random(4), 3, 4, 30)

    class Growing(MemoryColumn):
        def __init__(self) -> None:
            super().__init__(texts[:8])

        def refresh(self) -> None:
            super().__init__(texts)

    columns = Columns(lambda folder: Growing(), Rule())
    some, more = np.arange(8, dtype=np.int32), np.arange(12, dtype=np.int32)
    columns.acquire("c", some)
    first = columns.pieces("c", some)
    columns.acquire("c", some[:2])
    assert first is not None
    assert columns.pieces("c", some[:2]) is first
    columns.acquire("c", more)
    second = columns.pieces("c", more)
    assert second is not None
    assert columns.pieces("c", some) is second
    assert not set(first.folders) & set(second.folders)
    for _ in range(3):
        columns.release("c")
    columns.acquire("c", some)
    again = columns.pieces("c", some)
    assert again is not None
    assert again.folders == first.folders


def test_a_column_with_nothing_to_share_is_left_alone() -> None:
    order = question("q", "notes")
    scheduler = Scheduler(Limits(5_000, 500, 1 << 20), COLUMNS.__getitem__)
    (prepared,) = scheduler.prepare(order)
    assert prepared.order is order
    assert [side.head for side in prepared.anchors] == [None]
