"""Flight SQL's commands about the catalog and the server in, the schemas and tables of their answers out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa

from covey_server import metadata, xdbc
from covey_server.errors import Unsupported
from covey_server.lanes import Lane
from covey_server.proto import flight_sql_pb2 as sql
from covey_server.sqlinfo import SCHEMA as SQL_INFO
from covey_server.sqlinfo import sql_info

_Metadata = Callable[[duckdb.DuckDBPyConnection, Any], pa.Table]

_CATALOG: dict[type, tuple[pa.Schema, _Metadata]] = {
    sql.CommandGetCatalogs: (metadata.CATALOGS, lambda cursor, _: metadata.catalogs(cursor)),
    sql.CommandGetDbSchemas: (
        metadata.DB_SCHEMAS,
        lambda cursor, command: metadata.db_schemas(
            cursor,
            command.catalog if command.HasField("catalog") else None,
            command.db_schema_filter_pattern if command.HasField("db_schema_filter_pattern") else None,
        ),
    ),
    sql.CommandGetTables: (metadata.TABLES, metadata.tables),
    sql.CommandGetTableTypes: (metadata.TABLE_TYPES, lambda cursor, _: metadata.table_types(cursor)),
    sql.CommandGetPrimaryKeys: (metadata.PRIMARY_KEYS, metadata.primary_keys),
    sql.CommandGetExportedKeys: (metadata.FOREIGN_KEYS, metadata.exported_keys),
    sql.CommandGetImportedKeys: (metadata.FOREIGN_KEYS, metadata.imported_keys),
    sql.CommandGetCrossReference: (metadata.FOREIGN_KEYS, metadata.cross_reference),
}


def schema_of(command: Any) -> pa.Schema:
    """The schema of what a command asks for. Raises Unsupported for one that is not known."""
    match command:
        case sql.CommandGetSqlInfo():
            return SQL_INFO
        case sql.CommandGetXdbcTypeInfo():
            return xdbc.SCHEMA
        case sql.CommandGetTables() if command.include_schema:
            return metadata.TABLES_WITH_SCHEMA
        case _ if type(command) in _CATALOG:
            return _CATALOG[type(command)][0]
    raise Unsupported(f"{type(command).__name__} is not supported here")


def table_of(command: Any, facts: dict[int, object], lane: Callable[[], Lane]) -> pa.Table:
    """What a command asks for. facts: what GetSqlInfo tells; lane: gives one to read the catalog on."""
    match command:
        case sql.CommandGetSqlInfo():
            return sql_info(command.info, facts)
        case sql.CommandGetXdbcTypeInfo():
            return xdbc.type_info(command.data_type if command.HasField("data_type") else None)
        case _ if type(command) in _CATALOG:
            reading = lane()
            with reading.statement() as cursor:
                table = _CATALOG[type(command)][1](cursor, command)
            reading.release()
            return table
    raise Unsupported(f"{type(command).__name__} is not supported here")
