"""Plans give the rows that plain DuckDB gives with the AI call as a function, over statements written by
hand.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import duckdb
import pytest
from support.plan_reference import DOCUMENT_FIRST, QUESTION_FIRST, SHORT, Dice, run_both

TEXT = (Path(__file__).parent / "statements.sql").read_text(encoding="utf-8")
STATEMENTS = [part for part in TEXT.split("\n\n") if not part.startswith("--")]


@pytest.mark.parametrize("sql", STATEMENTS)
def test_same_rows(database: duckdb.DuckDBPyConnection, sql: str) -> None:
    for profile in (DOCUMENT_FIRST, QUESTION_FIRST, SHORT):
        planned, rows, expected, asked = run_both(database, sql, profile)
        assert planned.kind == "ai"
        if " ORDER BY " in sql.rsplit(")", 1)[-1]:
            assert rows == expected
        assert Counter(map(repr, rows)) == Counter(map(repr, expected))
        assert len(set(asked)) == len(asked), "no prompt is asked twice"


@pytest.mark.parametrize("sql", STATEMENTS)
def test_same_rows_in_any_order(database: duckdb.DuckDBPyConnection, sql: str) -> None:
    for seed in range(2):
        _, rows, expected, asked = run_both(database, sql, DOCUMENT_FIRST, Dice(seed))
        assert Counter(map(repr, rows)) == Counter(map(repr, expected))
        assert len(set(asked)) == len(asked), "no prompt is asked twice"
