"""Rows of a result go in; a table cut to the terminal, CSV, JSON or an Arrow stream comes out."""

from __future__ import annotations

import base64
import csv
import datetime
import decimal
import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Literal

import pyarrow
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

Format = Literal["table", "csv", "json", "arrow"]
SHOWN_ROWS = 500
WIDTH_ELSEWHERE = 120  # columns, where the output is no terminal and COLUMNS is not set


def make_console(file: IO[str] | None = None) -> Console:
    """Return the console that tables go to: as wide as the terminal, or a fixed width elsewhere."""
    console = Console(file=file, highlight=False, emoji=False, markup=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDTH_ELSEWHERE
    return console


@dataclass(frozen=True)
class Rows:
    """A result that is still arriving: its columns, and its batches, which can be read once."""

    schema: pyarrow.Schema
    batches: Iterator[pyarrow.RecordBatch]

    def __iter__(self) -> Iterator[tuple[object, ...]]:
        """Yield the rows as tuples of Python values, a batch in memory at a time."""
        for batch in self.batches:
            columns = [column.to_pylist() for column in batch.columns]
            yield from zip(*columns, strict=True) if columns else ()


def print_table(
    rows: Rows,
    console: Console,
    limit: int = SHOWN_ROWS,
    advice: str = "; print them all with --format csv",
) -> int:
    """Print up to `limit` rows, each on one line; returns how many rows there were."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for field in rows.schema:
        table.add_column(field.name, justify="right" if is_number(field.type) else "left")
    total = 0
    for row in rows:
        if total < limit:
            table.add_row(*(Text(cell_text(value), no_wrap=True, overflow="ellipsis") for value in row))
        total += 1
    if rows.schema.names:
        console.print(table)
    if total > limit:
        console.print(f"… {total - limit:,} more rows{advice}")
    return total


def write_csv(rows: Rows, file: IO[str]) -> int:
    """Write a header and every row; NULL is an empty field; returns how many rows there were."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(rows.schema.names)
    total = 0
    for row in rows:
        writer.writerow([csv_text(value) for value in row])
        total += 1
    return total


def write_json(rows: Rows, file: IO[str]) -> int:
    """Write one array with an object a row, a row on each line; returns how many rows there were."""
    total = 0
    names = rows.schema.names
    file.write("[")
    for row in rows:
        record = {name: plain(value) for name, value in zip(names, row, strict=True)}
        file.write((",\n" if total else "\n") + json.dumps(record, ensure_ascii=False, allow_nan=False))
        total += 1
    file.write("\n]\n" if total else "]\n")
    return total


def write_arrow(rows: Rows, file: IO[bytes]) -> int:
    """Write an Arrow IPC stream; returns how many rows there were."""
    total = 0
    with pyarrow.ipc.new_stream(file, rows.schema) as writer:
        for batch in rows.batches:
            writer.write_batch(batch)
            total += batch.num_rows
    return total


def is_number(kind: pyarrow.DataType) -> bool:
    """Say whether values of a type are set flush right."""
    return bool(
        pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind) or pyarrow.types.is_decimal(kind)
    )


def cell_text(value: object) -> str:
    """Return a value on one line: NULL as nothing but a dot, control characters as spaces."""
    match value:
        case None:
            return "·"
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:.6g}" if math.isfinite(value) else str(value)
        case str():
            return "".join(" " if ord(letter) < 32 or ord(letter) == 127 else letter for letter in value)
        case bytes() | list() | dict() | tuple():
            return json.dumps(plain(value), ensure_ascii=False)
        case datetime.datetime():
            return value.isoformat(" ", "milliseconds" if value.microsecond else "seconds")
        case _:
            return str(value)


def csv_text(value: object) -> str:
    """Return a value for a CSV field, nothing of it lost: text as it is, numbers in full, lists as JSON."""
    match value:
        case None:
            return ""
        case str():
            return value
        case bool() | bytes() | list() | dict() | tuple():
            return cell_text(value)
        case _:
            return str(value)


def plain(value: object) -> object:
    """Return a value as JSON knows it: dates in ISO form, decimals and intervals as text, bytes in base64."""
    match value:
        case float() if not math.isfinite(value):
            return None
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return base64.b64encode(value).decode()
        case dict():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case datetime.date() | datetime.time():
            return value.isoformat()
        case decimal.Decimal():
            return str(value)
        case _:
            return str(value)
