"""Plans that other producers wrote (`plans/make.py`) give what the SQL gives that they mean."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import adbc_driver_flightsql.dbapi as dbapi
import pytest
from support.hash_server import Host
from support.sql import rows, run

PLANS: dict[str, str] = json.loads((Path(__file__).parent / "plans" / "ibis.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dbapi.Connection]:
    host = Host()
    with host.connect(tmp_path_factory.mktemp("producers"), "duckdb", "on") as connection:
        run(
            connection,
            "CREATE TABLE tickets (id BIGINT, body VARCHAR, product BIGINT, price DECIMAL(9, 2), opened DATE)",
        )
        run(
            connection,
            "INSERT INTO tickets VALUES (1, 'late', 1, 9.5, '2026-01-05'), (2, 'broken', 2, 20, '2026-02-01'), "
            "(3, NULL, 1, NULL, '2025-12-31'), (4, 'late', NULL, 1, NULL), (5, '', 3, 100, '2026-03-04'), "
            "(6, 'lost', 2, 10, '2026-02-28')",
        )
        run(connection, "CREATE TABLE products (code BIGINT, name VARCHAR, kind VARCHAR)")
        run(
            connection,
            "INSERT INTO products VALUES (1, 'box', 'a'), (2, 'cup', 'b'), (3, NULL, 'a'), (7, 'box', 'b')",
        )
        yield connection
    host.close()


@pytest.mark.parametrize("sql", PLANS)
def test_a_plan_of_ibis(sql: str, connection: dbapi.Connection) -> None:
    with connection.cursor() as cursor:
        cursor.execute(base64.b64decode(PLANS[sql]))
        found = cursor.fetchall()
    wanted = rows(connection, sql)
    assert wanted
    assert found == wanted if "ORDER BY" in sql else sorted(found, key=str) == sorted(wanted, key=str)
