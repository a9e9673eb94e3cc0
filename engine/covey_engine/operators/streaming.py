"""SQL goes in, Arrow batches come out as DuckDB makes them; holds a whole result only for `table`."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress

import duckdb
import pyarrow as pa
from covey_storage.batches import Batches
from covey_storage.carried import carried

from covey_engine.operators.errors import QueryCancelled, StatementFailed
from covey_engine.operators.watch import CancelWatch

BATCH_ROWS = 16_384
"""Rows of one batch at most."""

_BATCH_BYTES = 16 << 20
"""Bytes of one batch, about, where texts are long."""


class Statements:
    """Runs the SQL of one query on its cursor; every wait inside DuckDB ends when the query is cancelled.

    A cursor holds one open result: a reader must be closed before the next statement.
    """

    def __init__(
        self, cursor: duckdb.DuckDBPyConnection, cancel: threading.Event, watch: CancelWatch
    ) -> None:
        self.cursor = cursor
        self._cancel = cancel
        self._watch = watch

    def check(self) -> None:
        """Raise QueryCancelled once the query's cancel event is set."""
        if self._cancel.is_set():
            raise QueryCancelled("the query was cancelled")

    def open(self, sql: str, parameters: Sequence[object] = ()) -> Batches:
        """Start a statement and return its lazy reader. Raises DuckDB's own errors."""
        with self._interruptible():
            # `execute` would drain the whole result first; only a relation streams.
            relation = self.cursor.sql(sql, params=list(parameters) or None)
            return Batches(relation, BATCH_ROWS, _BATCH_BYTES)

    def batches(self, reader: Batches) -> Generator[pa.RecordBatch]:
        """The reader's batches; closes it in the end, also when dropped half way."""
        try:
            while True:
                with self._interruptible():
                    try:
                        batch = reader.read_next_batch()
                    except StopIteration:
                        return
                yield batch
        finally:
            reader.close()

    def read(self, sql: str) -> Generator[pa.RecordBatch]:
        """The batches of a SELECT, as they are made."""
        yield from self.batches(self.open(sql))

    def write(self, sql: str) -> Generator[pa.RecordBatch]:
        """Run a statement that writes; then what it yields. Stopped before its end, it leaves nothing."""
        with self._interruptible():
            relation = self.cursor.sql(sql)
            if relation is None:
                return
            reader = Batches(relation, BATCH_ROWS, _BATCH_BYTES)
        yield from self.batches(reader)

    def table(self, sql: str) -> pa.Table:
        """A statement's whole result; for keys and schemas, not for what users select."""
        reader = self.open(sql)
        return pa.Table.from_batches(self.batches(reader), schema=reader.schema)

    def run(self, sql: str) -> None:
        """Run a statement for its effect."""
        self.table(sql)

    def schema(self, sql: str) -> pa.Schema:
        """The schema of a SELECT, which is not run."""
        with self._interruptible():
            relation = carried(self.cursor.sql(sql))
            reader = relation.limit(0).to_arrow_reader()
        reader.close()
        # The limit tells equal names apart, the statement itself does not.
        return pa.schema([f.with_name(n) for f, n in zip(reader.schema, relation.columns, strict=True)])

    @contextmanager
    def registered(self, name: str, data: pa.Table | pa.RecordBatchReader) -> Iterator[None]:
        """While the block runs, `name` is a view of `data` on this cursor."""
        self.cursor.register(name, data)
        try:
            yield
        finally:
            with suppress(duckdb.Error):
                self.cursor.unregister(name)

    @contextmanager
    def dropping(self, tables: Sequence[str]) -> Iterator[None]:
        """After the block these temporary tables are gone, whether or not they were created."""
        try:
            yield
        finally:
            for table in tables:
                # An aborted transaction refuses this, and takes its tables with it when it is rolled back.
                with suppress(duckdb.Error):
                    self.cursor.execute(f"DROP TABLE IF EXISTS temp.{quoted(table)}")

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All statements of the block see one state of the database.

        An open transaction is used as it is and stays open. Otherwise a transaction is committed at the end
        of the block, and rolled back, temporary tables included, where the block fails or is abandoned.
        """
        if self._in_transaction():
            yield
            return
        self.cursor.begin()
        try:
            yield
        except BaseException:
            self.cursor.rollback()
            raise
        self.cursor.commit()

    def _in_transaction(self) -> bool:
        # Outside a transaction every statement has one of its own. A failed BEGIN would abort an open one.
        with self._interruptible():
            first, second = (self.cursor.execute("SELECT txid_current()").fetchall() for _ in range(2))
        return bool(first == second)

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        self.check()
        try:
            with self._watch.guard(self._cancel, self.cursor.interrupt):
                yield
        except duckdb.InterruptException as error:
            raise QueryCancelled("the query was cancelled") from error
        except (OSError, pa.ArrowException) as error:
            if self._cancel.is_set() or "INTERRUPT" in str(error):
                raise QueryCancelled("the query was cancelled") from error
            raise StatementFailed(str(error).strip().splitlines()[0]) from error


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with the schema's names and types, column by column."""
    if batch.schema.equals(schema):
        return batch
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
