"""Statements too long for the model or for the server, through the real client: short errors."""

from __future__ import annotations

from pathlib import Path

import adbc_driver_flightsql.dbapi as dbapi
import pytest
from support.hash_server import Host
from support.sql import rows


def test_the_error_of_a_long_question_is_short(tmp_path: Path) -> None:
    host = Host()
    try:
        with host.serve(tmp_path) as uri, dbapi.connect(uri, autocommit=True) as client:
            with pytest.raises(
                dbapi.Error, match=r"….* tokens of fixed text, over the model's context"
            ) as error:
                rows(client, f"SELECT AI_FILTER('{'why ' * 9000}', 'because')")
            assert len(str(error.value)) < 500
            assert rows(client, "SELECT 1") == [(1,)]
    finally:
        host.close()


def test_a_statement_longer_than_the_setting_is_refused_before_it_is_read(
    connection: dbapi.Connection,
) -> None:
    short, long = (
        f"SELECT 1 WHERE 7 IN ({', '.join(['1234567'] * count)}, 7)" for count in (10_000, 120_000)
    )
    assert rows(connection, short) == [(1,)]
    said = r"the statement has 1,0[\d,]+ bytes, more than the 1,048,576 of the server's setting statement_bytes: "
    for sql in (long, f"{long} AND AI_FILTER('Is it?', 'x')"):
        with pytest.raises(dbapi.ProgrammingError, match=said) as error:
            rows(connection, sql)
        assert "InvalidArgument" in str(error.value)
    assert rows(connection, "SELECT count(*) FROM covey_queries WHERE length(sql) > 70000") == [(0,)]
    (kept,) = rows(connection, "SELECT sql FROM covey_queries WHERE sql LIKE 'SELECT 1 WHERE 7 IN%'")
    assert kept[0] == f"{short[: 1 << 16]} … ({len(short) - (1 << 16)} characters left out)"
