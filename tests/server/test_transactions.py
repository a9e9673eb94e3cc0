"""Transactions, sessions and their ends, through the real ADBC driver."""

from __future__ import annotations

import adbc_driver_flightsql.dbapi as dbapi
import pyarrow as pa
import pytest
from support.sql import rows, run


def test_commit_keeps_and_rollback_undoes(connect) -> None:
    writer, reader = connect(), connect(autocommit=True)
    run(writer, "CREATE TABLE kept (n INTEGER)")
    run(writer, "INSERT INTO kept VALUES (1)")
    with pytest.raises(dbapi.ProgrammingError):
        rows(reader, "SELECT * FROM kept")
    writer.commit()
    run(writer, "INSERT INTO kept VALUES (2)")
    writer.rollback()
    assert rows(reader, "SELECT * FROM kept") == [(1,)]


def test_a_prepared_statement_outlives_its_transaction(connect) -> None:
    connection = connect()
    with connection.cursor() as cursor:
        for _ in range(3):
            # The driver prepares a text once and executes it again in the next transaction.
            cursor.execute("SELECT count(*) FROM animals")
            assert cursor.fetchall() == [(3,)]
            connection.commit()


def test_ingestion_joins_the_open_transaction(connect) -> None:
    connection = connect()
    with connection.cursor() as cursor:
        cursor.adbc_ingest("joined", pa.table({"n": [1]}), mode="create")
    assert rows(connection, "SELECT * FROM joined") == [(1,)]
    connection.rollback()
    with pytest.raises(dbapi.ProgrammingError):
        rows(connection, "SELECT * FROM joined")


def test_tables_of_the_open_transaction_are_in_the_metadata(connect) -> None:
    connection = connect()
    run(connection, "CREATE TABLE fresh (n INTEGER)")
    assert connection.adbc_get_table_schema("fresh").names == ["n"]
    connection.rollback()


def test_two_results_may_be_open_in_one_transaction(connect) -> None:
    connection = connect()
    with connection.cursor() as first, connection.cursor() as second:
        first.execute("SELECT range AS n FROM range(3000000)")
        reader = first.fetch_record_batch()
        seen = reader.read_next_batch().num_rows
        second.execute("SELECT count(*) FROM animals")
        assert second.fetchall() == [(3,)]
        seen += sum(batch.num_rows for batch in reader)
    assert seen == 3_000_000


def test_rows_stay_fetchable_after_commit(connect) -> None:
    connection = connect()
    with connection.cursor() as cursor:
        cursor.execute("SELECT range AS n FROM range(3000000)")
        reader = cursor.fetch_record_batch()
        seen = reader.read_next_batch().num_rows
        connection.commit()
        assert seen + sum(batch.num_rows for batch in reader) == 3_000_000


def test_a_mistake_does_not_cost_a_reading_transaction(connect) -> None:
    connection = connect()
    assert rows(connection, "SELECT 1") == [(1,)]
    for mistake in ("SELEC 1", "SELECT nope", "SELECT says::INTEGER FROM animals"):
        with pytest.raises(dbapi.ProgrammingError):
            rows(connection, mistake)
        assert rows(connection, "SELECT count(*) FROM animals") == [(3,)]


def test_a_mistake_after_a_write_asks_for_a_rollback(connect) -> None:
    connection = connect()
    run(connection, "CREATE TABLE doomed (n INTEGER)")
    with pytest.raises(dbapi.ProgrammingError):
        rows(connection, "SELECT says::INTEGER FROM animals")
    with pytest.raises(dbapi.Error, match="ROLLBACK"):
        rows(connection, "SELECT 1")
    connection.rollback()
    with pytest.raises(dbapi.ProgrammingError):
        rows(connection, "SELECT * FROM doomed")


def test_begin_and_rollback_as_sql(connect) -> None:
    connection = connect(autocommit=True)
    run(connection, "BEGIN")
    run(connection, "CREATE TABLE by_hand (n INTEGER)")
    assert rows(connection, "SELECT count(*) FROM by_hand") == [(0,)]
    with pytest.raises(dbapi.ProgrammingError, match="open already"):
        run(connection, "BEGIN TRANSACTION")
    run(connection, "ROLLBACK")
    with pytest.raises(dbapi.ProgrammingError):
        rows(connection, "SELECT * FROM by_hand")
    with pytest.raises(dbapi.ProgrammingError, match="no transaction is open"):
        run(connection, "COMMIT")


