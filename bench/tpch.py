"""What the server adds to DuckDB on TPC-H's queries, at scale 0.01, without a model.

    python bench/tpch.py [REPEATS]

DuckDB alone runs on the same files, mounted in the same way. Plan: until the result's schema is known (by EXPLAIN, and
by Flight SQL's prepare through the client, which goes to the server and back); whole: until the last batch is there.
The least of the repeats, which other work on the machine disturbs least.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import adbc_driver_flightsql.dbapi as dbapi
from covey_storage.catalog import Database

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.serving import serve
from support.sql import table
from support.tpch import generate, queries


def milliseconds(call: Callable[[], object], repeats: int) -> float:
    call()
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        taken.append((time.perf_counter() - began) * 1e3)
    return min(taken)


def prepare(client: dbapi.Connection, sql: str) -> None:
    with client.cursor() as cursor:
        cursor.adbc_prepare(sql)


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as name:
        data = generate(Path(name) / "data")
        database = Database.open(None, [data])
        process = serve(Path(name), "--model", "none", "--data", str(data))
        try:
            with dbapi.connect(process.uri, autocommit=True) as client:
                measure(database, client, repeats)
        finally:
            process.stop()
            database.close()


def measure(database: Database, client: dbapi.Connection, repeats: int) -> None:
    cursor = database.cursor()
    print("query   plan: DuckDB  Covey   more |  whole: DuckDB   Covey   more   (ms)")
    worst = 0.0
    for name, sql in queries().items():
        plan = [
            milliseconds(lambda sql=sql: cursor.sql(f"EXPLAIN {sql}").fetchall(), repeats),
            milliseconds(lambda sql=sql: prepare(client, sql), repeats),
        ]
        whole = [
            milliseconds(lambda sql=sql: cursor.sql(sql).to_arrow_table(), repeats),
            milliseconds(lambda sql=sql: table(client, sql), repeats),
        ]
        worst = max(worst, plan[1] - plan[0])
        print(
            f"{name:6} {plan[0]:13.1f} {plan[1]:6.1f} {plan[1] - plan[0]:6.1f} |"
            f" {whole[0]:14.1f} {whole[1]:7.1f} {whole[1] - whole[0]:6.1f}"
        )
    print(f"planning takes at most {worst:.1f} ms more")


if __name__ == "__main__":
    main()
