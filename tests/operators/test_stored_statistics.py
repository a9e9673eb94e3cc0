"""Statistics of stored tables: counted where that is quick, estimated and marked as such where it is not."""

from __future__ import annotations

import duckdb
import pytest
from covey_planner.cost.kept import KeptFigures
from covey_planner.cost.statistics import DEFAULT, Count, KeyOverlap, Selectivity, TokenCount, hinted
from covey_planner.cost.stored import StoredStatistics
from covey_planner.physical import CallKey, Given, TextArgument
from covey_storage.library import TokenLibrary

BIG = 100_000
DISTINCT = 5_000


@pytest.fixture
def statistics(cursor: duckdb.DuckDBPyConnection, library: TokenLibrary) -> StoredStatistics:
    return StoredStatistics(cursor, library)


@pytest.fixture
def big(cursor: duckdb.DuckDBPyConnection) -> None:
    cursor.execute(
        "CREATE TABLE big AS SELECT i AS id, i % 10 AS part,"
        f" 'text ' || lpad(CAST(i % {DISTINCT} AS VARCHAR), 5, '0') AS body FROM range({BIG}) r(i)"
    )


@pytest.fixture
def hurried(cursor: duckdb.DuckDBPyConnection, library: TokenLibrary) -> StoredStatistics:
    """Statistics whose time is up: they count only what costs nothing."""
    return StoredStatistics(cursor, library, left=0.0)


def given(rows: str) -> Given:
    return Given(rows, frozenset({"big"}))


def test_small_tables_are_counted(statistics: StoredStatistics) -> None:
    assert statistics.rows("docs") == Count(63, exact=True)
    assert statistics.rows("nothing") == Count(0, exact=True)
    assert statistics.distinct("docs", "body") == Count(42, exact=True)
    assert statistics.distinct("docs", "lang") == Count(3, exact=True)
    assert statistics.matching("SELECT 1 FROM docs WHERE lang = 'de'") == Count(21, exact=True)


def test_tokens_are_exact_once_the_column_is_built(
    statistics: StoredStatistics, cursor: duckdb.DuckDBPyConnection, library: TokenLibrary
) -> None:
    found = statistics.tokens("terms", "name")
    assert not found.exact
    library.column("terms", "name")
    fresh = StoredStatistics(cursor, library).tokens("terms", "name")
    # `term 0` to `term 6`, one of them twice, a token a byte.
    assert fresh == TokenCount(rows=8, distinct=7, total=48, distinct_total=42, mean=6, exact=True)
    assert (found.distinct_total, found.mean) == (42, 6)


def test_common_keys_are_counted_where_both_sides_are_small(statistics: StoredStatistics) -> None:
    overlap = statistics.overlap(("docs", "id"), ("terms", "id"))
    assert overlap == KeyOverlap(left=63, right=9, common=9, exact=True)


@pytest.mark.usefixtures("big")
def test_a_large_table_is_counted_in_rows_and_estimated_in_values(hurried: StoredStatistics) -> None:
    assert hurried.rows("big") == Count(BIG, exact=True)
    found = hurried.distinct("big", "part")
    assert not found.exact
    assert 5 <= found.value <= 20


@pytest.mark.usefixtures("big")
def test_a_predicate_is_counted_while_there_is_time_and_else_estimated(
    statistics: StoredStatistics, hurried: StoredStatistics
) -> None:
    sql = "SELECT 1 FROM big WHERE part = 3"
    statistics.duck.left = 60.0
    assert statistics.matching(sql) == Count(BIG / 10, exact=True)
    guess = hurried.matching(sql)
    assert not guess.exact
    assert 0 < guess.value < BIG


@pytest.mark.usefixtures("big")
def test_a_large_domain_is_estimated_from_rows_sketches_and_bytes(hurried: StoredStatistics) -> None:
    argument = TextArgument("body", "", "big", "body")
    found = hurried.domain(given("SELECT body AS __covey_x0 FROM big"), (argument,))
    assert found.rows == Count(BIG, exact=True)
    assert not found.tuples.exact
    assert not found.lengths[0].exact
    assert found.lengths[0].mean == pytest.approx(10)
    assert hurried.tuples(given("SELECT body AS __covey_x0 FROM big")) == Count(BIG, exact=False)


