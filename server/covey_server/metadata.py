"""Catalog commands in, Arrow tables of the specified shapes out; reads DuckDB's catalog, nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from covey_server import lifecycle
from covey_server.framing import encode_schema
from covey_server.lanes import quote
from covey_server.statements import described, result_schema


def _text(name: str, nullable: bool = True) -> pa.Field:
    return pa.field(name, pa.string(), nullable)


CATALOGS = pa.schema([_text("catalog_name", False)])
DB_SCHEMAS = pa.schema([_text("catalog_name"), _text("db_schema_name", False)])
TABLES = pa.schema(
    [_text("catalog_name"), _text("db_schema_name"), _text("table_name", False), _text("table_type", False)]
)
TABLES_WITH_SCHEMA = TABLES.append(pa.field("table_schema", pa.binary(), False))
TABLE_TYPES = pa.schema([_text("table_type", False)])
PRIMARY_KEYS = pa.schema(
    [
        _text("catalog_name"),
        _text("db_schema_name"),
        _text("table_name", False),
        _text("column_name", False),
        _text("key_name"),
        pa.field("key_sequence", pa.int32(), False),
    ]
)
FOREIGN_KEYS = pa.schema(
    [
        _text("pk_catalog_name"),
        _text("pk_db_schema_name"),
        _text("pk_table_name", False),
        _text("pk_column_name", False),
        _text("fk_catalog_name"),
        _text("fk_db_schema_name"),
        _text("fk_table_name", False),
        _text("fk_column_name", False),
        pa.field("key_sequence", pa.int32(), False),
        _text("fk_key_name"),
        _text("pk_key_name"),
        pa.field("update_rule", pa.uint8(), False),
        pa.field("delete_rule", pa.uint8(), False),
    ]
)

_TYPES = ("SYSTEM TABLE", "TABLE", "VIEW")
_SAME = {"BASE TABLE": "TABLE", "SYSTEM VIEW": "SYSTEM TABLE"}
_NO_ACTION = 3

_RELATIONS = """
    SELECT database_name, schema_name, table_name, 'TABLE' FROM duckdb_tables()
    WHERE NOT internal AND NOT temporary AND database_name = current_database()
    UNION ALL
    SELECT database_name, schema_name, view_name, 'VIEW' FROM duckdb_views()
    WHERE NOT internal AND NOT temporary AND database_name = current_database()
    UNION ALL
    SELECT current_database(), 'main', $system, 'SYSTEM TABLE'
