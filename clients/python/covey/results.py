"""A connection and a statement go in; its rows are printed as they arrive, then one line of figures."""

from __future__ import annotations

import sys

from covey.connection import Connection
from covey.output import Format, make_console, print_table, rows, write_arrow, write_csv, write_json

EXPLAINED = ["explain_key", "explain_value"]  # the columns of EXPLAIN: one text of many lines


def print_result(connection: Connection, statement: str, form: Format = "table", timing: bool = True) -> None:
    """Run one statement and print what it returns.

    The figures go to stdout under a table and to stderr beside data, so that data can be piped.
    """
    with connection.cursor() as cursor:
        cursor.execute(statement)
        reader = cursor.fetch_record_batch()
        match form:
            case "table" if reader.schema.names == EXPLAINED:
                print("\n".join(str(text) for _, text in rows(reader)))
            case "table":
                print_table(reader, make_console())
            case "csv":
                write_csv(reader, sys.stdout)
            case "json":
                write_json(reader, sys.stdout)
            case "arrow":
                write_arrow(reader, sys.stdout.buffer)
    sys.stdout.flush()
    run = connection.last_run() if timing else None
    if run is not None:
        print(run.line(), file=sys.stdout if form == "table" else sys.stderr)
