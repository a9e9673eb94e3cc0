"""What happens to queries in, the system table `covey_queries` out; never runs a query.

A record lives as long as its query and then for a while: the last ones can be read by ordinary SQL.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

import pyarrow as pa
from covey_engine.prefill.api import Figures, Progress

TABLE = "covey_queries"

State = Literal["planned", "running", "finished", "failed", "cancelled", "expired"]

_COLUMNS = (
    ("query_id", pa.string(), "VARCHAR"),
    ("tag", pa.string(), "VARCHAR"),
    ("sql", pa.string(), "VARCHAR"),
    ("state", pa.string(), "VARCHAR"),
    ("started", pa.timestamp("us", tz="UTC"), "TIMESTAMP WITH TIME ZONE"),
    ("rows", pa.int64(), "BIGINT"),
    ("prompts", pa.int64(), "BIGINT"),
    ("prompt_tokens", pa.int64(), "BIGINT"),
    ("fresh_tokens", pa.int64(), "BIGINT"),
    ("shared_tokens", pa.int64(), "BIGINT"),
    ("prefix_tokens_saved", pa.int64(), "BIGINT"),
    ("seconds", pa.float64(), "DOUBLE"),
    ("device_seconds", pa.float64(), "DOUBLE"),
    ("tokens_to_come", pa.int64(), "BIGINT"),
    ("seconds_to_come", pa.float64(), "DOUBLE"),
    ("error", pa.string(), "VARCHAR"),
)

_KEPT = 1 << 16
"""Characters of a statement that its record keeps."""

SCHEMA = pa.schema([(name, kind) for name, kind, _ in _COLUMNS])

DUCKDB_TYPES = {name: duckdb_type for name, _, duckdb_type in _COLUMNS}


def kept(sql: str) -> str:
    """A statement's text as it is kept in its record: of a very long one, its beginning."""
    left = len(sql) - _KEPT
    return sql if left <= 0 else f"{sql[:_KEPT]} … ({left} characters left out)"


@dataclass
class Record:
    """What is known of one query. Only the thread that works on the query writes it.

    figures, progress: the model's work so far, asked of the running query; final once the query has ended.
    """

    query_id: str
    sql: str
    tag: str | None = None
    state: State = "planned"
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    rows: int = 0
    error: str | None = None
    figures: Callable[[], Figures] = Figures
    progress: Callable[[], Progress] = lambda: Progress(0, 0)
    _begun: float = field(default_factory=time.monotonic)
    _seconds: float | None = None

    @property
    def seconds(self) -> float:
        """From planning to the last row, or to now."""
        return time.monotonic() - self._begun if self._seconds is None else self._seconds

    def end(self, state: State, error: str | None = None) -> None:
        """Close the record; the first end counts."""
        if self._seconds is not None:
            return
        figures = self.figures()
        self.figures = lambda: figures
        self.progress = lambda: Progress(figures.fresh_tokens, 0, 0.0)
        self.state, self.error, self._seconds = state, error, time.monotonic() - self._begun

    def row(self) -> dict[str, object]:
        """The record as a row of the system table."""
        figures, progress = self.figures(), self.progress()
        return {
            "query_id": self.query_id,
            "tag": self.tag,
            "sql": self.sql,
            "state": self.state,
            "started": self.started,
            "rows": self.rows,
            "prompts": figures.prompts,
            "prompt_tokens": figures.prompt_tokens,
            "fresh_tokens": figures.fresh_tokens,
            "shared_tokens": figures.shared_tokens,
            "prefix_tokens_saved": figures.prefix_tokens_saved,
            "seconds": self.seconds,
            "device_seconds": figures.device_seconds,
            "tokens_to_come": progress.tokens_to_come,
            "seconds_to_come": progress.seconds_to_come,
            "error": self.error,
        }


class History:
    """The records of the last queries; methods may be called from any thread."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._lock = threading.Lock()
        self._records: OrderedDict[str, Record] = OrderedDict()

    def add(self, record: Record) -> None:
        """Remember a query; the oldest are forgotten."""
        with self._lock:
            self._records[record.query_id] = record
            while len(self._records) > self._length:
                self._records.popitem(last=False)

    def table(self) -> pa.Table:
        """The content of `covey_queries` now."""
        with self._lock:
            records = list(self._records.values())
        return pa.Table.from_pylist([record.row() for record in records], schema=SCHEMA)
