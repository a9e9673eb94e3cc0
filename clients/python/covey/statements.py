"""SQL text goes in, single statements come out; a semicolon in a string, a name or a comment ends nothing."""

from __future__ import annotations

import re

PIECE = re.compile(
    r"""
    '(?:[^']|'')*' | "(?:[^"]|"")*"     # a string, a quoted name
    | --[^\n]* | /\*.*?\*/              # comments
    | \$(\w*)\$.*?\$\1\$                # a dollar-quoted string
    | (?P<end>;)
    | ['"] .* | /\* .*                  # one left open runs to the end of the text
    | .
    """,
    re.VERBOSE | re.DOTALL,
)
BLANK = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*+", re.DOTALL)


def split_statements(text: str) -> tuple[list[str], str]:
    """Return the finished statements, without their semicolons, and what follows the last semicolon."""
    finished: list[str] = []
    start = 0
    for piece in PIECE.finditer(text):
        if piece["end"]:
            finished.append(text[start : piece.start()].strip())
            start = piece.end()
    return [statement for statement in finished if not is_blank(statement)], text[start:].strip()


def all_statements(text: str) -> list[str]:
    """Return every statement; the last one needs no semicolon."""
    finished, rest = split_statements(text)
    return finished if is_blank(rest) else [*finished, rest]


def is_blank(text: str) -> bool:
    """Say whether a text holds nothing to run: only space and comments."""
    return BLANK.fullmatch(text) is not None
