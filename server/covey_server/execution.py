"""What a plan with AI calls is to a query, and what it is told when it runs: contracts and data alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import duckdb
import pyarrow as pa
from covey_engine.prefill.api import Figures, Progress

from covey_server.statements import Outline

if TYPE_CHECKING:
    # A server without a model starts without the operators.
    from covey_engine.operators.overflow import Overflow


@dataclass(frozen=True)
class ExecutionContext:
    """One run of a plan. cursor: in whose transaction; cancel: is set when it is to stop; on_overflow: what happens to
    texts longer than the model's context.
    """

    cursor: duckdb.DuckDBPyConnection
    query_id: str
    user: str
    cancel: threading.Event
    on_overflow: Overflow


class AiResult(Protocol):
    """The rows of a running statement with AI calls."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]

    def figures(self) -> Figures:
        """The model's work so far."""
        ...

    def progress(self) -> Progress:
        """How far the model's work is."""
        ...

    def close(self) -> None:
        """Give up the rest."""
        ...


class AiPlan(Protocol):
    """A planned statement with AI calls. outline: what it will yield, and whether it writes."""

    @property
    def outline(self) -> Outline:
        """What DuckDB says about it."""
        ...

    def execute(self, context: ExecutionContext) -> AiResult:
        """Start it; nothing is spent before the first batch is asked for."""
        ...
