"""Short forms for statements through a DBAPI connection."""

from __future__ import annotations

from typing import Any

import adbc_driver_flightsql.dbapi as dbapi
import pyarrow as pa


def rows(connection: dbapi.Connection, sql: str, parameters: Any = None) -> list[tuple[Any, ...]]:
    """What a query yields."""
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()


def table(connection: dbapi.Connection, sql: str, parameters: Any = None) -> pa.Table:
    """What a query yields, as Arrow."""
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetch_arrow_table()


def run(connection: dbapi.Connection, sql: str, parameters: Any = None) -> int:
    """Run a statement without fetching anything; how many rows it says it changed."""
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return int(cursor.rowcount)
