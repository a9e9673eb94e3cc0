"""Arrow batches in, the same with types that DuckDB takes out: half floats as floats, wide decimals as DECIMAL."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa

from covey_storage.errors import StorageError

_DIGITS = 38
"""DuckDB's DECIMAL has no more."""


class NotStorable(StorageError):
    """A column's type, or a value in it, has no place in DuckDB; the message names the column."""


class Storable:
    """A reader's batches as DuckDB takes them, in `reader`. failure: what ended them, which Arrow does not pass on.

    Raises NotStorable for a type that has no place.
    """

    def __init__(self, source: pa.RecordBatchReader) -> None:
        self.failure: NotStorable | None = None
        self.reader = source
        schema = pa.schema([field.with_type(_storable(field.type, field.name)) for field in source.schema])
        if not schema.equals(source.schema):
            self.reader = pa.RecordBatchReader.from_batches(schema, self._cast(source, schema))

    def _cast(self, source: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for batch in source:
            yield pa.RecordBatch.from_arrays(
                [self._column(column, field) for column, field in zip(batch.columns, schema, strict=True)],
                schema=schema,
            )

    def _column(self, column: pa.Array, field: pa.Field) -> pa.Array:
        try:
            return column if column.type == field.type else column.cast(field.type)
        except pa.ArrowException as error:
            self.failure = NotStorable(f"column {field.name!r}: {str(error).splitlines()[0]}")
            raise self.failure from None


def refusing_column(schema: pa.Schema) -> str | None:
    """The name and the Arrow type of the first column that DuckDB cannot take; None where it takes all."""
    with duckdb.connect() as connection:
        for field in schema:
            try:
                connection.from_arrow(pa.schema([field]).empty_table()).limit(0).fetchall()
            except duckdb.Error:
                return f"column {field.name!r}: DuckDB has no place for Arrow's type {field.type}"
    return None


def _storable(kind: pa.DataType, column: str) -> pa.DataType:
    """The type in which a column is stored. Raises NotStorable."""
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_decimal256(kind):
        if not 0 <= kind.scale <= _DIGITS:
            raise NotStorable(f"column {column!r}: {kind} has more decimals than DuckDB's DECIMAL, {_DIGITS}")
        return pa.decimal128(min(kind.precision, _DIGITS), kind.scale)
    if pa.types.is_struct(kind):
        return pa.struct([_within(field, column) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_within(kind.key_field, column), _within(kind.item_field, column))
    if pa.types.is_list(kind):
        return pa.list_(_within(kind.value_field, column))
    if pa.types.is_large_list(kind):
        return pa.large_list(_within(kind.value_field, column))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_within(kind.value_field, column), kind.list_size)
    return kind


def _within(field: pa.Field, column: str) -> pa.Field:
    return field.with_type(_storable(field.type, column))
