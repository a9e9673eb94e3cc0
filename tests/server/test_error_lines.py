"""Exceptions become a status and one line, whatever DuckDB or Arrow put into their texts."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
from covey_server.errors import status_of
from grpc import StatusCode


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (
            duckdb.InternalException(
                "INTERNAL Error: Vector of a wrong type\n\nStack Trace:\n\n/usr/lib/duckdb.so(+0x1) [0x2]\n"
                "This error signals an assertion failure within DuckDB.\nFor more information, see https://duckdb.org"
            ),
            StatusCode.INTERNAL,
            "INTERNAL Error: Vector of a wrong type",
        ),
        (
            duckdb.InternalException(
                "INTERNAL Error: Odd\nThis error signals an assertion failure within DuckDB. …"
            ),
            StatusCode.INTERNAL,
            "INTERNAL Error: Odd",
        ),
        (
            pa.ArrowInvalid(
                "Invalid Input Error: Arrow Appender: The maximum total string size for regular string buffers is "
                "2147483647 but the offset of 2148300000 exceeds this.\n* SET arrow_large_buffer_size=true"
            ),
            StatusCode.INVALID_ARGUMENT,
            "128 neighbouring rows of the result hold more than 2 GiB of text, which no Arrow batch can: "
            "select fewer of the long ones at once, or parts of them",
        ),
        (
            duckdb.CatalogException(
                'Catalog Error: Scalar Function with name ai_filtr does not exist!\nDid you mean "filter"?\n\n'
                "LINE 1: SELECT AI_FILTR('x', body)\n               ^"
            ),
            StatusCode.INVALID_ARGUMENT,
            "Catalog Error: Scalar Function with name ai_filtr does not exist! There is AI_FILTER, AI_SCORE, "
            "AI_CLASSIFY, AI_SENTIMENT, AI_COUNT_TOKENS, and AI.IF, AI.SCORE, AI.CLASSIFY (line 1)",
        ),
        (
            duckdb.CatalogException(
                'Catalog Error: Scalar Function with name prompt does not exist!\nDid you mean "product"?'
            ),
            StatusCode.INVALID_ARGUMENT,
            "Catalog Error: Scalar Function with name prompt does not exist! PROMPT stands in an AI function: "
            "AI_FILTER(PROMPT('… {0} …', column))",
        ),
        (duckdb.Error("Parameter not supported"), StatusCode.INVALID_ARGUMENT, "Parameter not supported"),
        (
            duckdb.ConnectionException("Connection Error: Connection already closed!"),
            StatusCode.INTERNAL,
            "Connection Error: Connection already closed!",
        ),
    ],
)
def test_what_a_client_is_told(error: Exception, code: StatusCode, message: str) -> None:
    status = status_of(error)
    assert (status.code, status.message) == (code, message)
