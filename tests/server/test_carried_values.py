"""Values that DuckDB hands Arrow wrongly, or does not take from it, through the real client: right, or an error."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import adbc_driver_flightsql.dbapi as dbapi
import numpy as np
import pyarrow as pa
import pytest
from covey_storage.carried import carried_type
from covey_storage.catalog import Database
from support.hash_server import Host
from support.sql import rows, run, table

BITS = "SELECT '12:34:56+02:30'::TIMETZ AS t, '00101'::BIT AS b, NULL::BIT AS n, 7::UHUGEINT AS u, -5::BIGNUM AS g"
SENT = ("12:34:56+02:30", "00101", None, Decimal(7), "-5")


def test_offsets_bits_and_large_numbers_are_sent_as_they_are(connection: dbapi.Connection) -> None:
    found = table(connection, BITS)
    assert found.schema.types == [pa.string(), pa.string(), pa.string(), pa.decimal128(38, 0), pa.string()]
    assert rows(connection, BITS) == [SENT]
    with connection.cursor() as cursor:
        cursor.execute("SELECT '11'::BIT AS x, ?::BIT AS x", ("10",))
        assert cursor.fetchall() == [("11", "10")]


def test_they_are_sent_alike_from_within_other_values(connection: dbapi.Connection) -> None:
    struct = "{'a, BIT)': '10:00:00+01'::TIMETZ, 'u': 1::UHUGEINT}"
    nested = f"SELECT ['01'::BIT] AS l, {struct} AS s, MAP {{1: '1'::BIT}} AS m"
    assert rows(connection, nested) == [
        (["01"], {"a, BIT)": "10:00:00+01", "u": Decimal(1)}, [(1, "1")]),
    ]


def test_statements_that_write_and_those_with_questions_send_them_too(host: Host, tmp_path: Path) -> None:
    with host.serve(tmp_path) as uri, dbapi.connect(uri, autocommit=True) as connection:
        run(connection, f"CREATE TABLE kept AS {BITS}")
        assert rows(connection, "INSERT INTO kept SELECT * FROM kept RETURNING t, b, b") == [
            (SENT[0], SENT[1], SENT[1])
        ]
        asked = "SELECT * FROM kept WHERE AI_FILTER('Is it?', t::VARCHAR) IS NOT NULL"
        assert rows(connection, asked) == [SENT, SENT]


def test_a_number_too_large_for_arrow_is_an_error_that_names_its_column(connection: dbapi.Connection) -> None:
    large = f"{2**128 - 1}::UHUGEINT"
    with pytest.raises(Exception, match='column "it\'s": a UHUGEINT of more than 38 digits') as caught:
        rows(connection, f'SELECT {large} AS "it\'s"')
    assert "InvalidArgument" in str(caught.value)
    with pytest.raises(Exception, match="Could not cast value 340282366920938463463374607431768211455"):
        rows(connection, f"SELECT [{large}] AS l")
    assert rows(connection, f"SELECT {large}::VARCHAR") == [(str(2**128 - 1),)]
    assert rows(connection, f"SELECT {10**38 - 1}::UHUGEINT") == [(Decimal(10**38 - 1),)]


@pytest.mark.parametrize(
    ("kind", "sent"),
    [
        ("TIMESTAMP WITH TIME ZONE", "TIMESTAMP WITH TIME ZONE"),
        (
            'STRUCT(BIT BIT, "BIT" INTEGER, t TIME WITH TIME ZONE[])',
            'STRUCT(BIT VARCHAR, "BIT" INTEGER, t VARCHAR[])',
        ),
        ("ENUM('BIT', 'it''s, BIT')", "ENUM('BIT', 'it''s, BIT')"),
        ("MAP(VARCHAR, UHUGEINT)[3]", "MAP(VARCHAR, DECIMAL(38,0))[3]"),
    ],
)
def test_only_types_are_replaced_not_names(kind: str, sent: str) -> None:
    assert carried_type(kind) == sent


def ingest(connection: dbapi.Connection, columns: dict[str, pa.Array]) -> int:
    with connection.cursor() as cursor:
        return int(cursor.adbc_ingest("taken", pa.table(columns), mode="replace"))


def test_what_duckdb_does_not_take_from_arrow_is_taken(connection: dbapi.Connection) -> None:
    halves = np.array([1.5, 65504], np.float16)
    columns = {
        "h": pa.array(halves),
        "l": pa.array([[halves[0]], None], pa.list_(pa.float16())),
        "d": pa.array([Decimal("123.45"), None], pa.decimal256(50, 2)),
        "s": pa.array(["a\0b", "\0"]),
    }
    assert ingest(connection, columns) == 2
    assert rows(connection, "SELECT * FROM taken") == [
        (1.5, [1.5], Decimal("123.45"), "a\0b"),
        (65504.0, None, None, "\0"),
    ]
    assert rows(connection, "SELECT typeof(h), typeof(d) FROM taken LIMIT 1") == [("FLOAT", "DECIMAL(38,2)")]
    assert rows(connection, "SELECT ? = 'a' || chr(0) || 'b'", ("a\0b",)) == [(True,)]


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pa.array([Decimal("1" * 45)], pa.decimal256(50, 0)), "column 'bad': Decimal value does not fit"),
        (
            pa.array([Decimal(1)], pa.decimal256(76, 50)),
            r"column 'bad': decimal256\(76, 50\) has more decimals",
        ),
    ],
)
def test_what_cannot_be_stored_names_its_column(
    connection: dbapi.Connection, column: pa.Array, said: str
) -> None:
    with pytest.raises(dbapi.Error, match=said) as caught:
        ingest(connection, {"good": pa.array(["x"]), "bad": column})
    assert "InvalidArgument" in str(caught.value)
    assert rows(connection, "SELECT 1") == [(1,)]


def test_a_data_file_of_such_types_is_loaded_or_named(tmp_path: Path) -> None:
    for name, digits in (("good", 30), ("wide", 45)):
        found = pa.table(
            {"h": pa.array([np.float16(2)]), "d": pa.array([Decimal("1" * digits)], pa.decimal256(60, 0))}
        )
        with (
            pa.OSFile(str(tmp_path / f"{name}.arrow"), "wb") as out,
            pa.ipc.new_file(out, found.schema) as writer,
        ):
            writer.write_table(found)
    database = Database.open(None, [tmp_path / "good.arrow"])
    cursor = database.cursor()
    assert cursor.execute("SELECT * FROM good").fetchall() == [(2.0, Decimal("1" * 30))]
    cursor.close()
    database.close()
    with pytest.raises(
        Exception, match=r"cannot read data file .*wide\.arrow: column 'd': Decimal value does not fit"
    ):
        Database.open(None, [tmp_path / "wide.arrow"])
