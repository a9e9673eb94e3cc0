"""A connection and a statement go in; its rows are printed as they arrive, then one line of figures."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait

import pyarrow

from covey.connection import Connection, Cursor
from covey.output import Format, Rows, make_console, print_table, write_arrow, write_csv, write_json
from covey.progress import Progress

EXPLAINED = ["explain_key", "explain_value"]  # the columns of EXPLAIN: one text of many lines
PLAN = pyarrow.schema([("plan", pyarrow.string())])

_LOOK_UP_SECONDS = 0.2


def print_result(connection: Connection, statement: str, form: Format = "table", timing: bool = True) -> None:
    """Run one statement and print what it returns.

    The figures go to stdout under a table and to stderr beside data, so that data can be piped.
    """
    with Progress(connection) as progress, connection.cursor() as cursor:
        cursor.execute(statement)
        rows = progress.until(arriving(cursor), first=form != "table")
        match form:
            case "table" if rows.schema.names == EXPLAINED or is_plan(statement, rows.schema):
                print("\n".join(str(row[-1]) for row in rows))
            case "table":
                print_table(rows, make_console())
            case "csv":
                write_csv(rows, sys.stdout)
            case "json":
                write_json(rows, sys.stdout)
            case "arrow":
                write_arrow(rows, sys.stdout.buffer)
    sys.stdout.flush()
    run = connection.last_run() if timing else None
    if run is not None:
        print(run.line(), file=sys.stdout if form == "table" else sys.stderr)


def is_plan(statement: str, schema: pyarrow.Schema) -> bool:
    """Say whether a result is what EXPLAIN (FORMAT substrait_json) writes: one text, which no table has room for."""
    return schema == PLAN and statement.lstrip()[:7].upper() == "EXPLAIN"


def arriving(cursor: Cursor) -> Rows:
    """Return the rows of a statement that has been executed; Ctrl-C while they arrive stops the statement.

    The driver waits for a batch in one uninterruptible call, so another thread makes it. This one looks up now and
    then: where a library has put its own handler before Python's, an interrupt does not end its waiting.
    """
    reader = cursor.fetch_record_batch()

    def batches() -> Iterator[pyarrow.RecordBatch]:
        with ThreadPoolExecutor(1) as waiting:
            while True:
                coming = waiting.submit(next, reader, None)
                try:
                    while not wait([coming], timeout=_LOOK_UP_SECONDS).done:
                        pass
                    batch = coming.result()
                except KeyboardInterrupt:
                    cursor.adbc_cancel()
                    coming.exception()
                    raise
                if batch is None:
                    return
                yield batch

    return Rows(reader.schema, batches())
