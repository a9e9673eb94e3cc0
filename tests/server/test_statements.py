"""Statements through the real ADBC driver: queries, parameters, updates, ingestion, errors."""

from __future__ import annotations

import datetime
import decimal
import uuid

import adbc_driver_flightsql.dbapi as dbapi
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from support.sql import rows, run, table


@pytest.fixture
def name() -> str:
    """A table name that no other test uses."""
    return f"t_{uuid.uuid4().hex[:12]}"


def test_a_query_yields_its_rows_and_types(connection: dbapi.Connection) -> None:
    found = table(connection, "SELECT name, legs FROM animals WHERE legs > 2 ORDER BY legs")
    assert found.to_pydict() == {"name": ["cat", "bee"], "legs": [4, 6]}
    assert found.schema.types == [pa.string(), pa.int64()]


def test_rows_come_as_record_batches(connection: dbapi.Connection) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT range AS n FROM range(100000)")
        reader = cursor.fetch_record_batch()
        assert sum(batch.num_rows for batch in reader) == 100000


def test_every_duckdb_type_streams_as_announced(connection: dbapi.Connection) -> None:
    found = table(connection, "SELECT * EXCLUDE (uhugeint) FROM test_all_types()")
    assert found.num_rows == 3
    assert found.schema.field("small_enum").type == pa.string()


def test_columns_of_one_name_stay_two_columns(connection: dbapi.Connection) -> None:
    assert table(connection, "SELECT 1 AS a, 2 AS a").schema.names == ["a", "a"]


def test_a_query_without_rows_has_a_schema(connection: dbapi.Connection) -> None:
    found = table(connection, "SELECT name FROM animals WHERE legs > 99")
    assert (found.num_rows, found.schema.names) == (0, ["name"])


def test_nested_enums_arrive_as_text(connection: dbapi.Connection) -> None:
    sql = "SELECT [e] AS l, {'x': e} AS s, MAP {e: e} AS m FROM (SELECT 'a'::ENUM('a', 'b') AS e)"
    assert table(connection, sql).to_pylist() == [{"l": ["a"], "s": {"x": "a"}, "m": [("a", "a")]}]


@pytest.mark.parametrize(
    "value",
    [
        7,
        2**40,
        1.5,
        True,
        "owl",
        b"\x00\xff",
        None,
        datetime.date(2026, 2, 3),
        datetime.datetime(2026, 2, 3, 4, 5, 6, 789),
        decimal.Decimal("12.34"),
    ],
)
def test_a_parameter_comes_back_as_it_went(connection: dbapi.Connection, value: object) -> None:
    assert rows(connection, "SELECT ?", (value,)) == [(value,)]


def test_parameters_by_position_and_by_name(connection: dbapi.Connection) -> None:
    assert rows(connection, "SELECT name FROM animals WHERE legs > ? AND says = ?", (2, "purr")) == [("cat",)]
    with connection.cursor() as cursor:
        cursor.adbc_statement.set_sql_query("SELECT name FROM animals WHERE legs > $legs AND says = $says")
        cursor.adbc_statement.prepare()
        cursor.adbc_statement.bind(pa.record_batch({"says": ["purr"], "legs": [2]}))
        stream, _ = cursor.adbc_statement.execute_query()
        assert pa.RecordBatchReader._import_from_c(stream.address).read_all().to_pydict() == {"name": ["cat"]}


def test_a_wrong_number_of_parameters_is_refused(connection: dbapi.Connection) -> None:
    with pytest.raises(dbapi.ProgrammingError, match="2 parameters, and 1 values were bound"):
        rows(connection, "SELECT ? + ?", (1,))
    with pytest.raises(dbapi.ProgrammingError, match="1 parameters, and none were bound"):
        rows(connection, "SELECT name FROM animals WHERE legs = ?")


def test_ddl_and_dml_run_without_a_fetch(connection: dbapi.Connection, name: str) -> None:
    run(connection, f"CREATE TABLE {name} (n INTEGER)")
    for n in range(50):
        assert run(connection, f"INSERT INTO {name} VALUES ({n})") == 1
    assert rows(connection, f"SELECT count(*) FROM {name}") == [(50,)]
    assert run(connection, f"DELETE FROM {name} WHERE n < 10") == 10
    assert run(connection, f"UPDATE {name} SET n = 0 WHERE n > 40") == 9


def test_returning_yields_rows_and_runs_once(connection: dbapi.Connection, name: str) -> None:
    run(connection, f"CREATE TABLE {name} (n INTEGER)")
    assert rows(connection, f"INSERT INTO {name} VALUES (1), (2) RETURNING n * 10 AS m") == [(10,), (20,)]
    run(connection, f"INSERT INTO {name} VALUES (3) RETURNING n")
    assert rows(connection, f"SELECT sum(n) FROM {name}") == [(6,)]


def test_executemany_inserts_all_rows_or_none(connection: dbapi.Connection, name: str) -> None:
    run(connection, f"CREATE TABLE {name} (n INTEGER PRIMARY KEY, s VARCHAR)")
    with connection.cursor() as cursor:
        cursor.executemany(f"INSERT INTO {name} VALUES (?, ?)", [(1, "a"), (2, "b"), (3, None)])
        assert cursor.rowcount == 3
        with pytest.raises(dbapi.ProgrammingError, match="Duplicate key"):
            cursor.executemany(f"INSERT INTO {name} VALUES (?, ?)", [(4, "d"), (1, "again")])
    assert rows(connection, f"SELECT * FROM {name} ORDER BY n") == [(1, "a"), (2, "b"), (3, None)]