@pytest.mark.usefixtures("big")
def test_a_few_rows_of_a_large_table_hold_as_many_values_as_are_expected(
    hurried: StoredStatistics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StoredStatistics, "distinct", lambda *_: Count(DISTINCT, exact=False))
    argument = TextArgument("body", "", "big", "body")
    half = hurried._distinct_among(argument, BIG / 2)
    assert half == pytest.approx(DISTINCT * (1 - 0.5 ** (BIG / DISTINCT)))
    assert hurried._distinct_among(argument, BIG) == DISTINCT


@pytest.mark.usefixtures("big")
def test_values_of_a_large_column_are_sketched_once_until_the_table_changes(
    cursor: duckdb.DuckDBPyConnection, library: TokenLibrary
) -> None:
    kept = KeptFigures()

    def distinct(left: float) -> float:
        return StoredStatistics(cursor, library, left=left, kept=kept).distinct("big", "body").value

    assert distinct(60.0) == pytest.approx(DISTINCT, rel=0.1)
    assert distinct(0.0) == distinct(60.0)
    cursor.execute(f"INSERT INTO big SELECT id, part, 'other ' || id FROM big WHERE id < {DISTINCT}")
    assert distinct(0.0) != pytest.approx(DISTINCT, rel=0.1)
    assert distinct(60.0) == pytest.approx(2 * DISTINCT, rel=0.1)


@pytest.mark.usefixtures("big")
def test_tokenized_texts_tell_the_lengths_of_a_large_column(
    cursor: duckdb.DuckDBPyConnection, library: TokenLibrary
) -> None:
    cursor.execute("CREATE TABLE few AS SELECT DISTINCT body FROM big ORDER BY body LIMIT 100")
    library.column("big", "body", cursor, None, None)
    found = StoredStatistics(cursor, library, left=0.0).tokens("big", "body")
    assert (found.mean, found.exact) == (10, False)


@pytest.mark.usefixtures("big")
def test_ranges_tell_what_large_key_columns_have_in_common(
    cursor: duckdb.DuckDBPyConnection, hurried: StoredStatistics
) -> None:
    cursor.execute(f"CREATE TABLE upper_half AS SELECT i AS id FROM range({BIG // 2}, {BIG}) r(i)")
    overlap = hurried.overlap(("big", "id"), ("upper_half", "id"))
    assert not overlap.exact
    assert overlap.common == pytest.approx(BIG / 2, rel=0.3)


def test_keys_that_have_nearly_all_of_their_range_are_not_counted(
    statistics: StoredStatistics, cursor: duckdb.DuckDBPyConnection
) -> None:
    cursor.execute(
        "CREATE TABLE keys AS SELECT i % 7000 AS dense, i % 7000 * 1000 AS sparse,"
        " DATE '2020-01-01' + CAST(i % 7000 AS INTEGER) AS day FROM range(15000) r(i)"
    )
    seen = list[str]()
    ask = statistics.duck.ask
    statistics.duck.ask = lambda sql, sure=False: seen.append(sql) or ask(sql, sure)  # type: ignore[method-assign, func-returns-value]
    assert statistics.distinct("keys", "dense") == Count(7_000, exact=False)
    assert statistics.distinct("keys", "day") == Count(7_000, exact=False)
    assert not any("DISTINCT" in sql or "approx" in sql for sql in seen)
    assert statistics.distinct("keys", "sparse") == Count(7_000, exact=True)


@pytest.mark.usefixtures("big")
def test_a_view_and_a_computed_text_are_estimated_too(
    cursor: duckdb.DuckDBPyConnection, statistics: StoredStatistics
) -> None:
    cursor.execute("CREATE VIEW small_view AS SELECT upper(body) AS b FROM docs WHERE lang = 'fr'")
    assert statistics.rows("small_view") == Count(20, exact=True)
    computed = TextArgument("upper(body)", "")
    found = statistics.domain(given("SELECT upper(body) AS __covey_x0 FROM big"), (computed,))
    assert found.rows.value > 0
    assert found.lengths[0].mean > 0


def test_answers_are_remembered_or_hinted_or_unknown(
    cursor: duckdb.DuckDBPyConnection, library: TokenLibrary
) -> None:
    known, unknown = CallKey("Is it?", ("docs.body",)), CallKey("Is it not?", ("docs.body",))
    remembered = Selectivity(0.2, 0.1, 0.3, "remembered")
    statistics = StoredStatistics(cursor, library, answers={known: remembered})
    assert statistics.selectivity(known, 0.9) == remembered
    assert statistics.selectivity(unknown, 0.9) == hinted(0.9)
    assert statistics.selectivity(unknown) == DEFAULT
