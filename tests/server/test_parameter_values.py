"""Bound values of every type reach DuckDB as what they are, in plain statements and beside questions."""

from __future__ import annotations

import adbc_driver_flightsql.dbapi as dbapi
import pyarrow as pa
import pytest
from covey_planner.language.parameters import literal
from covey_server.statements import parameter_rows
from support.sql import rows

VALUES = {
    "INTERVAL": "INTERVAL '1 year 2 days 3 seconds'",
    "INTERVAL[]": "[INTERVAL '5 minutes', NULL]",
    "MAP": "MAP {'a, b': [1], 'c': NULL}",
    "DATE": "'infinity'::DATE",
    "a date before Christ": "'0044-03-15 (BC)'::DATE",
    "TIMESTAMP": "'-infinity'::TIMESTAMP",
    "TIMESTAMPTZ": "'infinity'::TIMESTAMPTZ",
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_a_value_that_python_has_no_object_for_arrives(connection: dbapi.Connection, value: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {value} AS v")
        bound = cursor.fetch_arrow_table().rename_columns(["0"]).combine_chunks().to_batches()[0]
        cursor.execute(f"SELECT ? = {value} AS same, typeof(?) = typeof({value}) AS alike", two(bound))
        assert cursor.fetchall() == [(True, True)]


def two(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([batch.column(0)] * 2, names=["0", "1"])


def test_a_zone_that_python_does_not_know_is_no_matter(connection: dbapi.Connection) -> None:
    bound = pa.record_batch({"0": pa.array([5_000_000], pa.timestamp("us", "Nowhere/There"))})
    with connection.cursor() as cursor:
        cursor.execute("SELECT epoch(?::TIMESTAMPTZ)", bound)
        assert cursor.fetchall() == [(5.0,)]


def test_a_null_among_them_stays_one() -> None:
    kind = pa.month_day_nano_interval()
    assert parameter_rows(pa.table({"0": pa.array([None], kind)})) == [[None]]


def test_beside_a_question_they_are_written_out(connection: dbapi.Connection) -> None:
    ((value,),) = parameter_rows(pa.table({"0": pa.array([(1, 2, 3_000)], pa.month_day_nano_interval())}))
    assert rows(connection, f"SELECT {literal(value)} = INTERVAL '1 month 2 days 3 microseconds'") == [
        (True,)
    ]
