"""Substrait plans in, checked statements out; and statements whose plan is asked for in, the plan as a row out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import duckdb
import pyarrow as pa
from covey_engine.prefill.api import Figures, Progress
from covey_planner.substrait.asked import Form
from covey_planner.substrait.read import read
from covey_planner.substrait.write import to_json, write

from covey_server import lifecycle
from covey_server.execution import ExecutionContext
from covey_server.guard import Checked, Guard, tokenize
from covey_server.statements import EMPTY, Outline, columns_of

SCHEMAS: Mapping[Form, pa.Schema] = {
    "substrait": pa.schema([("plan", pa.binary())]),
    "substrait_json": pa.schema([("plan", pa.string())]),
}
"""What a statement yields that asks for a plan: one row."""


def check(guard: Guard, plan: bytes) -> Checked:
    """The statement that a plan is. Raises PlanError, and whatever the guard raises."""
    consumed = read(plan)
    return replace(guard.check(consumed.sql), consumed=consumed)


@dataclass(frozen=True)
class _Catalog:
    """What one cursor's transaction sees, for writing plans."""

    cursor: duckdb.DuckDBPyConnection
    guard: Guard

    def columns(self) -> Mapping[str, Mapping[str, str]]:
        """The columns of every table and view, with their DuckDB types; outside `main` under `schema.name`."""
        rows = self.cursor.execute(
            "SELECT CASE WHEN schema_name = 'main' THEN table_name ELSE schema_name || '.' || table_name END, "
            "column_name, data_type FROM duckdb_columns() "
            "WHERE database_name IN (current_database(), 'temp') AND NOT internal ORDER BY 1, column_index"
        ).fetchall()
        found: dict[str, dict[str, str]] = {lifecycle.TABLE: dict(lifecycle.DUCKDB_TYPES)}
        for table, column, kind in rows:
            found.setdefault(table, {})[column] = kind
        return found

    def describe(self, sql: str) -> Sequence[tuple[str, str]]:
        """Name and DuckDB type of what an AI-free statement yields."""
        self.guard.refuse_functions(tuple(tokenize(sql)))
        return columns_of(self.cursor, sql)


@dataclass(frozen=True)
class WrittenPlan:
    """A plan as the one row of a result."""

    plan: bytes
    form: Form

    @property
    def outline(self) -> Outline:
        """It only reads, and takes no parameters."""
        return Outline(SCHEMAS[self.form], EMPTY, update=False, counts=False, eager=False)

    def execute(self, _context: ExecutionContext) -> _Row:
        """Show it."""
        return _Row(self.plan if self.form == "substrait" else to_json(self.plan), SCHEMAS[self.form])


def written(cursor: duckdb.DuckDBPyConnection, guard: Guard, checked: Checked) -> WrittenPlan:
    """The plan of a statement that is known to be sound. Raises PlanError."""
    assert checked.plan_form is not None
    plan = write(checked.sql, _Catalog(cursor, guard), checked.dialect)
    return WrittenPlan(plan, checked.plan_form)


class _Row:
    """One value as a result; the model does nothing for it."""

    def __init__(self, value: bytes | str, schema: pa.Schema) -> None:
        self.schema = schema
        batch = pa.record_batch([pa.array([value], schema.field(0).type)], schema=schema)
        self.batches: Iterator[pa.RecordBatch] = iter([batch])

    def figures(self) -> Figures:
        """No work."""
        return Figures()

    def progress(self) -> Progress:
        """There is nothing to come."""
        return Progress(0, 0, 0.0)

    def close(self) -> None:
        """There is nothing to give up."""
