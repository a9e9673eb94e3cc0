"""What is wrong with a statement, in one line with its position; never carries a traceback or a file path."""

from __future__ import annotations

from typing import NamedTuple


class Position(NamedTuple):
    """Where in the statement, counted from 1; the column is None where only the line is known."""

    line: int
    column: int | None = None

    def __str__(self) -> str:
        return f"line {self.line}" if self.column is None else f"line {self.line}:{self.column}"


class PlanError(Exception):
    """A statement that cannot be planned; `message` is one line, `position` says where if that is known."""

    def __init__(self, message: str, position: Position | None = None) -> None:
        self.message = " ".join(message.split())
        self.position = position
        super().__init__(self.message if position is None else f"{self.message} ({position})")


class ParseError(PlanError):
    """The text is no statement."""


class BindError(PlanError):
    """A name, a type, a placeholder or a parameter that does not fit."""


class Unsupported(PlanError):
    """A construct that this engine does not run; the message names it and, where there is one, the way
    around.
    """


class ProfileError(PlanError):
    """A prompt profile that cannot be used; the message names the file and the key."""
