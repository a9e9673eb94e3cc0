from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest
from covey_engine.operators.executor import Executor
from covey_planner.plan import Planned, PlanOptions, plan
from covey_planner.profiles import PromptProfile
from covey_storage.catalog import Database
from covey_storage.library import TokenLibrary
from covey_storage.tokenizer import Tokenizer
from support.byte_tokenizer import byte_tokenizer
from support.fake_engine import FakeEngine
from support.hand_plans import TABLES


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return byte_tokenizer()


@pytest.fixture
def database() -> Iterator[Database]:
    database = Database.open(None)
    database.cursor().execute(TABLES)
    yield database
    database.close()


@pytest.fixture
def library(database: Database, tokenizer: Tokenizer, tmp_path: Path) -> Iterator[TokenLibrary]:
    library = TokenLibrary(tmp_path / "tokens", tokenizer, database)
    yield library
    library.close()


@pytest.fixture
def cursor(database: Database) -> duckdb.DuckDBPyConnection:
    return database.cursor()


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def executor(database: Database, library: TokenLibrary, tokenizer: Tokenizer, engine: FakeEngine) -> Executor:
    return Executor(database, library, tokenizer, engine)


@pytest.fixture
def planned(database: Database, profile: PromptProfile) -> Callable[..., Planned]:
    """Plans SQL under the `profile` of the test's own module."""
    return lambda sql, parameters=(): plan(sql, database, PlanOptions(profile), parameters)


@pytest.fixture
def leftovers(library: TokenLibrary, cursor: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """After the test: no temporary table, view or transaction on the cursor, no scratch folder."""
    yield
    assert cursor.sql("SELECT table_name FROM duckdb_tables() WHERE temporary").fetchall() == []
    assert (
        cursor.sql("SELECT view_name FROM duckdb_views() WHERE temporary AND NOT internal").fetchall() == []
    )
    first, second = (cursor.sql("SELECT txid_current()").fetchall() for _ in range(2))
    assert first != second, "a transaction is still open"
    scratch = library.root / "scratch"
    assert not scratch.exists() or list(scratch.iterdir()) == []
