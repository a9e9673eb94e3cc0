"""`covey.connect` against a real server: DB-API, Arrow, pandas, polars, errors, and its runs' figures."""

from __future__ import annotations

import datetime
from typing import Any

import covey
import pandas
import polars
import pytest
from covey.errors import one_line

ASKING = (
    "SELECT id FROM tickets WHERE id <= {n} AND AI_FILTER(PROMPT('Is this about a printer? {{0}}', body))"
)


def fetch(connection: covey.Connection, sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        rows: list[tuple[Any, ...]] = cursor.execute(sql).fetchall()
        return rows


def test_rows_and_parameters(connection: covey.Connection) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, opened, priority FROM tickets WHERE id < ? AND priority = ? ORDER BY id",
            (9, "urgent"),
        )
        assert cursor.description is not None
        assert [column[0] for column in cursor.description] == ["id", "opened", "priority"]
        assert cursor.fetchone() == (2, datetime.date(2026, 7, 2), "urgent")
        assert cursor.fetchall() == [(5, datetime.date(2026, 7, 4), "urgent")]
        assert cursor.fetchone() is None


def test_arrow(connection: covey.Connection) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM tickets ORDER BY id")
        table = cursor.fetch_arrow_table()
        assert table.num_rows == 150
        cursor.execute("SELECT id FROM tickets")
        assert sum(batch.num_rows for batch in cursor.fetch_record_batch()) == 150


def test_pandas_and_polars_read_through_the_connection(connection: covey.Connection) -> None:
    sql = "SELECT id, opened, name FROM tickets JOIN products USING (id) ORDER BY id"
    frame = pandas.read_sql(sql, connection)
    assert list(frame.columns) == ["id", "opened", "name"]
    assert len(frame) == 20
    other = polars.read_database(sql, connection)
    assert other.schema == {"id": polars.Int64, "opened": polars.Date, "name": polars.String}
    assert other["name"].to_list() == frame["name"].to_list()


def test_a_plan_and_what_it_gives(connection: covey.Connection) -> None:
    sql = ASKING.format(n=4) + " ORDER BY id"
    plan = connection.substrait(sql)
    with connection.cursor() as cursor:
        assert cursor.execute(plan).fetchall() == fetch(connection, sql)


def test_a_row_larger_than_the_drivers_limit(connection: covey.Connection) -> None:
    assert fetch(connection, "SELECT length(text) FROM (SELECT repeat('x', 20000000) AS text)") == [
        (20_000_000,)
    ]
    ((text,),) = fetch(connection, "SELECT repeat('x', 20000000)")
    assert len(text) == 20_000_000


def test_figures_are_the_connections_own(uri: str, connection: covey.Connection) -> None:
    assert connection.last_run() is None
    with covey.connect(uri, tag="another.one") as other:
        fetch(connection, ASKING.format(n=3))
        fetch(other, "SELECT id FROM tickets LIMIT 7")
        run, plain = connection.last_run(), other.last_run()
    assert run is not None
    assert plain is not None
    assert (run.state, run.prompts) == ("finished", 3)
    assert run.prompt_tokens == run.fresh_tokens + run.shared_tokens
    assert 150 < run.fresh_tokens < run.prompt_tokens
    assert run.seconds > 0
    assert (plain.rows, plain.prompts, plain.prompt_tokens) == (7, 0, 0)
    assert connection.last_run() == run


def test_a_statement_that_failed_is_noted_as_failed(connection: covey.Connection) -> None:
    with pytest.raises(covey.Error) as error:
        fetch(connection, "SELECT nothing FROM tickets WHERE AI_FILTER('Is it?', body)")
    assert "nothing" in one_line(error.value)
    assert "Traceback" not in str(error.value)
    assert "FlightSQL" not in one_line(error.value)
    run = connection.last_run()
    assert run is None or run.state == "failed"
    assert fetch(connection, "SELECT 1") == [(1,)]


def test_transactions_where_autocommit_is_off(uri: str) -> None:
    with covey.connect(uri, autocommit=False) as writer, covey.connect(uri) as reader:
        fetch(writer, "CREATE TABLE kept_or_not (a INTEGER)")
        writer.rollback()
        with pytest.raises(covey.Error, match="kept_or_not"):
            fetch(reader, "SELECT * FROM kept_or_not")
