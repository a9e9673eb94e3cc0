"""How far a statement is, on the terminal: a line while it runs, nothing once rows are shown, nothing elsewhere."""

from __future__ import annotations

import io
from types import SimpleNamespace

import covey
import pyarrow as pa
import pytest
from covey import progress
from covey.progress import CLEAR, Progress, line
from covey.results import print_result

LONG = "SELECT sum(a.range * b.range) AS total FROM range(20000) a, range(3000) b"


class Terminal(io.StringIO):
    """What is written to a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal for stderr, on which progress is shown early and often."""
    found = Terminal()
    # What captures the output puts its own stderr into the place of any other.
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=found))
    monkeypatch.setattr(progress, "BEGIN_SECONDS", 0.0)
    monkeypatch.setattr(progress, "LOOK_UP_SECONDS", 0.01)
    return found


def shown(terminal: Terminal) -> list[str]:
    """The lines that stood there one after another."""
    return terminal.getvalue().split(CLEAR)


@pytest.mark.parametrize("form", ["table", "csv"])
def test_a_long_statement_says_how_long_it_runs_and_then_nothing(
    connection: covey.Connection, terminal: Terminal, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    while len(terminal.getvalue()) < 10:
        # The first look may come after the end where the machine is fast.
        print_result(connection, LONG, form)  # type: ignore[arg-type]
    before, *lines, after = shown(terminal)
    assert before == ""
    assert all(said.endswith(" s") for said in lines)
    assert form == "csv" or after == ""
    assert "total" in capsys.readouterr().out


def test_a_statement_in_a_transaction_is_left_alone(connection: covey.Connection, terminal: Terminal) -> None:
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        print_result(connection, LONG, "csv", timing=False)
        cursor.execute("ROLLBACK")
    assert shown(terminal)[-1] == ""


def test_nothing_is_shown_where_there_is_no_terminal(connection: covey.Connection) -> None:
    elsewhere = io.StringIO()
    with Progress(connection, elsewhere) as running:
        running.end()
    assert elsewhere.getvalue() == ""


def test_the_line_is_cleared_when_the_statement_fails(
    connection: covey.Connection, terminal: Terminal
) -> None:
    with pytest.raises(pa.ArrowInvalid, match="Conversion"):
        print_result(connection, "SELECT max(('x' || range)::INTEGER) FROM range(10)")
    assert shown(terminal)[-1] == ""


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ((0, 0, 0, 0, 3.4, None), "3 s"),
        ((1, 0, 0, 0, 3.6, None), "1 row, 4 s"),
        (
            (0, 1000, 30_000, 90_000, 12.0, 36.2),
            "1,000 of about 4,000 prompts, 30,000 tokens, 12 s, about 36 s to come",
        ),
        ((2000, 1000, 30_000, 0, 12.0, 0.0), "2,000 rows, 1,000 prompts, 30,000 tokens, 12 s"),
    ],
)
def test_the_line(figures: tuple[int, int, int, int, float, float | None], said: str) -> None:
    assert line(*figures) == said
