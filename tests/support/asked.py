"""A hash model that counts what it is asked, served over a few tables beside plain DuckDB on the same tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as dbapi
import duckdb
import numpy as np
from covey_engine.prefill import api
from covey_server.estimating import Prices
from support.fake_engine import FakeRunning
from support.hash_model import HashEngine, read_prompt
from support.hash_server import ORACLE_MACROS, Host
from support.sql import rows, run

TABLES = (
    "CREATE TABLE tickets AS SELECT i AS id, 'ticket ' || i AS body, substr('abc', 1 + i % 3, 1) AS kind "
    "FROM range(60) r(i)",
    "CREATE TABLE products AS SELECT i AS id, 'product ' || i AS name, substr('abc', 1 + i % 3, 1) AS kind "
    "FROM range(20) r(i)",
)
"""Of 60 tickets and 20 products, a third of each of a kind."""


class CountingEngine(HashEngine):
    """Counts the prompts of each question, by its last word."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()

    def start(self, order: api.WorkOrder) -> FakeRunning:
        running: Any = super().start(order)
        for name in ("value", "scores"):
            setattr(running, name, self._counted(getattr(running, name)))
        return running

    def _counted(self, answer: Any) -> Any:
        def counted(path: Any, readout: Any) -> Any:
            self.asked[read_prompt(np.frombuffer(path.data, np.int32).tolist()).question.split()[-1]] += 1
            return answer(path, readout)

        return counted


@dataclass
class Counted:
    """A client of a server over a counting engine, and the oracle."""

    client: dbapi.Connection
    oracle: duckdb.DuckDBPyConnection
    engine: CountingEngine

    def check(self, sql: str, ordered: bool = True) -> Counter[str]:
        """Run a statement; how many prompts of each question it took. Its rows are DuckDB's."""
        self.engine.asked.clear()
        found, expected = (
            _rounded(each) for each in (rows(self.client, sql), self.oracle.execute(sql).fetchall())
        )
        assert (found if ordered else sorted(found)) == (expected if ordered else sorted(expected))
        return Counter(self.engine.asked)


@contextmanager
def counted(folder: Path, tables: Sequence[str], prices: Prices | None = None) -> Iterator[Counted]:
    """Serve these tables. prices: with estimates, by which questions are ordered."""
    engine, host = CountingEngine(), Host()
    with ExitStack() as stack:
        stack.callback(host.close)
        uri = stack.enter_context(host.serve(folder, engine, prices))
        client = stack.enter_context(dbapi.connect(uri, autocommit=True))
        oracle = duckdb.connect(config={"threads": 1})
        stack.callback(oracle.close)
        oracle.execute(ORACLE_MACROS.read_text("utf-8"))
        for table in tables:
            run(client, table)
            oracle.execute(table)
        yield Counted(client, oracle, engine)


def _rounded(found: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    return [tuple(round(value, 9) if isinstance(value, float) else value for value in row) for row in found]
