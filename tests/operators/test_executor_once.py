"""What DuckDB's threads pick is picked once: rows of a join below LIMIT, of which no two runs need find the same."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import duckdb
import pytest
from covey_engine.operators.errors import QueryCancelled
from covey_engine.operators.executor import Executor
from covey_planner.plan import Planned
from covey_planner.profiles import PromptProfile, load_profile
from covey_storage.catalog import Database
from support.fake_engine import FakeEngine, Faults, set_once_asked
from support.hand_plans import rows, start

pytestmark = pytest.mark.usefixtures("leftovers")

PICKED = "SELECT d.id, d.body || ' ' || e.id AS text FROM big d JOIN big e ON d.body = e.body LIMIT 40"


@pytest.fixture
def profile() -> PromptProfile:
    return load_profile("smollm2_document_first")


@pytest.fixture
def database() -> Iterator[Database]:
    """A table whose join with itself is done by several threads."""
    database = Database.open(None, threads=4)
    database.cursor().execute(
        "CREATE TABLE big AS SELECT i AS id, 'b' || (i * 7919 % 60000) AS body FROM range(300000) r(i)"
    )
    database.cursor().execute(f"CREATE VIEW picked AS {PICKED}")
    yield database
    database.close()


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT id, text FROM ({PICKED}) x WHERE AI_FILTER('A?', text) IS NOT NULL",
        "SELECT x.id, x.text FROM picked x WHERE AI_FILTER('A?', x.text) IS NOT NULL",
        f"WITH x AS ({PICKED}) SELECT id, text FROM x WHERE AI_FILTER('A?', text) OR NOT AI_FILTER('A?', text)",
    ],
)
def test_no_row_is_lost(
    sql: str,
    executor: Executor,
    planned: Callable[..., Planned],
    cursor: duckdb.DuckDBPyConnection,
    engine: FakeEngine,
) -> None:
    found = rows(start(executor, planned(sql), cursor))
    assert len(found) == 40
    assert sum(order.items for order in engine.orders) == len({text for _, text in found})


def test_nothing_is_left_of_a_cancelled_statement(
    executor: Executor,
    planned: Callable[..., Planned],
    cursor: duckdb.DuckDBPyConnection,
    engine: FakeEngine,
) -> None:
    cancel = threading.Event()
    sql = f"SELECT text FROM ({PICKED}) x WHERE AI_FILTER('A?', text)"
    engine.faults = Faults(gate=threading.Event())
    result = start(executor, planned(sql), cursor, cancel=cancel)
    set_once_asked(cancel, engine)
    with pytest.raises(QueryCancelled):
        rows(result)