def test_a_query_takes_one_row_of_parameters(connection: dbapi.Connection) -> None:
    with connection.cursor() as cursor:
        cursor.adbc_statement.set_sql_query("SELECT name FROM animals WHERE legs = ?")
        cursor.adbc_statement.prepare()
        cursor.adbc_statement.bind(pa.record_batch({"0": [2, 4]}))
        with pytest.raises(dbapi.ProgrammingError, match="one row of parameters, and 2 were bound"):
            cursor.adbc_statement.execute_query()


@pytest.mark.parametrize(("mode", "expected"), [("append", 6), ("replace", 3), ("create_append", 6)])
def test_ingestion_creates_appends_and_replaces(
    connection: dbapi.Connection, name: str, mode: str, expected: int
) -> None:
    data = pa.table({"n": [1, 2, 3], "s": ["a", "b", None]})
    with connection.cursor() as cursor:
        assert cursor.adbc_ingest(name, data, mode="create") == 3
        with pytest.raises(dbapi.Error, match="exists"):
            cursor.adbc_ingest(name, data, mode="create")
        assert cursor.adbc_ingest(name, data, mode=mode) == 3
    assert rows(connection, f"SELECT count(*) FROM {name}") == [(expected,)]


def test_ingestion_into_a_missing_table_names_it(connection: dbapi.Connection) -> None:
    with (
        connection.cursor() as cursor,
        pytest.raises(dbapi.ProgrammingError, match="there is no table nowhere"),
    ):
        cursor.adbc_ingest("nowhere", pa.table({"n": [1]}), mode="append")


def test_a_large_ingestion_arrives_whole(connection: dbapi.Connection, name: str) -> None:
    batch = pa.record_batch({"n": range(100_000), "s": ["some text of a certain length"] * 100_000})
    reader = pa.RecordBatchReader.from_batches(batch.schema, iter([batch] * 10))
    with connection.cursor() as cursor:
        cursor.adbc_ingest(name, reader, mode="create")
    assert rows(connection, f"SELECT count(*), sum(n) FROM {name}") == [(1_000_000, 10 * 4999950000)]


def test_pandas_and_polars_read(connection: dbapi.Connection) -> None:
    sql = "SELECT name, legs FROM animals ORDER BY legs"
    frame = pd.read_sql(sql, connection)
    assert list(frame["name"]) == ["owl", "cat", "bee"]
    assert pl.read_database(sql, connection).rows() == [("owl", 2), ("cat", 4), ("bee", 6)]


def test_polars_and_pandas_write(connection: dbapi.Connection, name: str) -> None:
    frame = pl.DataFrame({"n": [1, 2]})
    assert frame.write_database(name, connection, if_table_exists="append") == 2
    assert pd.DataFrame({"n": [3]}).to_sql(name, connection, index=False, if_exists="append") == 1
    assert rows(connection, f"SELECT sum(n) FROM {name}") == [(6,)]


@pytest.mark.parametrize(
    ("sql", "kind", "message"),
    [
        ("SELECT nope FROM animals", dbapi.ProgrammingError, 'column "nope" not found'),
        ("SELECT * FROM nowhere", dbapi.ProgrammingError, "nowhere does not exist"),
        ("SELEC 1", dbapi.ProgrammingError, 'syntax error at or near "SELEC" (line 1)'),
        ("SELECT says::INTEGER FROM animals", dbapi.ProgrammingError, "Could not convert string"),
        (" ", dbapi.ProgrammingError, "the statement is empty"),
        ("SELECT 1; SELECT 2", dbapi.ProgrammingError, "one statement at a time"),
        ("SELECT AI_FILTER('Is it wild?', name) FROM animals", dbapi.ProgrammingError, "without a model"),
    ],
)
def test_an_error_is_one_clear_line(
    connection: dbapi.Connection, sql: str, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind) as caught:
        rows(connection, sql)
    text = str(caught.value)
    assert message in text
    assert "\n" not in text.strip()
    assert "Traceback" not in text
    assert rows(connection, "SELECT 1") == [(1,)]


def test_pivot_yields_what_running_it_tells(connection: dbapi.Connection) -> None:
    found = table(connection, "PIVOT (SELECT legs, name FROM animals) ON name USING sum(legs)")
    assert set(found.schema.names) == {"owl", "cat", "bee"}


def test_queries_are_recorded_with_their_tag(connect) -> None:
    options = {"adbc.flight.sql.rpc.call_header.x-covey-tag": "mine"}
    tagged = connect(autocommit=True, db_kwargs=options)
    rows(tagged, "SELECT 1 AS recorded")
    with pytest.raises(dbapi.ProgrammingError):
        rows(tagged, "SELECT says::INTEGER AS broken FROM animals")
    sql = "SELECT state, rows, error, sql FROM covey_queries WHERE tag = 'mine' ORDER BY started"
    first, second, third = rows(tagged, sql)
    assert first == ("finished", 1, None, "SELECT 1 AS recorded")
    assert second[:2] == ("failed", 0)
    assert "Could not convert" in second[2]
    assert third[0] == "running"


def test_a_parameter_where_none_may_stand_is_the_statements_fault(connection: dbapi.Connection) -> None:
    with pytest.raises(
        dbapi.ProgrammingError, match=r"INVALID_ARGUMENT.*Parameter not supported in ORDER BY"
    ):
        rows(connection, "SELECT name FROM animals ORDER BY ?", (1,))


def test_long_texts_come_in_messages_of_fair_size(connection: dbapi.Connection) -> None:
    text = "SELECT range AS n, repeat('x', 300000) AS x FROM range(2000)"
    with connection.cursor() as cursor:
        cursor.execute(text)
        found = [(batch.num_rows, batch.nbytes) for batch in cursor.fetch_record_batch()]
    assert sum(rows for rows, _ in found) == 2000
    assert max(size for _, size in found) < 2 << 20
