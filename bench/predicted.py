"""What EXPLAIN predicts beside what happens: tokens, attention pairs and seconds of whole queries, through the server.

    python bench/predicted.py MODEL [--dtype fp8] [--only filter,join_terms] [--scale 0.01]

MODEL is a Hugging Face folder with a tokenizer.json. The rates of device and model are measured when the server starts.
Each query of `workloads.py` runs once, to build its token columns; then `EXPLAIN (ANALYZE, FORMAT json)` runs it again.
Prints a line a query: fresh tokens and attention pairs predicted and counted; seconds of the device predicted by the
measured rates, by the datasheet, and taken; the first over the last.
"""

from __future__ import annotations

import json

import covey
import workloads
from end_to_end import options, serving


def compare(connection: covey.Connection, workload: workloads.Workload) -> str:
    """A line of figures of a workload."""
    with connection.cursor() as cursor:
        cursor.execute(workload.sql)
        cursor.fetch_arrow_table()
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT json) {workload.sql}")
        found = json.loads("\n".join(row[-1] for row in cursor.fetchall()))
    total = found["total"]
    before, after = total["estimate"], total["actual"]
    seconds, limit = before["seconds"], before["limit_seconds"]
    return (
        f"{workload.name:14}{before['fresh_tokens']:>12,.0f}{after['fresh_tokens']:>12,.0f}"
        f"{before['attention_pairs'] / 1e6:>11,.1f}{after['attention_pairs'] / 1e6:>11,.1f}"
        f"{seconds:>10.3f}{'' if limit is None else format(limit, '.3f'):>10}{after['seconds']:>10.3f}"
        f"{seconds / after['seconds']:>8.2f}{'' if found['calibrated'] else '  not calibrated'}"
    )


def main() -> None:
    """Start a server, make the tables, print a table."""
    wished = options(__doc__).parse_args()
    with serving(wished, "--calibrate", "always") as (_, connection, chosen):
        names = "fresh tokens", "counted", "M pairs", "counted", "seconds", "limit", "taken", "ratio"
        widths = 12, 12, 11, 11, 10, 10, 10, 8
        print(
            "workload      " + "".join(f"{name:>{width}}" for name, width in zip(names, widths, strict=True))
        )
        for workload in chosen:
            print(compare(connection, workload), flush=True)


if __name__ == "__main__":
    main()
