"""A server's address, or none, goes in; the five queries' rows, tokens and seconds are printed."""

from __future__ import annotations

import contextlib
import sys
import time
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

from covey.connection import Connection, Error, connect
from covey.demo.queries import QUERIES, Query
from covey.demo.server import DATA, PROFILE, own_server
from covey.errors import one_line
from covey.figures import Run
from covey.output import make_console, print_table
from covey.results import arriving

SHOWN_ROWS = 8

ABOUT = """\
Northpier (an invented company) sells tills, scanners, printers and the software behind them to shops and \
warehouses. Its tables: 150 support tickets, 20 products, 12 known defects."""

CAUTION = """\
The answers come from SmolLM2-135M, a model small enough to come along and to run on a CPU. It is for trying \
Covey out and is often wrong: read the rows above as a show of what can be asked and what it costs, not of \
how well it is answered. For work, start the server with a larger model: covey serve --model FOLDER."""


@dataclass(frozen=True)
class Outcome:
    """What became of a query: its figures, or none where it failed; `seconds` is what the client waited."""

    query: Query
    run: Run | None
    seconds: float


def run_demo(uri: str | None) -> int:
    """Run the demo against `uri`, or against a server of its own; 0 where all five queries succeeded."""
    console = make_console()
    console.print(ABOUT)
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        if uri is None:
            console.print("Starting a server on a temporary folder …")
            uri = stack.enter_context(own_server())
            console.print(
                f"It listens on {uri} after {time.monotonic() - began:.1f} s; prompts follow the profile {PROFILE}."
            )
        connection = stack.enter_context(connect(uri))
        outcomes = [ask(connection, number, query, console) for number, query in enumerate(QUERIES, 1)]
    summarize(outcomes, console)
    console.print(CAUTION)
    failed = sum(outcome.run is None for outcome in outcomes)
    if failed:
        print(f"covey: {failed} of the demo's {len(QUERIES)} queries failed", file=sys.stderr)
    return 1 if failed else 0


def ask(connection: Connection, number: int, query: Query, console: Console) -> Outcome:
    """Run one query and print its SQL, its rows and its figures."""
    console.print()
    console.rule(f"{number}. {query.title}", align="left")
    console.print(Syntax(query.sql, "sql", theme="ansi_dark", background_color="default", word_wrap=True))
    began = time.monotonic()
    try:
        with connection.cursor() as cursor:
            cursor.execute(query.sql)
            print_table(arriving(cursor), console, SHOWN_ROWS, "")
        run = connection.last_run()
    except Error as error:
        print(f"covey: query {number} failed: {one_line(error)}", file=sys.stderr)
        if "tickets" in str(error):
            print(f"covey: the demo's tables come with: covey serve --data {DATA}", file=sys.stderr)
        return Outcome(query, None, time.monotonic() - began)
    if run is None:
        print(f"covey: the server noted nothing of query {number}", file=sys.stderr)
    else:
        console.print(run.line())
        if run.prompts:
            console.print(saving(run))
    return Outcome(query, run, time.monotonic() - began)


def saving(run: Run) -> str:
    """Say what sharing saved."""
    return (
        f"{run.prompts:,} prompts; each computed alone: {run.prompt_tokens:,} tokens. "
        f"Sharing saved {run.saved:.0%} of them."
    )


def summarize(outcomes: list[Outcome], console: Console) -> None:
    """Print all queries' figures beside one another, and their sums."""
    console.print()
    console.rule("Summary", align="left")
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_footer=True)
    runs = [outcome.run for outcome in outcomes if outcome.run is not None]
    alone, fresh = sum(run.prompt_tokens for run in runs), sum(run.fresh_tokens for run in runs)
    table.add_column("query", footer="all", no_wrap=True, overflow="ellipsis", max_width=40)
    table.add_column("rows", justify="right", footer=f"{sum(run.rows for run in runs):,}")
    table.add_column("prompts", justify="right", footer=f"{sum(run.prompts for run in runs):,}")
    table.add_column("tokens alone", justify="right", footer=f"{alone:,}")
    table.add_column("tokens computed", justify="right", footer=f"{fresh:,}")
    table.add_column("saved", justify="right", footer=f"{1 - fresh / alone:.0%}" if alone else "")
    table.add_column("seconds", justify="right", footer=f"{sum(outcome.seconds for outcome in outcomes):.1f}")
    for number, outcome in enumerate(outcomes, 1):
        run, title = outcome.run, f"{number}. {outcome.query.title}"
        if run is None:
            table.add_row(title, "failed", "", "", "", "", f"{outcome.seconds:.1f}")
            continue
        counts = (run.rows, run.prompts, run.prompt_tokens, run.fresh_tokens)
        saved = f"{run.saved:.0%}" if run.prompts else ""
        table.add_row(title, *(f"{count:,}" for count in counts), saved, f"{outcome.seconds:.1f}")
    console.print(table)
