"""A DuckDB relation in, its rows as Arrow batches of fair size out; never holds more than one of them.

DuckDB cuts results by rows. A batch of long texts would be large then, and none can hold more than 2 GiB of text. So
texts are read few rows at a time, and put together up to a size: 0.2 µs a row more for short ones.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa

from covey_storage.carried import carried

_STEP = 128
"""Rows read at a time where they may be long: 16 MiB of text each."""

_FIXED = {
    "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL", "UUID", "INTERVAL",
    "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT",
    "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS",
}  # fmt: skip
"""Types whose values are short; DuckDB has others, which count as long."""


class Batches:
    """The rows of a relation, started at once; the relation's connection is busy until it is read out or closed.

    rows: how many a batch has at most; size: bytes that a batch has at most, but for 127 rows.
    """

    def __init__(self, relation: duckdb.DuckDBPyRelation, rows: int, size: int) -> None:
        relation = carried(relation)
        short = all(str(kind).partition("(")[0] in _FIXED for kind in relation.types)
        self._reader = relation.to_arrow_reader(rows if short else min(rows, _STEP))
        self._rows = rows
        self._size = size
        self.schema: pa.Schema = self._reader.schema

    def read_next_batch(self) -> pa.RecordBatch:
        """The next rows. Raises StopIteration after the last, else what the statement raises."""
        parts = [self._reader.read_next_batch()]
        rows, size = parts[0].num_rows, parts[0].nbytes
        while rows + _STEP <= self._rows and size < self._size:
            try:
                part = self._reader.read_next_batch()
            except StopIteration:
                break
            parts.append(part)
            rows, size = rows + part.num_rows, size + part.nbytes
        return parts[0] if len(parts) == 1 else pa.concat_batches(parts)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        return self.read_next_batch()

    def close(self) -> None:
        """Give up the rest; harmless if done before."""
        self._reader.close()
