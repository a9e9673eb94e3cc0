"""The `covey` command and its shell against a real server: what is printed, and what the exit code says."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator

import covey
import pyarrow
import pytest
from covey import cli
from covey.shell import Shell, make_session
from prompt_toolkit.application import create_app_session
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

Printed = pytest.CaptureFixture[str]


def test_sql_prints_a_table_and_its_figures(uri: str, capsys: Printed) -> None:
    assert (
        cli.main(
            ["sql", "SELECT id, name FROM products WHERE id < 3 ORDER BY id; SELECT 42 AS n", "--uri", uri]
        )
        == 0
    )
    lines = [line.strip() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[0].split() == ["id", "name"]
    assert lines[2].split() == ["1", "Pier", "POS"]
    assert lines[4].startswith("2 rows, no tokens, ")
    assert lines[-2] == "42"
    assert lines[-1].startswith("1 row, no tokens, ")


def test_sql_counts_the_tokens_of_a_question(uri: str, capsys: Printed) -> None:
    statement = "SELECT id FROM tickets WHERE id < 4 AND AI_FILTER(PROMPT('Is this about money? {0}', body))"
    assert cli.main(["sql", statement, "--uri", uri]) == 0
    figures = capsys.readouterr().out.splitlines()[-1]
    assert "fresh and" in figures
    assert "shared tokens" in figures


def test_sql_pipes_data_and_keeps_figures_apart(uri: str, capsys: Printed) -> None:
    statement = "SELECT id, description FROM defects ORDER BY id"
    assert cli.main(["sql", statement, "--uri", uri, "--format", "csv"]) == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 13
    assert printed.err.startswith("12 rows, no tokens, ")
    assert cli.main(["sql", statement, "--uri", uri, "--format", "json"]) == 0
    assert [row["id"] for row in json.loads(capsys.readouterr().out)] == list(range(1, 13))


def test_sql_writes_an_arrow_stream(uri: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert cli.main(["sql", "SELECT * FROM defects", "--uri", uri, "--format", "arrow"]) == 0
    assert pyarrow.ipc.open_stream(capsysbinary.readouterr().out).read_all().num_rows == 12


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("SELECT boddy FROM tickets", "boddy"),
        ("SELECT id FROM tickets WHERE AI_FILTER(PROMPT('Angry? {1}', body))", "{1}"),
        ("SELEC 1", "SELEC"),
    ],
)
def test_what_is_wrong_is_one_line(uri: str, capsys: Printed, statement: str, named: str) -> None:
    assert cli.main(["sql", statement, "--uri", uri]) == 1
    said = capsys.readouterr().err
    assert said.startswith("covey: ")
    assert said.count("\n") == 1
    assert named.lower() in said.lower()
    assert "FlightSQL" not in said


def test_explain_is_printed_as_it_is(uri: str, capsys: Printed) -> None:
    statement = "EXPLAIN SELECT id FROM tickets WHERE AI_FILTER('Angry?', body)"
    assert cli.main(["sql", statement, "--uri", uri]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("profile: ")
    assert len(shown.splitlines()) > 3


def test_a_plan_as_json_is_printed_in_full(uri: str, capsys: Printed) -> None:
    statement = "EXPLAIN (FORMAT substrait_json) SELECT id FROM tickets WHERE AI_FILTER('Angry?', body)"
    assert cli.main(["sql", statement, "--uri", uri]) == 0
    plan, figures = capsys.readouterr().out.rstrip().rsplit("\n", 1)
    assert "relations" in json.loads(plan)
    assert figures.startswith("1 row, ")
    assert cli.main(["sql", "SELECT 'all of it' AS plan", "--uri", uri]) == 0
    assert capsys.readouterr().out.split()[0] == "plan"


def test_status_lists_statements_but_not_its_own(uri: str, capsys: Printed) -> None:
    assert cli.main(["sql", "SELECT 'seen by status'", "--uri", uri]) == 0
    capsys.readouterr()
    assert cli.main(["status", "--uri", uri]) == 0
    shown = capsys.readouterr().out
    assert uri in shown
    assert "seen by status" in shown
    assert "covey_queries" not in shown


def test_shell_runs_a_script(uri: str, capsys: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT 1 AS one;\nSELECT\n  2 AS two"))
    assert cli.main(["shell", "--uri", uri]) == 0
    shown = capsys.readouterr().out.split()
    assert "one" in shown
    assert "two" in shown
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT x; SELECT 3 AS three"))
    assert cli.main(["shell", "--uri", uri]) == 1
    printed = capsys.readouterr()
    assert "three" not in printed.out
    assert printed.err.startswith("error: ")


def test_a_script_may_hold_commands(uri: str, capsys: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "\\timing\nSELECT '\n\\q' AS text;\n  \\d products\nSELECT 4 AS four;\n\\q\nSELECT 5 AS five"
    monkeypatch.setattr(sys, "stdin", io.StringIO(script))
    assert cli.main(["shell", "--uri", uri]) == 0
    shown = capsys.readouterr().out.split()
    assert {"off.", "text", "\\q", "category", "four"} <= set(shown)
    assert "five" not in shown
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT x;\n\\d\nSELECT 5 AS five"))
    assert cli.main(["shell", "--uri", uri]) == 1
    assert not capsys.readouterr().out


def test_shell_commands(uri: str, connection: covey.Connection, capsys: Printed) -> None:
    shell = Shell(connection, uri)
    assert shell.handle("\\d")
    assert {"tickets", "products", "defects"} <= set(capsys.readouterr().out.split())
    assert shell.handle("\\d Products;")
    assert {"category", "VARCHAR", "id", "BIGINT"} <= set(capsys.readouterr().out.split())
    for other in ('"products"', "main.products", "PRODUCTS"):
        assert shell.handle(f"\\d {other}")
        assert {"category", "VARCHAR"} <= set(capsys.readouterr().out.split())
    assert shell.handle("\\d covey_queries")
    assert {"fresh_tokens", "BIGINT"} <= set(capsys.readouterr().out.split())
    assert shell.handle("\\d nowhere")
    printed = capsys.readouterr()
    assert "nowhere does not exist" in printed.err
    assert not printed.out
    assert shell.handle("\\timing")
    capsys.readouterr()
    assert shell.handle("SELECT 1;")
    assert "tokens" not in capsys.readouterr().out
    assert shell.handle("help")
    assert "AI_FILTER" in capsys.readouterr().out
    assert shell.handle("\\?")
    assert "AI_FILTER" in capsys.readouterr().out
    assert shell.handle("\\nonsense")
    assert "\\nonsense" in capsys.readouterr().out
    assert shell.handle("SELECT broken")
    assert capsys.readouterr().err.startswith("error: ")
    shell.read_names()
    assert {"tickets", "priority"} <= set(shell.names)
    assert not shell.handle("\\q")
    assert not shell.handle("exit;")


def test_shell_line_editor_waits_for_the_semicolon() -> None:
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        session = make_session(lambda: ["tickets"], InMemoryHistory())
        keys.send_text("SELECT ';'\rFROM tickets;\r\\timing\r")
        assert session.prompt("covey> ") == "SELECT ';'\nFROM tickets;"
        assert session.prompt("covey> ") == "\\timing"


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C reaches Python, also where the tests run in the background of a script, which ignores it."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_interrupt_stops_a_statement_and_the_shell_goes_on(
    uri: str, connection: covey.Connection, capsys: Printed
) -> None:
    shell = Shell(connection, uri)
    pressed = threading.Timer(2.0, os.kill, (os.getpid(), signal.SIGINT))
    began = time.monotonic()
    pressed.start()
    assert shell.handle("SELECT sum(a.range * b.range) FROM range(3000000) a, range(1000000) b;")
    assert time.monotonic() - began < 30
    assert capsys.readouterr().out == "stopped\n"
    run = connection.last_run()
    assert run is not None
    assert run.state == "cancelled"
    assert shell.handle("SELECT 'still here';")
    assert "still here" in capsys.readouterr().out
