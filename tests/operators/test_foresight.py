"""Figures asked for together: the same as those asked for one by one, in fewer queries; and limits of time."""

from __future__ import annotations

import threading

import duckdb
import pytest
from covey_planner.cost.duck_figures import DuckFigures
from covey_planner.cost.kept import KeptFigures
from covey_planner.cost.limits import at_most
from covey_planner.cost.stored import StoredStatistics
from covey_planner.plan import PlanOptions, plan
from covey_planner.profiles import load_profile
from covey_storage.catalog import Database
from covey_storage.library import TokenLibrary
from covey_storage.tokenizer import Tokenizer

TABLES = """
CREATE TABLE tickets AS SELECT i AS id, i % 10 AS part, i % 20 AS place, i % 30 AS "odd ""day",
    'ticket ' || (i % 500) AS body FROM range(3000) r(i);
CREATE TABLE parts AS SELECT i AS id, 'part ' || i AS name FROM range(10) r(i);
CREATE TABLE places AS SELECT i AS id, 'place ' || i AS about FROM range(20) r(i);
CREATE TABLE days AS SELECT i AS id, CASE WHEN i % 2 = 0 THEN 'day ' || i END AS weather FROM range(30) r(i);
CREATE TABLE empty_one (id INTEGER, body VARCHAR);
CREATE VIEW both_parts AS SELECT id, name FROM parts UNION ALL SELECT id, about FROM places;
CREATE VIEW late AS SELECT * FROM tickets WHERE id > 1000;
CREATE VIEW broken AS SELECT * FROM places;
"""
STAR = (
    "EXPLAIN SELECT t.id FROM tickets t JOIN parts p ON t.part = p.id JOIN places l ON l.id = t.place"
    " JOIN days d ON t.\"odd \"\"day\" = d.id WHERE AI_FILTER('a?', body) AND AI_FILTER('b?', name)"
    " AND AI_FILTER('c?', about) AND AI_FILTER('d?', weather)"
)
KEYS = [("tickets", "part"), ("parts", "id"), ("tickets", 'odd "day'), ("empty_one", "id"), ("late", "place")]
TEXTS = [("tickets", "body"), ("days", "weather"), ("both_parts", "name"), ("empty_one", "body")]


@pytest.fixture
def made(cursor: duckdb.DuckDBPyConnection) -> None:
    cursor.execute(TABLES)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What DuckDB is asked."""
    queries: list[str] = []
    ask = DuckFigures.ask

    def listed(self: DuckFigures, sql: str, sure: bool = False) -> list[object] | None:
        queries.append(sql)
        return ask(self, sql, sure)

    monkeypatch.setattr(DuckFigures, "ask", listed)
    return queries


def figures(statistics: StoredStatistics) -> list[object]:
    names = dict.fromkeys(table for table, _ in [*KEYS, *TEXTS])
    return [
        *(statistics.duck.table(name) for name in names),
        *(statistics.duck.column(*place) for place in [*KEYS, *TEXTS]),
        *(statistics.distinct(*place) for place in KEYS),
        *(statistics.tokens(*place) for place in TEXTS),
    ]


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("in_transaction", [False, True])
def test_figures_found_together_are_those_found_one_by_one(
    cursor: duckdb.DuckDBPyConnection, library: TokenLibrary, asked: list[str], in_transaction: bool
) -> None:
    alone = figures(StoredStatistics(cursor, library, in_transaction, left=0.0))
    one_by_one = len(asked)
    asked.clear()
    statistics = StoredStatistics(cursor, library, in_transaction, left=0.0)
    if in_transaction:
        cursor.execute("BEGIN")
    statistics.foresee(KEYS, TEXTS)
    together = len(asked)
    assert figures(statistics) == alone
    assert together <= 6
    assert len(asked) < one_by_one / 2


@pytest.mark.usefixtures("made")
def test_a_star_asks_a_few_queries_whatever_its_columns(
    database: Database, library: TokenLibrary, tokenizer: Tokenizer, asked: list[str]
) -> None:
    options = PlanOptions(load_profile("smollm2_question_first"), encode=tokenizer.encode, sampling=True)
    kept = KeptFigures()

    def queries(beginning: str) -> int:
        return sum(beginning in sql for sql in asked)

    planned = plan(STAR, database, options, (), StoredStatistics(database.cursor(), library, kept=kept))
    assert planned.text
    assert queries("stats(") == 1
    assert queries("left(CAST(") == 1
    assert queries('"tickets" UNION ALL SELECT 1 FROM') == 1, "the outlines of the tables"
    assert queries('count(DISTINCT "') == 1, "what is small is counted together"
    assert queries('SELECT "name" AS __covey_x0') == queries('SELECT "weather" AS __covey_x0') == 1, (
        "and its texts"
    )
    assert sum(sql.startswith("EXPLAIN") for sql in asked) == 2, "and the one of the join"
    asked.clear()
    again = plan(STAR, database, options, (), StoredStatistics(database.cursor(), library, kept=kept))
    assert [step.items for step in again.estimates] == [step.items for step in planned.estimates]
    assert len(asked) == 1, "only whether the tables have the rows that they had"


@pytest.mark.usefixtures("made")
def test_one_table_that_cannot_be_read_leaves_the_others_as_they_are(
    cursor: duckdb.DuckDBPyConnection, library: TokenLibrary
) -> None:
    cursor.execute("ALTER TABLE places RENAME TO gone")
    statistics = StoredStatistics(cursor, library)
    statistics.foresee([("parts", "id"), ("broken", "id")], [("parts", "name")])
    assert statistics.rows("parts").value == 10
    with pytest.raises(duckdb.Error, match="places"):
        statistics.rows("broken")


@pytest.mark.usefixtures("made")
def test_what_cannot_be_counted_in_time_is_not_begun(
    cursor: duckdb.DuckDBPyConnection, asked: list[str]
) -> None:
    cursor.execute("INSERT INTO tickets SELECT i, i % 10, 0, 0, '' FROM range(200_000) r(i)")
    join = "SELECT 1 FROM tickets t JOIN parts p ON t.part = p.id JOIN places l ON t.place = l.id"
    figures = DuckFigures(cursor, left=1e-4)
    assert figures.outline(join).joins == 2
    asked.clear()
    assert not figures.count(join).exact
    assert not asked
    figures = DuckFigures(cursor, left=60.0)
    assert figures.count(join).exact


def test_an_interruption_that_comes_too_early_is_followed_by_others() -> None:
    class Interrupted:
        def __init__(self) -> None:
            self.times = 0
            self.often = threading.Event()

        def interrupt(self) -> None:
            self.times += 1
            if self.times == 3:
                self.often.set()

    cursor = Interrupted()
    with at_most(cursor, 0.0):  # type: ignore[arg-type]
        assert cursor.often.wait(60)
    times = cursor.times
    with at_most(cursor, 60.0):  # type: ignore[arg-type]
        pass
    assert cursor.times == times