"""


def catalogs(cursor: duckdb.DuckDBPyConnection) -> pa.Table:
    """The one catalog: the database."""
    return _table(CATALOGS, cursor.execute("SELECT current_database()").fetchall())


def db_schemas(cursor: duckdb.DuckDBPyConnection, catalog: str | None, pattern: str | None) -> pa.Table:
    """Schemas whose name fits a pattern."""
    rows = cursor.execute(
        "SELECT database_name, schema_name FROM duckdb_schemas() WHERE database_name = current_database() "
        "AND ($catalog IS NULL OR database_name = $catalog) "
        "AND ($pattern IS NULL OR schema_name ILIKE $pattern ESCAPE '\\') ORDER BY ALL",
        {"catalog": catalog, "pattern": pattern},
    ).fetchall()
    return _table(DB_SCHEMAS, rows)


def tables(cursor: duckdb.DuckDBPyConnection, command: Any) -> pa.Table:
    """Tables and views that fit a CommandGetTables, with their schemas if it asks for them."""
    wanted = [_SAME.get(kind, kind) for kind in command.table_types]
    rows = cursor.execute(
        f"SELECT * FROM ({_RELATIONS}) AS r(catalog, db_schema, name, kind) "
        "WHERE ($catalog IS NULL OR catalog = $catalog) "
        "AND ($schema IS NULL OR db_schema ILIKE $schema ESCAPE '\\') "
        "AND ($name IS NULL OR name ILIKE $name ESCAPE '\\') "
        "AND (len($kinds) = 0 OR kind IN (SELECT unnest($kinds::VARCHAR[]))) ORDER BY ALL",
        {
            "system": lifecycle.TABLE,
            "catalog": _optional(command, "catalog"),
            "schema": _optional(command, "db_schema_filter_pattern"),
            "name": _optional(command, "table_name_filter_pattern"),
            "kinds": wanted,
        },
    ).fetchall()
    if not command.include_schema:
        return _table(TABLES, rows)
    with_schema = []
    for catalog, db_schema, name, kind in rows:
        schema = _schema_of(cursor, db_schema, name, kind)
        if schema is not None:
            with_schema.append((catalog, db_schema, name, kind, encode_schema(schema)))
    return _table(TABLES_WITH_SCHEMA, with_schema)


def table_types(_cursor: duckdb.DuckDBPyConnection) -> pa.Table:
    """What kinds of tables there are."""
    return _table(TABLE_TYPES, [(kind,) for kind in _TYPES])


def primary_keys(cursor: duckdb.DuckDBPyConnection, command: Any) -> pa.Table:
    """The primary key columns of a table."""
    rows = cursor.execute(
        "SELECT database_name, schema_name, table_name, unnest(constraint_column_names), constraint_name, "
        "unnest(range(1, len(constraint_column_names) + 1)) FROM duckdb_constraints() "
        "WHERE constraint_type = 'PRIMARY KEY' AND database_name = current_database() "
        "AND table_name = $table "
        "AND ($catalog IS NULL OR database_name = $catalog) AND ($schema IS NULL OR schema_name = $schema) "
        "ORDER BY 1, 2, 3, 5, 6",
        {
            "table": command.table,
            "catalog": _optional(command, "catalog"),
            "schema": _optional(command, "db_schema"),
        },
    ).fetchall()
    return _table(PRIMARY_KEYS, rows)


def exported_keys(cursor: duckdb.DuckDBPyConnection, command: Any) -> pa.Table:
    """Foreign keys that point to a table."""
    keys = _foreign_keys(
        cursor, lambda row: _names(row, 0, command, "catalog", "db_schema", "table"), order=(4, 5, 6, 9, 8)
    )
    return _table(FOREIGN_KEYS, keys)


def imported_keys(cursor: duckdb.DuckDBPyConnection, command: Any) -> pa.Table:
    """Foreign keys of a table."""
    keys = _foreign_keys(
        cursor, lambda row: _names(row, 4, command, "catalog", "db_schema", "table"), order=(0, 1, 2, 10, 8)
    )
    return _table(FOREIGN_KEYS, keys)


def cross_reference(cursor: duckdb.DuckDBPyConnection, command: Any) -> pa.Table:
    """Foreign keys of one table that point to another."""
    keys = _foreign_keys(
        cursor,
        lambda row: (
            _names(row, 0, command, "pk_catalog", "pk_db_schema", "pk_table")
            and _names(row, 4, command, "fk_catalog", "fk_db_schema", "fk_table")
        ),
        order=(0, 1, 2, 10, 8),
    )
    return _table(FOREIGN_KEYS, keys)


def _schema_of(cursor: duckdb.DuckDBPyConnection, db_schema: str, name: str, kind: str) -> pa.Schema | None:
    if kind == "SYSTEM TABLE":
        return described(lifecycle.SCHEMA, list(lifecycle.DUCKDB_TYPES.values()))
    try:
        relation = cursor.sql(f"SELECT * FROM {quote(db_schema)}.{quote(name)}")
    except duckdb.Error:
        # A view whose tables are gone has no schema to tell.
        return None
    return result_schema(cursor, relation.columns, relation.types)


def _foreign_keys(
    cursor: duckdb.DuckDBPyConnection, fits: Callable[[Sequence[Any]], bool], order: Sequence[int]
) -> list[tuple[Any, ...]]:
    rows = cursor.execute(
        "SELECT f.database_name, f.schema_name, f.referenced_table, unnest(f.referenced_column_names), "
        "f.database_name, f.schema_name, f.table_name, unnest(f.constraint_column_names), "
        "unnest(range(1, len(f.constraint_column_names) + 1)), f.constraint_name, p.constraint_name, "
        f"{_NO_ACTION}, {_NO_ACTION} FROM duckdb_constraints() f LEFT JOIN duckdb_constraints() p "
        "ON p.database_name = f.database_name AND p.schema_name = f.schema_name "
        "AND p.table_name = f.referenced_table AND p.constraint_column_names = f.referenced_column_names "
        "AND p.constraint_type IN ('PRIMARY KEY', 'UNIQUE') "
        "WHERE f.constraint_type = 'FOREIGN KEY' AND f.database_name = current_database()"
    ).fetchall()
    return sorted(filter(fits, rows), key=lambda row: [str(row[at]) for at in order])


def _names(row: Sequence[Any], at: int, command: Any, catalog: str, schema: str, table: str) -> bool:
    """Whether the table named from `at` on is the one the command names; what it leaves out fits all."""
    return bool(
        row[at + 2] == getattr(command, table)
        and _optional(command, catalog) in (None, row[at])
        and _optional(command, schema) in (None, row[at + 1])
    )


def _optional(command: Any, name: str) -> str | None:
    return getattr(command, name) if command.HasField(name) else None


def _table(schema: pa.Schema, rows: Sequence[Sequence[Any]]) -> pa.Table:
    columns = [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(schema)]
    return pa.Table.from_arrays(columns, schema=schema)
