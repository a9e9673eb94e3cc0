"""Parameters of a statement: where they stand, and their values as literals; never runs a statement."""

from __future__ import annotations

import datetime
import decimal
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from covey_planner.errors import BindError, Position, Unsupported

_MENTION = re.compile(r"[?$:]")


@dataclass(frozen=True)
class Placeholder:
    """`?`, `$1`, `$name` or `:name`, as the span [start, end); key: what selects its value (an index or a
    name).
    """

    key: int | str
    start: int
    end: int
    position: Position


def find_placeholders(tokens: Sequence[Token], sql: str) -> tuple[Placeholder, ...]:
    """The placeholders among the tokens, in the order of the text."""
    found: list[Placeholder] = []
    count = 0
    for at, token in enumerate(tokens):
        follower = tokens[at + 1] if at + 1 < len(tokens) else None
        position = Position(token.line, token.col - (token.end - token.start))
        joined = follower is not None and follower.start == token.end + 1
        if token.token_type == TokenType.PLACEHOLDER:
            found.append(Placeholder(count, token.start, token.end + 1, position))
            count += 1
        elif token.token_type == TokenType.PARAMETER and joined and follower is not None:
            key = int(follower.text) - 1 if follower.text.isdigit() else follower.text
            found.append(Placeholder(key, token.start, follower.end + 1, position))
        elif (
            token.token_type == TokenType.COLON
            and joined
            and follower is not None
            and follower.text.isidentifier()
            and (
                at == 0
                or tokens[at - 1].token_type in _BEFORE_A_VALUE
                or tokens[at - 1].text.upper() in _WORDS
            )
        ):
            found.append(Placeholder(follower.text, token.start, follower.end + 1, position))
    return tuple(found)


_BEFORE_A_VALUE = frozenset(
    {TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE, TokenType.L_PAREN}
    | {TokenType.COMMA, TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.DPIPE}
)
_WORDS = frozenset(
    [
        "SELECT",
        "AND",
        "OR",
        "NOT",
        "LIKE",
        "ILIKE",
        "BETWEEN",
        "THEN",
        "ELSE",
        "WHEN",
        "LIMIT",
        "OFFSET",
        "IN",
        "WHERE",
        "ON",
    ]
)


def parameter_keys(placeholders: Sequence[Placeholder]) -> tuple[int | str, ...]:
    """The distinct parameters: by number where they are numbered, else in the order of the text."""
    keys = list(dict.fromkeys(place.key for place in placeholders))
    numbers = [key for key in keys if isinstance(key, int)]
    if numbers and len(numbers) == len(keys):
        return tuple(range(max(numbers) + 1))
    if numbers:
        raise BindError("named and numbered parameters stand in one statement", placeholders[0].position)
    return tuple(keys)


def literals(
    placeholders: Sequence[Placeholder], values: Sequence[object] | Mapping[str, object]
) -> tuple[str, ...]:
    """Each placeholder's value as SQL text. Raises BindError where their number does not fit."""
    keys = parameter_keys(placeholders)
    if isinstance(values, Mapping):
        missing = [str(key) for key in keys if key not in values]
        if missing:
            raise BindError(f"parameter {missing[0]!r} has no value", placeholders[0].position)
        by_key: dict[int | str, object] = {key: values[str(key)] for key in keys}
    else:
        if len(values) != len(keys):
            raise BindError(f"the statement has {len(keys)} parameters, but {len(values)} values are given")
        by_key = dict(zip(keys, values, strict=True))
    return tuple(literal(by_key[place.key], place.position) for place in placeholders)


def literal(value: object, position: Position | None = None) -> str:
    """A value as SQL text that DuckDB reads back as the same value."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value) if value >= 0 else f"({value})"
        case float():
            return f"CAST('{value!r}' AS DOUBLE)"
        case decimal.Decimal():
            return f"({value})"
        case str():
            return _string(value, position)
        case bytes():
            return f"unhex('{value.hex()}')"
        case datetime.datetime():
            kind = "TIMESTAMP" if value.tzinfo is None else "TIMESTAMPTZ"
            return f"CAST('{value.isoformat(sep=' ')}' AS {kind})"
        case datetime.date():
            return f"CAST('{value.isoformat()}' AS DATE)"
        case datetime.time():
            return f"CAST('{value.isoformat()}' AS TIME)"
        case datetime.timedelta():
            micros = (value.days * 86400 + value.seconds) * 1_000_000 + value.microseconds
            return f"to_microseconds({micros})"
        case list() | tuple():
            return f"[{', '.join(literal(item, position) for item in value)}]"
        case uuid.UUID():
            return f"CAST('{value}' AS UUID)"
        case duckdb.Value():
            return f"CAST({_string(str(value.object), position)} AS {value.type})"
        case _:
            raise Unsupported(f"a parameter of type {type(value).__name__} in an AI statement", position)


def _string(value: str, position: Position | None) -> str:
    if "\x00" in value:
        raise BindError("a text parameter holds a zero byte", position)
    return "'" + value.replace("'", "''") + "'"


def placeholder_scan(sql: str, dialect: str) -> tuple[Sequence[Token], tuple[Placeholder, ...]]:
    """Tokens and placeholders of ordinary SQL; none of either where the text cannot be read."""
    if not _MENTION.search(sql):
        return (), ()
    try:
        tokens = Dialect.get_or_raise(dialect).tokenize(sql)
    except SqlglotError:
        return (), ()
    return tokens, find_placeholders(tokens, sql)
