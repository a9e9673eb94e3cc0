"""Arguments go in, an exit code comes out: 0 done, 1 failed with one line on stderr, 2 wrong usage.

`sql`, `shell`, `status` and `demo` are here; `serve` and `model` belong to the server and are found through
the entry-point group `covey.commands`, so the client installs and runs without it. What a command needs is
imported when it runs: a server starts without the client's driver.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points

from adbc_driver_manager import Error

from covey import __version__
from covey.address import DEFAULT_URI, DIALECTS, parse_address
from covey.errors import one_line
from covey.statements import all_statements

FORMATS = ("table", "csv", "json", "arrow")
GROUP = "covey.commands"
SERVER_COMMANDS = {"serve": "start a server", "model": "fetch and inspect models"}


def main(argv: list[str] | None = None) -> int:
    """Run the `covey` command."""
    arguments = sys.argv[1:] if argv is None else argv
    try:
        if arguments and arguments[0] in server_commands():
            return run_server_command(arguments[0], arguments[1:])
        options = make_parser().parse_args(arguments)
        run: Callable[[argparse.Namespace], int] = options.run
        return run(options)
    except KeyboardInterrupt:
        return fail("interrupted", code=130)
    except BrokenPipeError:
        # The reader has gone: leave quietly, and keep the interpreter from flushing into the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (Error, ValueError, OSError) as error:
        return fail(one_line(error))


def fail(message: str, code: int = 1) -> int:
    """Say what went wrong, in one line on stderr, and return the exit code."""
    print(f"covey: {message}", file=sys.stderr)
    return code


def make_parser() -> argparse.ArgumentParser:
    """Describe the commands."""
    parser = argparse.ArgumentParser(
        prog="covey", description="Ask a Covey server: SQL with questions in plain words."
    )
    parser.add_argument("--version", action="version", version=f"covey {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")

    sql = commands.add_parser("sql", help="run statements and print what they return")
    sql.add_argument(
        "statement", help="SQL; several statements with ; between them; - reads them from standard input"
    )
    sql.add_argument(
        "--format", choices=FORMATS, default="table", help="how rows are printed (default: table)"
    )
    sql.set_defaults(run=run_sql)

    shell = commands.add_parser("shell", help="an interactive prompt")
    shell.set_defaults(run=run_shell)
    for command in (sql, shell):
        command.add_argument(
            "--dialect", choices=DIALECTS, help="whose SQL the statements are (default: duckdb)"
        )

    status = commands.add_parser("status", help="what the server is, and what it has been asked lately")
    status.set_defaults(run=run_status)
    for command in (sql, shell, status):
        add_uri(command, os.environ.get("COVEY_URI", DEFAULT_URI))

    demo = commands.add_parser("demo", help="five queries on a small company's support tickets")
    demo.set_defaults(run=run_demo)
    add_uri(demo, None)

    for name, text in server_commands().items():
        commands.add_parser(name, help=text, add_help=False)
    return parser


def add_uri(parser: argparse.ArgumentParser, default: str | None) -> None:
    """Add --uri, checked while arguments are read."""
    what = (
        f"default: $COVEY_URI or {DEFAULT_URI}"
        if default
        else "default: a server of its own, on a temporary folder"
    )
    parser.add_argument(
        "--uri", type=read_uri, default=default, help=f"grpc://host:port or grpc+tls://host:port ({what})"
    )


def read_uri(text: str) -> str:
    """Check an address while arguments are read."""
    try:
        return parse_address(text).uri
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def server_commands() -> dict[str, str]:
    """Return the server's commands and what they do: its own two, and any that another package adds."""
    added = {point.name: "" for point in entry_points(group=GROUP)}
    return SERVER_COMMANDS | {name: text for name, text in added.items() if name not in SERVER_COMMANDS}


def run_server_command(name: str, arguments: list[str]) -> int:
    """Hand over to a command of the server, or say in one line how to install it."""
    found = [point for point in entry_points(group=GROUP) if point.name == name]
    try:
        return load(found[0])(arguments) if found else missing_server(name)
    except ModuleNotFoundError as error:
        return missing_server(name, error.name)


def load(point: EntryPoint) -> Callable[[list[str]], int]:
    """Import a command: it takes the arguments after its name and returns an exit code."""
    command: Callable[[list[str]], int] = point.load()
    return command


def missing_server(name: str, module: str | None = None) -> int:
    """Say that a command needs the server, and how to get it."""
    lacking = f" ({module} is not installed)" if module else ""
    return fail(f'covey {name} needs the server{lacking}: pip install "covey[server]"')


def run_sql(options: argparse.Namespace) -> int:
    """Run each statement; print its rows, then its figures: under a table, or on stderr beside data."""
    statements = all_statements(sys.stdin.read() if options.statement == "-" else options.statement)
    if not statements:
        return fail("there is no statement to run")
    from covey.connection import connect
    from covey.results import print_result

    with connect(options.uri, dialect=options.dialect) as connection:
        for statement in statements:
            print_result(connection, statement, options.format)
    return 0


def run_shell(options: argparse.Namespace) -> int:
    """Open the interactive prompt."""
    from covey.connection import connect
    from covey.shell import Shell

    with connect(options.uri, dialect=options.dialect) as connection:
        return Shell(connection, options.uri).run()


def run_status(options: argparse.Namespace) -> int:
    """Print what the server is and its latest statements."""
    from covey.connection import connect
    from covey.status import print_status

    with connect(options.uri, tag="status.figures") as connection:
        print_status(connection, options.uri)
    return 0


def run_demo(options: argparse.Namespace) -> int:
    """Run the demo against --uri, or against a server started for it."""
    from covey.demo.run import run_demo

    return run_demo(options.uri)
