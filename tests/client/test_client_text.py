"""Statements, addresses, error lines, figures and completion: text in, text out, no server."""

from __future__ import annotations

import pytest
from covey.address import parse_address
from covey.completion import NameCompleter
from covey.errors import one_line
from covey.figures import Run
from covey.shell import is_complete
from covey.statements import all_statements, is_blank, split_statements
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("grpc://127.0.0.1:31337", "grpc://127.0.0.1:31337"),
        ("grpc+tls://db.example", "grpc+tls://db.example:31337"),
        ("db.example:99", "grpc://db.example:99"),
        ("localhost", "grpc://localhost:31337"),
        ("grpc://[::1]:5", "grpc://[::1]:5"),
    ],
)
def test_addresses(text: str, uri: str) -> None:
    assert parse_address(text).uri == uri


@pytest.mark.parametrize(
    "text",
    [
        "http://x:1",
        "grpc://",
        "grpc://x:port",
        "grpc://x:99999",
        "grpc://x/db",
        "grpc://u@x",
        "",
        "grpc://[::1",
    ],
)
def test_what_is_no_address_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not an address: ") as error:
        parse_address(text)
    assert repr(text) in str(error.value)
    assert "\n" not in str(error.value)


def test_statements_end_at_semicolons_outside_strings_names_and_comments() -> None:
    text = """
        select ';', "a;b", 'it''s; fine' ; -- a comment; with one
        /* and; another */ select $$;$$, $x$ ; $$ $x$;
        ; select 3 -- last"""
    assert all_statements(text) == [
        """select ';', "a;b", 'it''s; fine'""",
        "-- a comment; with one\n        /* and; another */ select $$;$$, $x$ ; $$ $x$",
        "select 3 -- last",
    ]


@pytest.mark.parametrize(
    "text", ["select 'open ; ", 'select "open ; ', "select /* open ; ", "select $$ open ; "]
)
def test_what_is_left_open_is_not_finished(text: str) -> None:
    finished, rest = split_statements(text)
    if "$$" in text:
        assert finished == ["select $$ open"]
    else:
        assert finished == []
        assert rest == text.strip()


def test_blank_text() -> None:
    assert is_blank("  -- x\n /* y\n */ \n")
    assert not is_blank(" " * 5000 + "x")


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("select 1;", True),
        ("select 1; -- done", True),
        ("select 1", False),
        ("select ';", False),
        ("select 1; select", False),
        ("\\d tickets", True),
        ("", True),
        ("quit", True),
        ("help", True),
    ],
)
def test_enter_sends_what_is_complete(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (
            "INVALID_ARGUMENT: [FlightSQL] no column 'x' (line 1) (InvalidArgument; Prepare)",
            "no column 'x' (line 1)",
        ),
        (
            "UNKNOWN: [FlightSQL] worker ended\nrestarting (Unavailable; DoGet: endpoint 0: [])",
            "worker ended restarting",
        ),
        ("[FlightSQL] Conversion Error: no INT32 (InvalidArgument; DoGet)", "Conversion Error: no INT32"),
        ("plain words (kept)", "plain words (kept)"),
        ("", "RuntimeError"),
    ],
)
def test_errors_lose_the_drivers_wrapping(said: str, line: str) -> None:
    assert one_line(RuntimeError(said)) == line


def test_figures_line() -> None:
    run = Run("q", "finished", 1, 150, 14_000, 10_500, 3_500, 12.345)
    assert run.line() == "1 row, 10,500 fresh and 3,500 shared tokens, 12.35 s"
    assert run.saved == pytest.approx(0.25)
    alike = Run("q", "finished", 1, 150, 14_000, 10_500, 3_500, 12.345, 1_200)
    assert "10,500 fresh and 3,500 shared tokens (1,200 by common beginnings of texts)" in alike.line()
    plain = Run("q", "finished", 2_000, 0, 0, 0, 0, 0.004)
    assert plain.line() == "2,000 rows, no tokens, 0.00 s"
    assert plain.saved == 0


def complete(text: str) -> list[str]:
    completer = NameCompleter(lambda: ["priority", "tickets"])
    return [completion.text for completion in completer.get_completions(Document(text), CompleteEvent())]


def test_completion_knows_names_keywords_and_commands() -> None:
    assert complete("select pri") == ["priority"]
    assert complete("SEL") == ["SELECT"]
    assert complete("sel") == ["select"]
    assert complete("select AI_") == ["AI_CLASSIFY", "AI_FILTER", "AI_SCORE", "AI_SENTIMENT"]
    assert complete("\\t") == ["\\timing"]
    assert complete("select 'it''s tick") == []
    assert complete("select 'done', tick") == ["tickets"]
    assert complete("select ") == []


def test_a_failed_close_does_not_hide_why_the_statement_failed() -> None:
    failed = OSError("IO: [FlightSQL] the server is going down (Unavailable; DoGet: endpoint 0: [])")
    closing = OSError(
        "IO: [FlightSQL] connection error (Unavailable; ClosePreparedStatement). Vendor code: 14"
    )
    assert one_line(closing) == "connection error"
    closing.__context__ = failed
    assert one_line(closing) == "the server is going down"
