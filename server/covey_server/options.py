"""Names and texts of session options in, their checked values out; knows neither sessions nor the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey_server.errors import BadRequest, Refused

if TYPE_CHECKING:
    # A server without a model starts without the operators.
    from covey_engine.operators.overflow import Overflow

ON_OVERFLOW = "ai_on_overflow"
"""The session option that says what happens to texts longer than the model's context."""

_OVERFLOWS: tuple[Overflow, ...] = ("error", "null", "truncate")


@dataclass(frozen=True)
class Assignment:
    """A session option that SQL sets. value: its text; None takes it back to its default."""

    name: str
    value: str | None


def overflow(value: str | None) -> Overflow:
    """The mode of a text in any letter case, the default for None. Raises BadRequest."""
    for mode in _OVERFLOWS:
        if mode == ("error" if value is None else value.lower()):
            return mode
    raise BadRequest(f"{ON_OVERFLOW} is 'error', 'null' or 'truncate', not {value!r}")


def assignment(words: Sequence[str]) -> Assignment:
    """What `SET option = 'value'` or `RESET option` means, as lower-case words; text constants keep their quotes.

    Raises Refused for what is no option of the session, BadRequest for a value of an unexpected form.
    """
    opening, *rest = words
    if rest[:1] == ["session"]:
        rest = rest[1:]
    if rest[:1] != [ON_OVERFLOW]:
        raise Refused(f"{opening.upper()} is not available to SQL users, except for {ON_OVERFLOW}")
    match opening, rest[1:]:
        case "reset", []:
            return Assignment(ON_OVERFLOW, None)
        case "set", ["=" | "to", "default"]:
            return Assignment(ON_OVERFLOW, None)
        case "set", ["=" | "to", value]:
            text = value[1:-1] if value.startswith("'") else value
            overflow(text)
            return Assignment(ON_OVERFLOW, text)
    raise BadRequest(f"write SET {ON_OVERFLOW} = 'error', 'null' or 'truncate'")
