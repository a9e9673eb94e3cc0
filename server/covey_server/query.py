"""One statement's life: a checked text and parameters in, its schema, then its rows as framed messages out.

plan -> (run at once | start at the first fetch) -> rows -> finished, failed, cancelled or expired. DDL and
DML run while they are planned; a SELECT costs nothing before its first row is asked for. All methods block
and are called from worker threads, except `cancel`, which may be called from anywhere.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
from covey_storage.batches import Batches

from covey_server import lifecycle
from covey_server.core import Core
from covey_server.errors import BadRequest, ServerError, Stopped, status_of
from covey_server.execution import AiPlan, AiResult, ExecutionContext
from covey_server.framing import frame_batch, plain_batch, plain_schema, rows_per_batch
from covey_server.guard import Checked
from covey_server.lanes import Lane
from covey_server.lifecycle import Record
from covey_server.results import Rows
from covey_server.statements import (
    EMPTY,
    Parameters,
    parameter_values,
    result_schema,
)

if TYPE_CHECKING:
    # A server without a model starts without the operators.
    from covey_engine.operators.overflow import Overflow

_PATIENCE = 0.5
"""Seconds that a batch of a cancelled result in a transaction may still take."""


class Query:
    """One execution of a statement, on a lane of its own or of a transaction. plan: made ahead, and still good."""

    def __init__(
        self,
        core: Core,
        checked: Checked,
        lane: Lane,
        parameters: Sequence[Parameters] = (),
        tag: str | None = None,
        on_overflow: Overflow = "error",
        user: str = "",
        plan: AiPlan | None = None,
    ) -> None:
        self.id = secrets.token_hex(8)
        self.record = Record(self.id, lifecycle.kept(checked.text), tag)
        self.schema = EMPTY
        self.affected = -1
        self.touched = time.monotonic()
        self._core = core
        self._checked = checked
        self._lane = lane
        self._parameters = tuple(parameters)
        self._on_overflow = on_overflow
        self._user = user
        self._plan = plan
        self._ai: AiResult | None = None
        self._ran = False
        self._rows: Rows | None = None
        self._cancelled = threading.Event()
        self._interrupted = threading.Event()
        self._why: ServerError = Stopped("the query was cancelled")
        core.history.add(self.record)

    def plan(self) -> None:
        """Find the schema; run the statement if it writes. Raises whatever is wrong with it."""
        with self._at_work(), self._lane.statement() as cursor:
            self._checked = replace(self._checked, settled=self._lane.settled)
            first = self._parameters[0] if self._parameters else None
            if self._plan is None:
                seen, self._plan = self._core.describe(cursor, self._checked, first)
            else:
                seen = self._plan.outline
            if len(seen.parameters) and first is None:
                raise BadRequest(f"the statement has {len(seen.parameters)} parameters, and none were bound")
            if seen.temporary and not self._lane.explicit:
                raise BadRequest("a temporary table lives as long as its transaction: begin one first")
            self.schema = seen.schema
            if not seen.update and len(self._parameters) > 1:
                raise BadRequest(
                    f"a query takes one row of parameters, and {len(self._parameters)} were bound"
                )
            if seen.update:
                self._update(cursor, seen.counts)
            elif seen.eager:
                self._rows = self._open(cursor, None)
                # An INSERT … RETURNING of equal names gets them told apart when it runs.
                self.schema = self._rows.schema
                self.affected = self._rows.spool()
                if self._rows.failure is not None:
                    raise self._rows.failure
            if seen.eager:
                self._lane.wrote(self._checked.names)
        self._lane.release()
        if seen.update:
            self.record.end("finished")

    def start(self) -> None:
        """Start the rows, unless they are there already."""
        if self._rows is not None or self.record.state != "planned":
            return
        with self._at_work(), self._lane.statement() as cursor:
            self.record.state = "running"
            if lifecycle.TABLE in self._checked.names:
                cursor.register(lifecycle.TABLE, self._core.history.table())
            self._rows = self._lane.open_rows = self._open(cursor, self.schema)

    def next(self) -> list[bytes] | None:
        """The next framed messages, None after the last row."""
        with self._at_work():
            batch = self._rows.next() if self._rows is not None else None
            if batch is not None:
                self.record.rows += batch.num_rows
                return list(frame_batch(batch, self._core.slice_bytes))
        self.close("finished")
        return None

    def spool(self) -> int:
        """Run to the end, keeping the rows for a later fetch; their number."""
        self.start()
        with self._at_work():
            if self._rows is None:
                return max(self.affected, 0)
            rows = self._rows.spool()
            if self._rows.failure is not None:
                raise self._rows.failure
        self.affected = rows if self.affected < 0 else self.affected
        return self.affected

    def cancel(self, why: ServerError | None = None) -> None:
        """Stop the statement wherever it is; its waiting caller gets an error: `why`, or that it was cancelled.

        An interrupted DuckDB aborts its transaction. So a reader that leaves does not interrupt the
        transaction that it was reading in, unless a single batch takes long.
        """
        if why is not None:
            self._why = why
        self._cancelled.set()
        if self._rows is not None and self._lane.explicit:
            self._rows.give_up()
            threading.Timer(_PATIENCE, self._interrupted.set).start()
        else:
            self._interrupted.set()

    def _interrupt(self) -> None:
        # A plan that runs looks after itself, and is not to be disturbed as it cleans up.
        if self._ai is None:
            self._lane.interrupt()

    def close(self, state: lifecycle.State = "cancelled", error: str | None = None) -> None:
        """Let go of the rows and the lane; the first close decides the state."""
        self.record.end(state, error)
        if self._rows is not None:
            with suppress(Exception):
                # What fails while rows are given up concerns nobody any more.
                self._rows.close()
        if self._lane.open_rows is self._rows:
            self._lane.open_rows = None
        self._lane.release()

    @property
    def progress(self) -> float | None:
        """The finished part of the model's work, 0 to 1; None where there is none to go by."""
        if self._ai is None:
            return None
        now = self._ai.progress()
        total = now.fresh_tokens + now.tokens_to_come
        return now.fresh_tokens / total if total else None

    def _open(self, cursor: duckdb.DuckDBPyConnection, announced: pa.Schema | None) -> Rows:
        """Start the statement; `announced` is what its schema has to be, if that is decided."""
        lock = self._lane.lock
        if self._plan is not None:
            ai = self._start(self._plan, cursor)
            schema = _agreed(ai.schema, announced)
            return Rows(schema, _plain(ai.batches, schema), ai.close, lock)
        values = parameter_values(self._parameters[0]) if self._parameters else None
        relation = cursor.sql(self._checked.ordinary, params=values)
        # The reader's own encoding decides where nothing was announced: only running told the schema.
        width = (
            announced if announced is not None else result_schema(cursor, relation.columns, relation.types)
        )
        slice_bytes = self._core.slice_bytes
        reader = Batches(relation, rows_per_batch(width, slice_bytes), slice_bytes)
        schema = _agreed(reader.schema, announced)
        return Rows(schema, _plain(reader, schema), reader.close, lock)

    def _update(self, cursor: duckdb.DuckDBPyConnection, counts: bool) -> None:
        """Run DDL or DML, once for each row of parameters, all or nothing."""
        self.record.state = "running"
        several = len(self._parameters) > 1 and not self._lane.explicit
        if several:
            cursor.execute("BEGIN TRANSACTION")
        changed = 0
        try:
            for row in self._parameters or (None,):
                if self._plan is not None:
                    count = self._ask_and_write(cursor, row)
                else:
                    values = None if row is None else parameter_values(row)
                    fetched = cursor.execute(self._checked.ordinary, values).fetchall()
                    count = fetched[0][0] if fetched else 0
                changed += count if counts else 0
            if several:
                cursor.execute("COMMIT")
        except Exception:
            if several:
                with suppress(duckdb.Error):
                    cursor.execute("ROLLBACK")
            raise
        self.affected = changed
        self.record.rows = changed

    def _ask_and_write(self, cursor: duckdb.DuckDBPyConnection, row: Parameters | None) -> int:
        """Answer a statement's AI calls, then run it, for one row of parameters; how many rows it changed."""
        if row is not None and row is not self._parameters[0]:
            self._plan = self._core.describe(cursor, self._checked, row)[1]
        assert self._plan is not None
        ai = self._start(self._plan, cursor)
        with closing(ai):
            return sum(batch.column(0)[0].as_py() for batch in ai.batches if batch.num_rows)

    def _start(self, plan: AiPlan, cursor: duckdb.DuckDBPyConnection) -> AiResult:
        """Start a plan; its figures are added to those of earlier rows of parameters."""
        context = ExecutionContext(cursor, self.id, self._user, self._cancelled, self._on_overflow)
        self._ai = ai = plan.execute(context)
        before, so_far = self.record.figures, ai.figures
        self.record.figures = (lambda: before() + so_far()) if self._ran else so_far
        self.record.progress, self._ran = ai.progress, True
        return ai

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """While the block runs, cancelling interrupts DuckDB; what it raises ends the query."""
        self.touched = time.monotonic()
        try:
            if self._cancelled.is_set():
                raise self._why
            with self._core.watch.guard(self._interrupted, self._interrupt):
                yield
        except Exception as error:
            stopped = self._cancelled.is_set()
            self.close("cancelled" if stopped else "failed", status_of(error).message)
            self._lane.failed()
            if stopped:
                raise self._why from error
            raise
        self.touched = time.monotonic()


def _agreed(schema: pa.Schema, announced: pa.Schema | None) -> pa.Schema:
    """The announced schema, if it still fits what the statement yields."""
    plain = plain_schema(schema)
    if announced is None:
        return plain
    if plain.types != announced.types:
        raise BadRequest("the tables have changed since the statement was planned: run it again")
    return announced


def _plain(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield plain_batch(batch, schema)
