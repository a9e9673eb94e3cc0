"""Random queries give the same rows on plain DuckDB, the AI calls being macros, as the SQL that their plans become."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import duckdb
import pytest
from covey_planner.errors import PlanError
from covey_planner.substrait.read import read
from covey_planner.substrait.write import write
from hypothesis import HealthCheck, given, settings
from support.hash_server import ORACLE_MACROS
from support.random_sql import queries
from support.random_tables import TABLES


class Stored:
    """The catalog of a connection."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        self.written = self.refused = 0

    def columns(self) -> Mapping[str, Mapping[str, str]]:
        found: dict[str, dict[str, str]] = {}
        rows = self.connection.execute(
            "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal ORDER BY column_index"
        ).fetchall()
        for table, column, kind in rows:
            found.setdefault(table, {})[column] = kind
        return found

    def describe(self, sql: str) -> Sequence[tuple[str, str]]:
        return [(row[0], row[1]) for row in self.connection.execute(f"DESCRIBE {sql}").fetchall()]


@pytest.fixture(scope="module")
def stored() -> Iterator[Stored]:
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute(ORACLE_MACROS.read_text("utf-8"))
        connection.execute(TABLES)
        found = Stored(connection)
        yield found
    assert found.written > 2 * found.refused


@settings(
    max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
@given(sql=queries())
def test_same_rows(stored: Stored, sql: str) -> None:
    try:
        wanted = stored.connection.execute(sql).fetchall()
    except duckdb.Error:
        return
    try:
        plan = write(sql, stored)
    except PlanError as error:
        if "Substrait plan" not in error.message:
            raise
        stored.refused += 1
        return
    stored.written += 1
    assert plan == write(sql, stored)
    found = stored.connection.execute(read(plan).sql).fetchall()
    assert Counter(map(repr, found)) == Counter(map(repr, wanted)), sql


def test_lists_of_labels_are_lists_wherever_they_stand(stored: Stored) -> None:
    many = "AI_CLASSIFY(t, ['a', 'b', 'c'], {'output_mode': 'multi'})"
    for sql in (
        f"SELECT id FROM b WHERE list_contains({many}, 'a')",
        f"SELECT len({many}) AS k, count(*) AS n FROM b GROUP BY 1",
    ):
        assert "'output_mode': 'multi'" in read(write(sql, stored)).sql
        stored.written += 1
