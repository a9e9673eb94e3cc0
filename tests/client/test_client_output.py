"""Record batches printed as tables, CSV, JSON and Arrow: no server."""

from __future__ import annotations

import csv
import datetime
import decimal
import io
import json

import pyarrow
import pytest
from covey.output import Rows, cell_text, print_table, write_arrow, write_csv, write_json
from rich.console import Console

TABLE = pyarrow.table(
    {
        "id": pyarrow.array([1, 2, 3], pyarrow.int64()),
        "body": ["short", 'a "quoted"\nsecond line, with comma', None],
        "score": [0.123456789012, float("nan"), None],
        "opened": [datetime.date(2026, 7, 2), None, datetime.date(2026, 7, 3)],
        "price": pyarrow.array([decimal.Decimal("1.50"), None, decimal.Decimal("2.00")]),
        "tags": [["a", "é"], [], None],
        "raw": [b"\x00\xff", None, b""],
        "yes": [True, False, None],
    }
)


def arrived(table: pyarrow.Table = TABLE, rows: int = 2) -> Rows:
    return Rows(table.schema, iter(table.to_batches(max_chunksize=rows)))


def printed(table: pyarrow.Table, width: int, limit: int = 100) -> list[str]:
    out = io.StringIO()
    total = print_table(arrived(table), Console(file=out, width=width), limit)
    assert total == table.num_rows
    return out.getvalue().splitlines()


def test_table_gives_each_row_one_line_within_the_width() -> None:
    wide = pyarrow.table({"id": [1, 20], "body": ["word " * 100, "first\nsecond\tthird"], "n": [7, 8000]})
    lines = printed(wide, 60)
    assert all(len(line) <= 60 for line in lines)
    rows = [line for line in lines if "word" in line or "first" in line]
    assert len(rows) == 2
    assert "…" in rows[0]
    assert rows[0].split()[0] == "1"
    assert rows[0].split()[-1] == "7"
    assert "first second third" in rows[1]


def test_wide_text_is_cut_before_numbers_are() -> None:
    wide = pyarrow.table({"id": [123456789], "a": ["x" * 300], "b": ["y" * 300]})
    row = next(line for line in printed(wide, 50) if "x" in line)
    assert "123456789" in row


def test_table_shows_null_as_a_dot_and_markup_as_text() -> None:
    lines = printed(pyarrow.table({"a": [None, "[bold]x[/bold]"]}), 40)
    assert any(line.strip() == "·" for line in lines)
    assert any("[bold]x[/bold]" in line for line in lines)


def test_table_cuts_long_results_and_says_so() -> None:
    lines = printed(pyarrow.table({"n": list(range(1, 13))}), 80, limit=10)
    assert "… 2 more rows; print them all with --format csv" in lines
    assert not any(line.strip() == "11" for line in lines)


def test_a_statement_without_columns_prints_nothing() -> None:
    assert printed(pyarrow.table({}), 80) == []


def test_csv_reads_back_as_it_was() -> None:
    out = io.StringIO()
    assert write_csv(arrived(), out) == 3
    rows = list(csv.reader(io.StringIO(out.getvalue())))
    assert rows[0] == TABLE.schema.names
    assert rows[1] == ["1", "short", "0.123456789012", "2026-07-02", "1.50", '["a", "é"]', '"AP8="', "true"]
    assert rows[2][1] == 'a "quoted"\nsecond line, with comma'
    assert rows[3] == ["3", "", "", "2026-07-03", "2.00", "", '""', ""]


def test_json_is_one_array_with_a_row_a_line() -> None:
    out = io.StringIO()
    assert write_json(arrived(), out) == 3
    assert len(out.getvalue().splitlines()) == 5
    records = json.loads(out.getvalue())
    assert records[0]["opened"] == "2026-07-02"
    assert records[0]["price"] == "1.50"
    assert records[0]["tags"] == ["a", "é"]
    assert records[1]["score"] is None
    assert records[2]["yes"] is None


def test_json_of_no_rows_is_an_empty_array() -> None:
    out = io.StringIO()
    assert write_json(arrived(TABLE.slice(0, 0)), out) == 0
    assert json.loads(out.getvalue()) == []


def test_arrow_reads_back_as_it_was() -> None:
    out = io.BytesIO()
    assert write_arrow(arrived(), out) == 3
    back = pyarrow.ipc.open_stream(out.getvalue()).read_all()
    assert back.schema == TABLE.schema
    assert back.drop_columns("score") == TABLE.drop_columns("score")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "·"),
        (True, "true"),
        (0.1 + 0.2, "0.3"),
        (float("inf"), "inf"),
        (12345678901234, "12345678901234"),
        ("tab\there\x7f", "tab here "),
        ({"a": [1, None]}, '{"a": [1, null]}'),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (datetime.datetime(2026, 1, 2, 3, 4, 5, 678900), "2026-01-02 03:04:05.678"),
        (datetime.datetime(2026, 1, 2, 3, 4, 5), "2026-01-02 03:04:05"),
    ],
)
def test_cells(value: object, text: str) -> None:
    assert cell_text(value) == text
