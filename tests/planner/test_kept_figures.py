"""Figures that are kept while their tables are what they were, and counts that are finished behind a statement."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import duckdb
import pytest
from covey_planner.cost import duck_figures
from covey_planner.cost.duck_figures import DuckFigures
from covey_planner.cost.kept import TOO_LONG, KeptFigures, Later
from covey_planner.cost.statistics import Count

ROWS = 50_000
TICKETS = "memory.main.tickets"
ODD = "SELECT 1 FROM tickets WHERE hash(body) % 2 = 1"


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(
            f"CREATE TABLE tickets AS SELECT i AS id, 'ticket ' || (i % 20000) AS body FROM range({ROWS}) r(i)"
        )
        connection.execute("CREATE TABLE parts AS SELECT i AS id FROM range(10) r(i)")
        yield connection


def kept_of(figures: KeptFigures, key: str) -> object:
    return figures.get(key, {TICKETS: float(ROWS), "parts": 10.0}.__getitem__)


def test_a_figure_is_kept_while_its_tables_have_the_rows_that_they_had() -> None:
    kept = KeptFigures(most=2)
    kept.keep("a", {TICKETS: ROWS, "parts": 10}, 1.0, kept.now)
    kept.keep("b", {TICKETS: ROWS + 1}, 2.0, kept.now)
    assert (kept_of(kept, "b"), kept_of(kept, "a")) == (None, 1.0)
    kept.keep("c", {"parts": 10}, 3.0, kept.now)
    assert (kept_of(kept, "a"), kept_of(kept, "b"), kept_of(kept, "c")) == (1.0, None, 3.0)


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ("insert into tickets values", {"b", "c"}),
        ('update "odd name" set', {"a", "b"}),
        ("insert into other values", {"a", "b", "c"}),
        ("create or replace view parts as", set()),
    ],
)
def test_writes_forget_what_they_name(words: str, left: set[str]) -> None:
    kept = KeptFigures()
    before = kept.now
    for key, table in (("a", TICKETS), ("b", "memory.main.Parts"), ("c", 'memory.main."Odd ""name"')):
        kept.keep(key, {table: 1}, 1.0, before)
    names = {*words.split(), 'odd "name'} if "odd" in words else {*words.split()}
    kept.forget(frozenset(names))
    assert {key for key in "abc" if kept.get(key, lambda _: 1.0) is not None} == left
    for key, table in (("a", TICKETS), ("b", "memory.main.Parts"), ("c", 'memory.main."Odd ""name"')):
        kept.keep(key, {table: 1}, 1.0, before)
    found = {key for key in "abc" if kept.get(key, lambda _: 1.0) is not None}
    assert found == left, "what was read before a write is not kept"
    assert len(kept._by_table) == len(left)


def test_a_count_without_time_is_estimated_and_found_for_the_next_statement(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    kept = KeptFigures(connection.cursor)
    (exact,) = connection.execute(f"SELECT count(*) FROM ({ODD})").fetchall()[0]
    first = DuckFigures(connection, left=0.0, kept=kept)
    assert not first.count(ODD).exact
    assert first.sketch("tickets", "body") is None
    assert not first.count(ODD).exact, "a statement's figures stay what they were"
    groups = "SELECT body FROM tickets GROUP BY body HAVING count(*) > 2"
    assert not first.count(groups).exact
    kept.settle()
    again = DuckFigures(connection, left=0.0, kept=kept)
    assert again.count(ODD) == Count(exact, exact=True)
    assert again.count(groups) == Count(10_000, exact=True)
    assert again.sketch("tickets", "body") == pytest.approx(20_000, rel=0.1)
    connection.execute("INSERT INTO tickets SELECT * FROM tickets LIMIT 1")
    assert not DuckFigures(connection, left=0.0, kept=kept).count(ODD).exact
    kept.close()


def test_joins_are_not_counted_behind_a_statement(connection: duckdb.DuckDBPyConnection) -> None:
    kept = KeptFigures(connection.cursor)
    pairs = "SELECT 1 FROM tickets t JOIN tickets o ON t.body = o.body"
    for _ in range(2):
        assert not DuckFigures(connection, left=0.0, kept=kept).count(pairs).exact
        kept.settle()


def test_what_took_too_long_is_not_tried_again(
    connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, asked = KeptFigures(), list[str]()

    def ask(self: DuckFigures, sql: str, sure: bool = False) -> list[object] | None:
        if sure:
            return original(self, sql, sure)
        asked.append(sql)
        return None

    original = DuckFigures.ask
    monkeypatch.setattr(DuckFigures, "ask", ask)
    pairs = "SELECT 1 FROM tickets t JOIN tickets o ON t.body = o.body"
    found = [DuckFigures(connection, kept=kept).count(pairs) for _ in range(2)]
    assert len(asked) == 1
    assert found[0] == found[1]
    assert not found[0].exact


def test_nothing_is_tried_that_cannot_end_in_time(
    connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duck_figures, "_BYTE_S", 1.0)
    figures = DuckFigures(connection, left=60.0)
    assert figures.sketch("tickets", "body") is None
    assert figures.left == 60.0
    assert figures.sketch("tickets", "id") == pytest.approx(ROWS, rel=0.1)


def test_so_many_rows_are_counted_for_one_statement_and_no_recursion(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    connection.execute("CREATE TABLE several AS SELECT i AS id FROM range(15000) r(i)")
    figures = DuckFigures(connection, left=0.0)
    exact = [figures.count(f"SELECT 1 FROM several WHERE id % 7 = {n}").exact for n in range(6)]
    assert exact == [True] * 4 + [False] * 2
    endless = "WITH RECURSIVE n AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM n WHERE n < 1000000000) SELECT n FROM n"
    assert not DuckFigures(connection, left=0.01).count(endless).exact


def test_a_transaction_neither_reads_nor_keeps_figures(connection: duckdb.DuckDBPyConnection) -> None:
    kept = KeptFigures()
    count = DuckFigures(connection, left=60.0, kept=kept).count(ODD)
    assert count.exact
    connection.begin()
    connection.execute("UPDATE tickets SET body = body || '!'")
    assert not DuckFigures(connection, in_transaction=True, kept=kept).count(ODD).exact
    connection.rollback()
    assert DuckFigures(connection, left=0.0, kept=kept).count(ODD) == count


def test_closing_ends_what_is_under_way(connection: duckdb.DuckDBPyConnection) -> None:
    begun = threading.Event()

    def cursor() -> duckdb.DuckDBPyConnection:
        begun.set()
        return connection.cursor()

    kept = KeptFigures(cursor)
    long = "SELECT count(*) FROM range(100000) a, range(100000) b WHERE hash(a.range, b.range) % 7 = 1"
    for number in range(3):
        assert kept.later(Later(number, {}, long, kept.now))
    begun.wait()
    kept.close()
    assert not kept.later(Later("more", {}, long, kept.now))
    assert kept.get(2, lambda _: 0.0) is None
    assert kept.get(0, lambda _: 0.0) in (None, TOO_LONG)
