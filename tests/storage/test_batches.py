"""Rows of a relation in batches: all of them, in their order, none too large, however long the texts are."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest
from covey_storage.batches import Batches
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as opened:
        yield opened


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(count=st.integers(0, 5000), rows=st.integers(1, 3000), size=st.integers(1, 1 << 20))
def test_all_rows_come_in_their_order(
    connection: duckdb.DuckDBPyConnection, count: int, rows: int, size: int
) -> None:
    for column in ("range", "'text ' || range", "[range]", "{'a': range::VARCHAR}"):
        sql = f"SELECT {column} AS x FROM range({count})"
        batches = Batches(connection.sql(sql), rows, size)
        found = list(batches)
        assert all(batch.num_rows <= rows for batch in found)
        assert pa.Table.from_batches(found, batches.schema).equals(connection.sql(sql).to_arrow_table())


def test_batches_of_long_texts_are_small(connection: duckdb.DuckDBPyConnection) -> None:
    batches = Batches(connection.sql("SELECT repeat('x', 20000) AS x FROM range(5000)"), 16_384, 1 << 20)
    sizes = [batch.nbytes for batch in batches]
    assert max(sizes) < (1 << 20) + 128 * 20_010
    assert sum(sizes) > 5000 * 20_000


def test_batches_of_short_texts_and_of_numbers_are_not(connection: duckdb.DuckDBPyConnection) -> None:
    for column in ("range", "'text ' || range"):
        batches = Batches(connection.sql(f"SELECT {column} AS x FROM range(40000)"), 16_384, 1 << 30)
        assert [batch.num_rows for batch in batches] == [16_384, 16_384, 7_232]


def test_what_goes_wrong_in_the_middle_is_raised(connection: duckdb.DuckDBPyConnection) -> None:
    sql = (
        "SELECT CASE WHEN range = 9000 THEN error('row 9000') ELSE range::VARCHAR END AS x FROM range(10000)"
    )
    batches = Batches(connection.sql(sql), 1000, 1 << 20)
    with pytest.raises(Exception, match="row 9000"):
        list(batches)
    batches.close()
    assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_a_closed_one_frees_its_connection(connection: duckdb.DuckDBPyConnection) -> None:
    batches = Batches(connection.sql("SELECT range::VARCHAR FROM range(10000000)"), 1000, 1 << 20)
    batches.read_next_batch()
    batches.close()
    batches.close()
    assert connection.execute("SELECT 1").fetchall() == [(1,)]
