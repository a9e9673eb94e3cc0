"""What SQL users may not do, and what looks like it but is allowed."""

from __future__ import annotations

import adbc_driver_flightsql.dbapi as dbapi
import duckdb
import pyarrow as pa
import pytest
from covey_server.errors import BadRequest, Refused
from covey_server.guard import Guard
from support.sql import rows

REFUSED = [
    "ATTACH ':memory:' AS mine",
    "DETACH memory",
    "COPY animals TO '/tmp/out.csv'",
    "COPY (SELECT 1) TO '/tmp/out.parquet'",
    "EXPORT DATABASE '/tmp/out'",
    "IMPORT DATABASE '/tmp/out'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET threads = 1",
    "RESET threads",
    "SET GLOBAL ai_on_overflow = 'null'",
    "SET VARIABLE ai_on_overflow = 'null'",
    "USE main",
    "PRAGMA database_list",
    "CALL pragma_version()",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "CHECKPOINT",
    "CREATE MACRO upper(x) AS 'mine'",
    "CREATE OR REPLACE TEMP MACRO f() AS 1",
    "CREATE FUNCTION f(x) AS x",
    "CREATE SECRET s (TYPE s3)",
    "DROP MACRO f",
    "EXPLAIN ANALYZE COPY animals TO '/tmp/out.csv'",
    "EXPLAIN (ANALYZE) COPY animals TO '/tmp/out.csv'",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_blob('/etc/*')",
    "SELECT * FROM \"READ_TEXT\"('/etc/passwd')",
    "SELECT * FROM system.main.glob('/*')",
    "FROM query /* hidden */ ('SELECT 1')",
    "SELECT * FROM query_table(['animals'])",
    "WITH x AS (SELECT * FROM duckdb_settings()) SELECT * FROM x",
    "SELECT * FROM duckdb_databases",
    "SELECT * FROM pg_catalog.pg_settings",
    "SELECT current_setting('threads')",
    "SELECT 'PATH'.getenv()",
    "SELECT pg_sleep(5)",
    "CREATE VIEW v AS SELECT * FROM read_parquet('x')",
]

ALLOWED = [
    "SELECT 'read_csv(1)' AS \"copy\"",
    "SELECT 1 -- read_csv('x')",
    "SELECT 'ä€😀', upper('x') FROM range(3)",
    "SELECT query FROM (SELECT 1 AS query)",
    "CREATE TABLE IF NOT EXISTS query (a INTEGER)",
    "INSERT INTO query (a) VALUES (1)",
    "WITH query (a) AS (SELECT 1) SELECT a FROM query",
    "SELECT * FROM duckdb_tables()",
    "DESCRIBE SELECT 1",
    "SHOW TABLES",
    "SUMMARIZE SELECT 1",
    "EXPLAIN SELECT 1",
    "SELECT * FROM information_schema.tables;",
    "FROM range(3) SELECT *",
    "VALUES (1), (2)",
    "SELECT version()",
    "PIVOT (SELECT 1 AS a) ON a USING count(*)",
]


@pytest.fixture(scope="module")
def guard() -> Guard:
    with duckdb.connect() as connection:
        return Guard(connection)


@pytest.mark.parametrize("sql", REFUSED)
def test_refused(guard: Guard, sql: str) -> None:
    with pytest.raises(Refused, match="not available to SQL users"):
        guard.check(sql)


@pytest.mark.parametrize("sql", ALLOWED)
def test_allowed(guard: Guard, sql: str) -> None:
    assert guard.check(sql).kind == "plain"


@pytest.mark.parametrize("sql", ["", "  ;; ", "-- nothing", "SELECT 1; SELECT 2"])
def test_not_one_statement(guard: Guard, sql: str) -> None:
    with pytest.raises(BadRequest):
        guard.check(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM t WHERE AI_FILTER(PROMPT('x {0}', b))",
        "SELECT ai.if(('a', b)) FROM t",
        "SELECT AI_COMPLETE('m', b) FROM t",
    ],
)
def test_ai_calls_are_for_the_planner(guard: Guard, sql: str) -> None:
    assert guard.check(sql).kind == "ai"
    with pytest.raises(Refused):
        guard.check(f"{sql} WHERE x IN (SELECT content FROM read_text('/etc/passwd'))")


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE covey_queries (a INTEGER)",
        "CREATE TABLE IF NOT EXISTS main.Covey_mine AS SELECT 1",
        'CREATE VIEW memory.main."__covey_a0" AS SELECT 1',
        "ALTER TABLE t RENAME TO covey_t",
    ],
)
def test_names_of_the_server_are_reserved(guard: Guard, sql: str) -> None:
    with pytest.raises(BadRequest, match="names that begin with covey_ or __covey_ are reserved"):
        guard.check(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE mine AS SELECT covey_x, covey_y FROM covey_queries",
        "ALTER TABLE t RENAME COLUMN a TO covey_a",
        "DROP TABLE covey_old",
        "INSERT INTO mine SELECT * FROM covey_queries",
    ],
)
def test_reserved_names_may_be_used(guard: Guard, sql: str) -> None:
    assert guard.check(sql).kind == "plain"


def test_a_view_of_the_system_table_is_refused(guard: Guard) -> None:
    with pytest.raises(BadRequest, match="a view cannot read covey_queries"):
        guard.check("CREATE VIEW mine AS SELECT * FROM covey_queries")


def test_an_upload_cannot_take_a_reserved_name(connection: dbapi.Connection) -> None:
    with connection.cursor() as cursor, pytest.raises(dbapi.ProgrammingError, match="are reserved"):
        cursor.adbc_ingest("covey_mine", pa.table({"a": [1]}))


def test_a_refusal_reaches_the_client_as_one_line(connection: dbapi.Connection) -> None:
    with pytest.raises(dbapi.ProgrammingError, match="the function read_csv is not available to SQL users"):
        rows(connection, "SELECT * FROM read_csv('/etc/passwd')")
    with pytest.raises(dbapi.Error, match="disabled by configuration"):
        rows(connection, "SELECT * FROM '/etc/passwd.csv'")
