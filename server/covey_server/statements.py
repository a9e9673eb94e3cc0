"""A checked statement and its parameters in, what it will yield out; runs nothing.

This is the one module that uses DuckDB's private binding functions: nothing public tells the types of a
statement's parameters, or its result's schema, without running it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

import _duckdb
import duckdb
import pyarrow as pa
from covey_storage.carried import carried_type

from covey_server.errors import BadRequest
from covey_server.framing import plain_schema
from covey_server.guard import Checked

Parameters = Sequence[object] | Mapping[str, object]

EMPTY = pa.schema([])

TYPE_NAME = "ARROW:FLIGHT:SQL:TYPE_NAME"


@dataclass(frozen=True)
class Outline:
    """What DuckDB says about a statement.

    schema: of the rows it yields, without columns for one that yields none; parameters: their schema, named
    as in the statement. counts: it tells how many rows it changed. eager: it changes something, so it has to
    run at once; temporary: it creates something that lives as long as its connection.
    """

    schema: pa.Schema
    parameters: pa.Schema
    update: bool
    counts: bool
    eager: bool
    temporary: bool = False


def outline(
    cursor: duckdb.DuckDBPyConnection, checked: Checked, parameters: Parameters | None = None
) -> Outline:
    """Bind a statement, with its parameters where they are known. Raises duckdb.Error."""
    values = None if parameters is None else parameter_values(parameters)
    names, types, found, kind, deferred, writes = cursor._bind(
        checked.ordinary, with_writes=True, values=values
    )
    if values is None and found and any(str(name) == "UNKNOWN" for name in types):
        # What an untyped parameter yields is only known once it has a value; NULL stands for it.
        names, types, *_ = cursor._bind(checked.ordinary, with_writes=True, values=_nulls(found))
    update = kind != "query_result"
    if deferred and not update:
        # A PIVOT without its values has to look at them.
        relation = cursor.sql(checked.ordinary, params=values)
        names, types = relation.columns, relation.types
    return Outline(
        schema=EMPTY if update else result_schema(cursor, names, types),
        parameters=parameter_schema(cursor, found),
        update=update,
        counts=kind == "changed_rows",
        eager=update or writes or checked.eager,
        temporary=checked.temporary,
    )


def columns_of(cursor: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[str, str]]:
    """The names and DuckDB types of what a SELECT without parameters yields. Raises duckdb.Error."""
    names, types, *_ = cursor._bind(sql, with_writes=True)
    return [(name, str(kind)) for name, kind in zip(names, types, strict=True)]


def select_schema(cursor: duckdb.DuckDBPyConnection, sql: str) -> pa.Schema:
    """What a SELECT without parameters yields."""
    names, types, *_ = cursor._bind(sql, with_writes=True)
    return result_schema(cursor, names, types)


def result_schema(
    cursor: duckdb.DuckDBPyConnection, names: Sequence[str], types: Sequence[object]
) -> pa.Schema:
    """The schema to announce and to stream: plain, each field with its DuckDB type's name."""
    sent = [carried_type(str(kind)) for kind in types]
    schema = _duckdb._arrow_schema(list(names), sent, connection=cursor)
    # Equal names, which that call has told apart, stay equal in a result.
    named = pa.schema([field.with_name(name) for field, name in zip(schema, names, strict=True)])
    return described(plain_schema(named), [str(kind) for kind in types])


def described(schema: pa.Schema, types: Sequence[str]) -> pa.Schema:
    """The schema with the DuckDB types' names as field metadata."""
    return pa.schema(
        [
            field.with_metadata({**(field.metadata or {}), TYPE_NAME: _short(kind)})
            for field, kind in zip(schema, types, strict=True)
        ]
    )


def parameter_rows(table: pa.Table | None, expected: pa.Schema | None = None) -> list[Parameters]:
    """Rows of bound values, a list each, or a mapping where the statement's parameters have names.

    Clients name columns "0", "1", … or like the parameters, or not at all. Raises BadRequest for a wrong
    number.
    """
    if table is None or table.num_columns == 0:
        return []
    names = [name.lstrip("$:@") for name in table.column_names]
    if expected is not None and len(expected) != table.num_columns:
        raise BadRequest(
            f"the statement has {len(expected)} parameters, and {table.num_columns} values were bound"
        )
    rows = list(zip(*(_objects(column) for column in table.columns), strict=True))
    wanted = [] if expected is None else expected.names
    if not wanted or all(name.isdigit() for name in wanted):
        return [list(row) for row in rows]
    if set(names) != set(wanted):
        names = wanted
    return [dict(zip(names, row, strict=True)) for row in rows]


def _objects(column: pa.ChunkedArray) -> list[object]:
    """Bound values as DuckDB's Python interface takes them: a duckdb.Value where Python has nothing for one."""
    if not _has_no_object(column.type):
        with suppress(OverflowError, ValueError):
            # Infinity and years before Christ are dates that Python does not have.
            return column.to_pylist()  # type: ignore[no-any-return]
    with closing(duckdb.connect()) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("bound", pa.table({"value": column}))
        found = connection.execute("SELECT value::VARCHAR, typeof(value) FROM bound").fetchall()
    return [None if text is None else duckdb.Value(text, duckdb.dtype(kind)) for text, kind in found]


def _has_no_object(kind: pa.DataType) -> bool:
    """Whether DuckDB would take what Arrow makes of such a value for a list."""
    if pa.types.is_interval(kind) or pa.types.is_map(kind):
        return True
    return any(_has_no_object(kind.field(at).type) for at in range(kind.num_fields))


def parameter_values(parameters: Parameters) -> list[object] | dict[str, object]:
    """Parameters in the form DuckDB takes."""
    return dict(parameters) if isinstance(parameters, Mapping) else list(parameters)


def parameter_schema(cursor: duckdb.DuckDBPyConnection, found: Sequence[tuple[str, object]]) -> pa.Schema:
    """The schema of parameters with these names and DuckDB types, in the order in which they are bound."""
    ordered = sorted(found, key=lambda item: (int(item[0]) if item[0].isdigit() else 0, item[0]))
    # A text converts to whatever an untyped parameter turns out to be.
    types = ["VARCHAR" if str(kind) == "UNKNOWN" else carried_type(str(kind)) for _, kind in ordered]
    return plain_schema(_duckdb._arrow_schema([name for name, _ in ordered], types, connection=cursor))


def _nulls(found: Sequence[tuple[str, Any]]) -> list[object] | dict[str, object]:
    if all(name.isdigit() for name, _ in found):
        return [None] * max(int(name) for name, _ in found)
    return {name: None for name, _ in found}


def _short(kind: str) -> str:
    """A type's name as drivers show it."""
    return "ENUM" if kind.startswith("ENUM(") else kind
