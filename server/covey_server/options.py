"""Names and texts of session options in, their checked values out; knows neither sessions nor the protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from covey_planner.language.dialects import DIALECTS

from covey_server.errors import BadRequest, Refused

ON_OVERFLOW = "ai_on_overflow"
"""The session option that says what happens to texts longer than the model's context."""

DIALECT = "ai_dialect"
"""The session option that says whose SQL the client writes; also a call header, the connection's default."""

OPTIMIZER = "ai_optimizer"
"""The session option that says whether AI calls are asked in the cheapest way, or as they are written."""

ANCHOR = "ai_anchor"
"""The session option that says which side of a question about pairs is computed once."""

SAMPLING = "ai_sampling"
"""The session option that says whether a sample may be asked first, where the order depends on it."""

CHOICES: Mapping[str, tuple[str, ...]] = {
    ON_OVERFLOW: ("error", "null", "truncate"),
    DIALECT: DIALECTS,
    OPTIMIZER: ("on", "off"),
    ANCHOR: ("cheapest", "first"),
    SAMPLING: ("on", "off"),
}
"""Every session option with its values, the default first."""


@dataclass(frozen=True)
class Assignment:
    """A session option that SQL sets. value: its text; None takes it back to its default."""

    name: str
    value: str | None


def choice(name: str, value: str | None) -> str:
    """The value of an option that a text in any letter case means, the default for None. Raises BadRequest."""
    for known in CHOICES[name]:
        if value is None or known == value.lower():
            return known
    raise BadRequest(f"{name} is {_either(name)}, not {value!r}")


def assignment(words: Sequence[str]) -> Assignment:
    """What `SET option = 'value'` or `RESET option` means, as lower-case words; text constants keep their quotes.

    Raises Refused for what is no option of the session, BadRequest for a value of an unexpected form.
    """
    opening, *rest = words
    if rest[:1] == ["session"]:
        rest = rest[1:]
    name = rest[0] if rest else ""
    if name not in CHOICES:
        if opening == "use":
            raise Refused("USE is not available to SQL users: the client sets the session option schema")
        raise Refused(f"{opening.upper()} is not available to SQL users, except for {', '.join(CHOICES)}")
    match opening, rest[1:]:
        case "reset", []:
            return Assignment(name, None)
        case "set", ["=" | "to", "default"]:
            return Assignment(name, None)
        case "set", ["=" | "to", value]:
            text = value[1:-1] if value.startswith("'") else value
            choice(name, text)
            return Assignment(name, text)
    raise BadRequest(f"write SET {name} = {_either(name)}")


def _either(name: str) -> str:
    *others, last = (f"'{value}'" for value in CHOICES[name])
    return f"{', '.join(others)} or {last}"
