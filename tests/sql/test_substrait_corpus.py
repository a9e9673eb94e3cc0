"""The queries of the .slt files, each written as a Substrait plan by a real server and run by it from the plan: the
rows are those that the SQL gives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import adbc_driver_flightsql.dbapi as dbapi
import pytest
from support.hash_server import Host, Run, client, run_all
from support.plans import plan_of
from support.slt import Outcome, Record, complaint, first_of_each_label, parse

BESIDE = frozenset({"errors", "laterals", "lists", "places"})
"""Files of statements that are errors, or most of which the core of Substrait leaves out."""

FILES = sorted(path for path in Path(__file__).parent.glob("*.slt") if path.stem not in BESIDE)
NAMES = frozenset({"covey", "duckdb", "optimizer-on"})

OUTSIDE = re.compile(
    r"\bOVER\b|QUALIFY|DISTINCT ON|POSITIONAL JOIN|ASOF JOIN|LATERAL|RECURSIVE|BY NAME|PIVOT|RETURNING|SELECT \{|"
    r"^VALUES|FROM \(VALUES \(a|\* REPLACE|COLUMNS\(|struct_pack|[\])]\[1\]|"
    r"LIMIT \d+%|unnest\(|lambda|WINDOW w|TABLESAMPLE|USING SAMPLE|::STRUCT|'Is it so\?', e\)|place\.body",
    re.IGNORECASE,
)
"""What the core of Substrait that is written leaves out, as the statements have it."""


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    host = Host()
    yield host
    host.close()


def through_plans(connection: dbapi.Connection) -> Run:
    """Runs queries from their plans, everything else as it is."""
    direct = client(connection)

    def run(record: Record) -> Outcome:
        if record.kind != "query":
            return direct(record)
        try:
            plan = plan_of(connection, record.sql)
            with connection.cursor() as cursor:
                cursor.execute(plan, record.values)
                return Outcome(tuple(cursor.fetchall()))
        except dbapi.Error as error:
            return Outcome(error=str(error))

    return run


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_plan_gives_the_rows_of_the_query(path: Path, host: Host, tmp_path: Path) -> None:
    records = parse(path.read_text("utf-8"))
    labelled = first_of_each_label(records)
    wrong: list[str | None] = []
    with host.connect(tmp_path, "duckdb", "on") as connection:
        for record, outcome in run_all(records, NAMES, through_plans(connection)):
            if record.kind == "query" and OUTSIDE.search(record.sql):
                assert outcome.error is not None, record.sql
                assert "Substrait plan" in outcome.error
                outcome = client(connection)(record)
            wrong.append(complaint(record, outcome, labelled))
    found = [text for text in wrong if text is not None]
    assert not found, "\n\n".join(found)


def test_most_queries_have_plans() -> None:
    records = [
        record for path in FILES for record in parse(path.read_text("utf-8")) if record.concerns(NAMES)
    ]
    queries = [record.sql for record in records if record.kind == "query"]
    outside = sum(OUTSIDE.search(sql) is not None for sql in queries)
    assert len(queries) - outside >= 410
    assert outside <= len(queries) / 10
