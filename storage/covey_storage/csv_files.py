"""A CSV file in, an error out where DuckDB would make the wrong table of it; never loads anything.

Where lines have different numbers of values, DuckDB either finds no delimiter and takes lines for texts of one column,
or passes over lines at the beginning, header and all, until the rest is even.
"""

from __future__ import annotations

import csv
import gzip
import re
from pathlib import Path

import duckdb

_NAMES = re.compile(r"[^,;\t|]*\S(?:,\S[^,]*|;\S[^;]*|\t\S[^\t]*|\|\S[^|]*)+")
"""Several names with a delimiter between them; a comma before a space is taken for prose."""

_LONGEST = 1 << 20
"""Bytes of a header that are looked at."""


def check_lines(connection: duckdb.DuckDBPyConnection, path: Path, literal: str) -> None:
    """Raise duckdb.Error that names the first line with another number of values than the first line of all.

    literal: the path as SQL. Lines at the beginning that hold no delimiter, such as a title, may be passed over, and so
    may comments.
    """
    sniffed = connection.execute(
        f"SELECT Delimiter, SkipRows, Columns[1].name, len(Columns) FROM sniff_csv({literal})"
    ).fetchone()
    assert sniffed is not None
    delimiter, skipped, name, columns = sniffed
    if not skipped:
        if columns > 1 or not _NAMES.fullmatch(name):
            return
        delimiter = re.findall(r"[,;\t|]", name)[0]
    first = _first_line(path)
    values = len(next(csv.reader([first], delimiter=delimiter), []))
    if values < 2 or first.startswith("#"):
        return
    types = ", ".join(f"'c{number}': 'VARCHAR'" for number in range(values))
    # The last expression has every line read to its end and keeps none of them.
    connection.execute(
        f"SELECT count(CASE WHEN c{values - 1} = '' THEN 1 END) FROM read_csv({literal}, "
        f"delim = $1, quote = '\"', header = true, skip = 0, auto_detect = false, columns = {{{types}}})",
        [delimiter],
    ).fetchall()


def _first_line(path: Path) -> str:
    with gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb") as file:
        return file.readline(_LONGEST).decode("utf-8-sig", errors="replace").rstrip("\r\n")
