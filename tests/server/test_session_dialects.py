"""Statements in the client's dialect through the real ADBC driver, on a server without a model."""

from __future__ import annotations

import adbc_driver_flightsql.dbapi as dbapi
import pytest
from support.sql import rows, run, table

OPTION = "adbc.flight.sql.session.option.ai_dialect"
HEADER = "adbc.flight.sql.rpc.call_header.ai_dialect"
THIS_CALL = "adbc.flight.sql.rpc.call_header.x-covey-dialect"
SNOWFLAKE = "SELECT IFF(legs > 2, name, NULL) AS n FROM animals WHERE name = 'cat'"
BIGQUERY = 'SELECT IF(SAFE_CAST(name AS INT64) IS NULL, `name`, NULL) AS n FROM `animals` WHERE name = "cat"'


def test_duckdb_is_the_default_and_verbatim(connection: dbapi.Connection) -> None:
    assert connection.adbc_connection.get_option(OPTION) == "duckdb"
    assert rows(connection, "FROM animals SELECT max(legs)") == [(6,)]
    with pytest.raises(dbapi.ProgrammingError, match="iff"):
        rows(connection, SNOWFLAKE)


def test_sql_sets_the_dialect_of_what_follows(connection: dbapi.Connection) -> None:
    run(connection, "SET ai_dialect = 'Snowflake'")
    assert connection.adbc_connection.get_option(OPTION) == "snowflake"
    assert rows(connection, SNOWFLAKE) == [("cat",)]
    run(connection, "SET ai_dialect TO bigquery")
    assert rows(connection, BIGQUERY) == [("cat",)]
    run(connection, "RESET ai_dialect")
    assert rows(connection, 'SELECT "name" FROM animals WHERE legs = 2') == [("owl",)]


def test_a_session_option_sets_it(connection: dbapi.Connection) -> None:
    connection.adbc_connection.set_options(**{OPTION: "bigquery"})
    assert rows(connection, BIGQUERY) == [("cat",)]
    with pytest.raises(dbapi.Error):
        connection.adbc_connection.set_options(**{OPTION: "oracle"})
    assert rows(connection, BIGQUERY) == [("cat",)]
    with pytest.raises(dbapi.ProgrammingError, match="'duckdb', 'snowflake' or 'bigquery', not 'oracle'"):
        run(connection, "SET ai_dialect = 'oracle'")


def test_a_header_is_the_connections_default(connect) -> None:
    connection = connect(conn_kwargs={HEADER: "snowflake"}, autocommit=True)
    assert connection.adbc_connection.get_option(OPTION) == "snowflake"
    assert rows(connection, SNOWFLAKE) == [("cat",)]
    run(connection, "SET ai_dialect = 'bigquery'")
    assert rows(connection, BIGQUERY) == [("cat",)]
    run(connection, "RESET ai_dialect")
    assert rows(connection, SNOWFLAKE) == [("cat",)]
    with connection.cursor(adbc_stmt_kwargs={THIS_CALL: "bigquery"}) as cursor:
        assert cursor.execute(BIGQUERY).fetchall() == [("cat",)]
    assert rows(connection, SNOWFLAKE) == [("cat",)]


def test_a_header_with_no_dialect_is_an_error(connect) -> None:
    connection = connect(conn_kwargs={HEADER: "oracle"}, autocommit=True)
    with pytest.raises(
        dbapi.ProgrammingError, match="ai_dialect is 'duckdb', 'snowflake' or 'bigquery', not 'oracle'"
    ):
        rows(connection, "SELECT 1")


def test_parameters_writes_and_transactions(connect) -> None:
    connection = connect(conn_kwargs={HEADER: "bigquery"}, autocommit=True)
    run(connection, "CREATE TABLE seen (id INT64, tags ARRAY<STRING>)")
    assert run(connection, "INSERT INTO seen (id, tags) VALUES (?, ['a', \"b\"])", (7,)) == 1
    assert rows(connection, "SELECT id, tags[OFFSET(0)] FROM seen WHERE id = ?", (7,)) == [(7, "a")]
    run(connection, "BEGIN TRANSACTION")
    run(connection, "DELETE FROM seen WHERE TRUE")
    run(connection, "ROLLBACK TRANSACTION")
    assert table(connection, "SELECT COUNTIF(id = 7) AS n FROM seen").to_pydict() == {"n": [1]}
    run(connection, "DROP TABLE seen")


def test_the_books_hold_the_text_as_written(connect) -> None:
    connection = connect(conn_kwargs={HEADER: "bigquery"}, autocommit=True)
    rows(connection, BIGQUERY)
    assert (BIGQUERY,) in rows(connection, "SELECT `sql` FROM covey_queries")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT * FROM read_csv('x.csv')", "function read_csv is not available"),
        ("SELECT current_setting('threads')", "function current_setting is not available"),
        ("ATTACH ':memory:' AS x", "ATTACH is not available"),
        ("SELECT 1; SELECT 2", "one statement at a time"),
        ("SELECT FROM WHERE", "line 1"),
        ("COPY INTO t FROM @stage", "Parser Error"),
        ("-- nothing", "the statement is empty"),
    ],
)
def test_refusals_are_the_same(connect, sql: str, message: str) -> None:
    connection = connect(conn_kwargs={HEADER: "snowflake"}, autocommit=True)
    with pytest.raises(dbapi.Error, match=message):
        rows(connection, sql)


def test_ai_calls_need_a_model(connect) -> None:
    connection = connect(conn_kwargs={HEADER: "bigquery"}, autocommit=True)
    with pytest.raises(dbapi.ProgrammingError, match="runs without a model"):
        rows(connection, "SELECT name FROM animals WHERE AI.IF(('is it ', name))")


def test_updates_are_in_the_sessions_dialect(connect) -> None:
    connection = connect(conn_kwargs={HEADER: "bigquery"}, autocommit=True)

    def update(sql: str) -> int:
        """Send a statement as an update, not as a query."""
        with connection.cursor() as cursor:
            cursor.adbc_statement.set_sql_query(sql)
            return cursor.adbc_statement.execute_update()

    update("CREATE TABLE updated (id INT64, tags ARRAY<STRING>)")
    assert update("INSERT INTO updated (id, tags) VALUES (1, ['a', \"b\"]), (2, [])") == 2
    update("SET ai_dialect = 'snowflake'")
    assert update("UPDATE updated SET id = IFF(id > 1, 20, 10)") == 2
    update("SET ai_dialect = 'duckdb'")
    with pytest.raises(dbapi.ProgrammingError, match="iff"):
        update("UPDATE updated SET id = IFF(id > 1, 2, 1)")
    assert rows(connection, "SELECT list(id ORDER BY id) FROM updated") == [([10, 20],)]
    update("DROP TABLE updated")
