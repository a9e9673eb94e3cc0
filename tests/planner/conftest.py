"""The small database of planner tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import duckdb
import pytest
from support.plan_reference import MemoryCatalog, install_oracle
from support.small_tables import build


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    """The database, with the oracle installed."""
    with duckdb.connect() as connection:
        build(connection)
        install_oracle(connection)
        yield connection


@pytest.fixture(scope="module")
def catalog(database: duckdb.DuckDBPyConnection) -> MemoryCatalog:
    """The database's catalog."""
    return MemoryCatalog(database)


@pytest.fixture
def fresh() -> Iterator[Callable[[], duckdb.DuckDBPyConnection]]:
    """Makes databases that a test may change, each like the others."""
    made: list[duckdb.DuckDBPyConnection] = []

    def make() -> duckdb.DuckDBPyConnection:
        made.append(duckdb.connect())
        build(made[-1])
        install_oracle(made[-1])
        return made[-1]

    yield make
    for connection in made:
        connection.close()
