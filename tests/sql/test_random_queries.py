"""Random queries and changes give the same rows on the server, optimized and as written, and on plain DuckDB.

COVEY_RANDOM_QUERIES says how many are tried (`COVEY_RANDOM_QUERIES=5000 pytest tests/sql/test_random_queries.py`).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import adbc_driver_flightsql.dbapi as dbapi
import pytest
from hypothesis import HealthCheck, given, settings
from support.hash_server import Host, Run, client, oracle
from support.random_sql import changes, queries
from support.random_tables import TABLES
from support.slt import Outcome, Record

EXAMPLES = int(os.environ.get("COVEY_RANDOM_QUERIES", "150"))

REFUSED = ("not supported", "give each side an argument of its own")
"""What the planner says of statements that it does not plan."""


@dataclass
class Sides:
    """Three ways to run a statement. tried, refused: how many there were, and what the planner refused."""

    oracle: Run
    optimized: Run
    written: Run
    tried: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def compare(self, statements: Sequence[str]) -> None:
        """Run statements, of which the last one is a query, on all sides."""
        self.tried += 1
        shown = ";\n".join(statements)
        expected = _last(self.oracle, statements)
        if expected.rows is None:
            # What DuckDB refuses, such as a correlation that it cannot undo, the server may know how to do.
            return
        wanted = Counter(map(repr, expected.rows))
        for run in (self.optimized, self.written):
            found = _last(run, statements)
            if found.error is not None and any(words in found.error for words in REFUSED):
                self.refused[found.error.partition("]")[2].partition("(line")[0].strip()] += 1
                return
            assert found.error is None, f"{shown}\n{found.error}"
            assert found.rows is not None
            assert Counter(map(repr, found.rows)) == wanted, shown


def _last(run: Run, statements: Sequence[str]) -> Outcome:
    """What the last statement gives, or the first that fails."""
    for statement in statements[:-1]:
        found = run(Record(0, "ok", statement))
        if found.error is not None:
            return found
    return run(Record(0, "query", statements[-1]))


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    host = Host()
    folder = tmp_path_factory.mktemp("tokens")
    with (
        host.serve(folder) as uri,
        dbapi.connect(uri, autocommit=True) as first,
        dbapi.connect(uri, autocommit=True) as second,
    ):
        both = Sides(oracle(), client(first), client(second))
        for text in TABLES.strip().split(";\n"):
            for run in (both.oracle, both.optimized):
                assert run(Record(0, "ok", text.rstrip(";"))).error is None
        assert both.written(Record(0, "ok", "SET ai_optimizer = 'off'")).error is None
        yield both
    host.close()
    print(f"{both.tried} queries, refused: {dict(both.refused)}")
    assert sum(both.refused.values()) <= both.tried / 5, both.refused


hypothesis_settings = settings(
    deadline=None,
    derandomize="COVEY_RANDOM_QUERIES" not in os.environ,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@settings(hypothesis_settings, max_examples=EXAMPLES)
@given(sql=queries())
@pytest.mark.timeout(max(900, 4 * EXAMPLES))
def test_same_rows(sides: Sides, sql: str) -> None:
    sides.compare((sql,))


@settings(hypothesis_settings, max_examples=max(EXAMPLES // 5, 1))
@given(statements=changes())
@pytest.mark.timeout(max(900, 4 * EXAMPLES))
def test_same_changes(sides: Sides, statements: tuple[str, str, str]) -> None:
    sides.compare(statements)
