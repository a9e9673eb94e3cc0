"""An upload of Arrow batches in, rows in a table out; never holds the whole upload."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
from covey_storage.storable import Storable, refusing_column

from covey_server.errors import AlreadyThere, BadRequest, NoSuchThing
from covey_server.guard import refuse_reserved
from covey_server.lanes import Lane, quote
from covey_server.proto.flight_sql_pb2 import CommandStatementIngest
from covey_server.uploads import Uploaded

_SOURCE = "covey_upload"

_Options = CommandStatementIngest.TableDefinitionOptions


def ingest(lane: Lane, command: Any, uploaded: Uploaded) -> int:
    """Load an upload into the table that a CommandStatementIngest names; the number of rows.

    All rows or none: DuckDB inserts them in one statement. Raises NoSuchThing, AlreadyThere, BadRequest,
    duckdb.Error.
    """
    if command.temporary and not lane.explicit:
        raise BadRequest("a temporary table lives as long as its transaction: begin one first")
    options = command.table_definition_options
    if not options.if_not_exist or not options.if_exists:
        raise BadRequest("bulk ingestion has to say what to do where the table exists and where it does not")
    with lane.statement() as cursor:
        source: Storable | None = None
        try:
            source = Storable(uploaded.reader)
            rows = _load(cursor, command, source.reader)
        except Exception as error:
            lane.failed()
            failure = uploaded.failure or (source and source.failure)
            raise failure or _named(error, uploaded.schema) from None
        lane.wrote(frozenset({command.table.lower()}))
    lane.release()
    return rows


def _load(cursor: duckdb.DuckDBPyConnection, command: Any, reader: pa.RecordBatchReader) -> int:
    options = command.table_definition_options
    target = _target(cursor, command)
    there = _exists(cursor, command)
    if there and options.if_exists == _Options.TABLE_EXISTS_OPTION_FAIL:
        raise AlreadyThere(f"the table {command.table} exists")
    if not there and options.if_not_exist == _Options.TABLE_NOT_EXIST_OPTION_FAIL:
        raise NoSuchThing(f"there is no table {command.table}")
    replace = there and options.if_exists == _Options.TABLE_EXISTS_OPTION_REPLACE
    cursor.register(_SOURCE, reader)
    try:
        if there and not replace:
            columns = ", ".join(map(quote, reader.schema.names))
            statement = f"INSERT INTO {target} ({columns}) SELECT * FROM {_SOURCE}"
        else:
            create = "CREATE OR REPLACE" if replace else "CREATE"
            kind = "TEMP TABLE" if command.temporary else "TABLE"
            statement = f"{create} {kind} {target} AS SELECT * FROM {_SOURCE}"
        return int(cursor.execute(statement).fetchall()[0][0])
    finally:
        cursor.unregister(_SOURCE)


def _named(error: Exception, schema: pa.Schema) -> Exception:
    """The error, naming the column where it is about the type of one."""
    if isinstance(error, duckdb.NotImplementedException) and (column := refusing_column(schema)) is not None:
        return BadRequest(column)
    return error


def _target(cursor: duckdb.DuckDBPyConnection, command: Any) -> str:
    if not command.table:
        raise BadRequest("bulk ingestion has to name a table")
    refuse_reserved(command.table)
    current = cursor.execute("SELECT current_database()").fetchall()[0][0]
    if command.HasField("catalog") and command.catalog not in ("", current):
        raise BadRequest(f"there is no catalog {command.catalog!r}")
    if command.HasField("schema") and command.schema:
        if command.temporary:
            raise BadRequest("a temporary table has no schema of its own")
        return f"{quote(command.schema)}.{quote(command.table)}"
    return quote(command.table)


def _exists(cursor: duckdb.DuckDBPyConnection, command: Any) -> bool:
    rows = cursor.execute(
        "SELECT 1 FROM duckdb_tables() WHERE lower(table_name) = lower($table) AND temporary = $temporary "
        "AND ($temporary OR schema_name = coalesce($schema, current_schema()) "
        "AND database_name = current_database())",
        {
            "table": command.table,
            "temporary": command.temporary,
            "schema": command.schema if command.HasField("schema") and command.schema else None,
        },
    ).fetchall()
    return bool(rows)