def test_sql_does_not_end_the_clients_transaction(connect) -> None:
    with pytest.raises(dbapi.ProgrammingError, match="end it there"):
        run(connect(), "COMMIT")


def test_a_temporary_table_lives_in_its_transaction(connect) -> None:
    alone, together = connect(autocommit=True), connect()
    with pytest.raises(dbapi.ProgrammingError, match="begin one first"):
        run(alone, "CREATE TEMP TABLE scratch (n INTEGER)")
    run(together, "CREATE TEMP TABLE scratch AS SELECT 5 AS n")
    assert rows(together, "SELECT n FROM scratch") == [(5,)]
    together.rollback()


def test_a_session_has_a_schema_of_its_own(connect) -> None:
    one, other = connect(autocommit=True), connect(autocommit=True)
    run(one, "CREATE SCHEMA side")
    assert (one.adbc_current_catalog, one.adbc_current_db_schema) == ("memory", "main")
    one.adbc_current_db_schema = "side"
    run(one, "CREATE TABLE aside (n INTEGER)")
    assert one.adbc_current_db_schema == "side"
    assert rows(one, "SELECT count(*) FROM aside") == [(0,)]
    with pytest.raises(dbapi.ProgrammingError):
        rows(other, "SELECT * FROM aside")
    assert rows(other, "SELECT count(*) FROM side.aside") == [(0,)]
    with pytest.raises(dbapi.Error):
        one.adbc_current_db_schema = "nowhere"


def test_a_schema_set_in_a_transaction_counts_at_once(connect) -> None:
    connection = connect()
    run(connection, "CREATE SCHEMA IF NOT EXISTS inner_one")
    connection.commit()
    assert rows(connection, "SELECT current_schema()") == [("main",)]
    connection.adbc_current_db_schema = "inner_one"
    assert rows(connection, "SELECT current_schema()") == [("inner_one",)]


def test_leaving_a_result_does_not_abort_what_was_written(connect) -> None:
    connection = connect()
    run(connection, "CREATE TABLE survives AS SELECT 1 AS n")
    for _ in range(5):
        with connection.cursor() as cursor:
            cursor.execute("SELECT a.range AS a, b.range AS b FROM range(1000000) a, range(1000000) b")
            cursor.fetchone()
        assert rows(connection, "SELECT n FROM survives") == [(1,)]
    connection.commit()
    assert rows(connect(autocommit=True), "SELECT n FROM survives") == [(1,)]


def test_what_a_failed_statement_undid_is_not_said_to_be_committed(connect) -> None:
    first, second, reader = connect(), connect(), connect(autocommit=True)
    run(reader, "CREATE TABLE fought_over AS SELECT 1 AS n")
    run(first, "UPDATE fought_over SET n = 2")
    run(second, "INSERT INTO fought_over VALUES (5)")
    with pytest.raises(dbapi.Error, match="Conflict"):
        run(second, "UPDATE fought_over SET n = 3")
    first.commit()
    with pytest.raises(dbapi.Error, match="rolled back, not committed"):
        second.commit()
    assert rows(reader, "SELECT n FROM fought_over") == [(2,)]


def test_what_failed_is_rolled_back_without_complaint(connect) -> None:
    connection = connect()
    run(connection, "CREATE TABLE undone AS SELECT 1 AS n")
    with pytest.raises(dbapi.Error, match="Conversion"):
        run(connection, "INSERT INTO undone VALUES ('x')")
    connection.rollback()
    run(connection, "CREATE TABLE undone AS SELECT 2 AS n")
    connection.commit()
    assert rows(connection, "SELECT n FROM undone") == [(2,)]


def test_an_error_in_spooled_rows_does_not_cost_a_reading_transaction(connect) -> None:
    connection = connect()
    with connection.cursor() as first:
        first.execute(
            "SELECT CASE WHEN range < 2900000 THEN 1 ELSE error('late') END AS n FROM range(3000000)"
        )
        reader = first.fetch_record_batch()
        reader.read_next_batch()
        assert rows(connection, "SELECT 1") == [(1,)]
        with pytest.raises(pa.ArrowInvalid, match="late"):
            reader.read_all()
        assert rows(connection, "SELECT 2") == [(2,)]


def test_a_closed_connection_rolls_back(server, connect) -> None:
    with dbapi.connect(server.uri) as leaving:
        run(leaving, "CREATE TABLE left_behind (n INTEGER)")
    with pytest.raises(dbapi.ProgrammingError):
        rows(connect(autocommit=True), "SELECT * FROM left_behind")
