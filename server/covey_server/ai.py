"""Statements with AI calls in, runnable plans out: where server, planner and operators meet."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa
from covey_engine.operators.executor import Executor
from covey_planner.plan import Planned, PlanOptions, plan
from covey_storage.catalog import Database

from covey_server import lifecycle
from covey_server.errors import BadRequest
from covey_server.guard import Guard, tokenize
from covey_server.query import AiPlan, AiResult
from covey_server.statements import Parameters, select_schema


@dataclass(frozen=True)
class CursorCatalog:
    """What the planner sees of the database: what one cursor's transaction sees, and the system table."""

    database: Database
    cursor: duckdb.DuckDBPyConnection

    def columns(self) -> Mapping[str, Mapping[str, str]]:
        """The columns of every table and view, with their DuckDB types."""
        return {**self.database.columns(self.cursor), lifecycle.TABLE: lifecycle.DUCKDB_TYPES}

    def describe(self, sql: str) -> list[tuple[str, str]]:
        """Name and DuckDB type of what an AI-free statement yields."""
        return self.database.describe(sql, self.cursor)


@dataclass(frozen=True)
class ModelSide:
    """The pinned model with its planner and operators."""

    database: Database
    executor: Executor
    options: PlanOptions
    guard: Guard

    def plan(
        self, sql: str, cursor: duckdb.DuckDBPyConnection, parameters: Parameters | None
    ) -> AiPlan | None:
        """Plan a statement; None where it has no AI calls. Raises PlanError."""
        if isinstance(parameters, Mapping):
            raise BadRequest("a statement with AI calls takes parameters as ?, not by name")
        values: Sequence[object] = tuple(parameters or ())
        planned = plan(sql, CursorCatalog(self.database, cursor), self.options, values)
        if planned.kind == "plain":
            return None
        # What the planner wrote for DuckDB holds all of the statement but its AI calls.
        self.guard.refuse_functions(tuple(tokenize(planned.describe_sql)))
        schema = select_schema(cursor, planned.describe_sql, values)
        return ModelPlan(self.executor, planned, values, schema)


@dataclass(frozen=True)
class ModelPlan:
    """A planned statement with AI calls."""

    executor: Executor
    planned: Planned
    parameters: Sequence[object]
    schema: pa.Schema

    def execute(self, cursor: duckdb.DuckDBPyConnection, query_id: str, cancel: threading.Event) -> AiResult:
        """Start it."""
        return self.executor.execute(
            self.planned, cursor, query_id=query_id, cancel=cancel, parameters=self.parameters
        )
