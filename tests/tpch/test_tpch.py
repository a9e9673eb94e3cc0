"""TPC-H's queries through the real client give what plain DuckDB gives on the same files."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import adbc_driver_flightsql.dbapi as dbapi
import duckdb
import pytest
from support.hash_server import Host
from support.plans import plan_of
from support.serving import serve
from support.sql import table
from support.tpch import generate, generator, queries

pytestmark = pytest.mark.skipif(generator() is None, reason="tpchgen-cli is not installed")

DATAFUSION = json.loads((Path(__file__).parents[1] / "sql" / "plans" / "datafusion.json").read_text("utf-8"))
"""Plans of the queries by another producer; `plans/make.py` says how they are made."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(tmp_path_factory.mktemp("tpch"))


@pytest.fixture(scope="module")
def client(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dbapi.Connection]:
    process = serve(tmp_path_factory.mktemp("server"), "--model", "none", "--data", str(data))
    with dbapi.connect(process.uri, autocommit=True) as connection:
        yield connection
    assert process.stop() == 0


@pytest.fixture(scope="module")
def duck(data: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for path in sorted(data.glob("*.parquet")):
            connection.execute(f"CREATE VIEW {path.stem} AS FROM '{path}'")
        yield connection


@pytest.mark.parametrize("name", queries())
def test_same_result(name: str, client: dbapi.Connection, duck: duckdb.DuckDBPyConnection) -> None:
    sql = queries()[name]
    found, wanted = table(client, sql), duck.sql(sql).to_arrow_table()
    assert found.schema.names == wanted.schema.names
    assert [str(kind) for kind in found.schema.types] == [str(kind) for kind in wanted.schema.types]
    assert found.num_rows == wanted.num_rows
    for column, mine, other in zip(found.schema.names, found.columns, wanted.columns, strict=True):
        assert all(map(_same, mine.to_pylist(), other.to_pylist())), column


@pytest.mark.parametrize("name", queries())
def test_same_result_from_the_plan(name: str, client: dbapi.Connection) -> None:
    sql = queries()[name]
    plan = plan_of(client, sql)
    with client.cursor() as cursor:
        cursor.execute(plan)
        found = cursor.fetch_arrow_table()
    assert found.schema == table(client, sql).schema
    for mine, other in zip(found.columns, table(client, sql).columns, strict=True):
        assert all(map(_same, mine.to_pylist(), other.to_pylist()))


@pytest.mark.parametrize("name", queries())
def test_same_result_from_the_plan_of_datafusion(
    name: str, client: dbapi.Connection, duck: duckdb.DuckDBPyConnection
) -> None:
    with client.cursor() as cursor:
        cursor.execute(base64.b64decode(DATAFUSION[name]))
        found = cursor.fetchall()
    wanted = duck.execute(queries()[name]).fetchall()
    assert len(found) == len(wanted)
    assert all(
        _near(mine, other)
        for row, like in zip(found, wanted, strict=True)
        for mine, other in zip(row, like, strict=True)
    )


def _near(value: object, other: object) -> bool:
    """What a producer calculates in decimals, DuckDB calculates in doubles."""
    if isinstance(value, float | Decimal) or isinstance(other, float | Decimal):
        return value is not None and other is not None and math.isclose(value, other, rel_tol=1e-6)  # type: ignore[arg-type]
    return value == other


def _same(value: object, other: object) -> bool:
    """Averages are sums of doubles, in an order that is DuckDB's to choose."""
    if isinstance(value, float) and isinstance(other, float):
        return math.isclose(value, other, rel_tol=1e-12)
    return value == other


def test_the_data_are_there(duck: duckdb.DuckDBPyConnection) -> None:
    """No query is the same by being empty, but for those that find nothing at this scale."""
    empty = {name for name, sql in queries().items() if not duck.execute(sql).fetchall()}
    assert len(queries()) == 22
    assert empty <= {"q2", "q18", "q20"}


@pytest.mark.usefixtures("data")
def test_a_server_with_a_model_does_the_same(
    data: Path, duck: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    host = Host()
    sql = queries()["q12"]
    with host.connect(tmp_path, "duckdb", "on") as connection:
        with connection.cursor() as cursor:
            for name in ("orders", "lineitem"):
                cursor.adbc_ingest(name, duck.sql(f"FROM {name}").to_arrow_table())
        assert table(connection, sql).to_pylist() == duck.sql(sql).to_arrow_table().to_pylist()
    host.close()
