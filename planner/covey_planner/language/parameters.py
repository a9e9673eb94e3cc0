"""Parameters of a statement: where they stand, their values as literals, and their types; never runs a
statement.
"""

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

from covey_planner.binding.scope import Catalog
from covey_planner.errors import BindError, Position, Unsupported

_MENTION = re.compile(r"[?$:]")
_ARITHMETIC = frozenset({"+", "-", "*", "/", "%", "//"})
_COMPARISONS = frozenset({"=", "==", "<", "<=", ">", ">=", "<>", "!=", "LIKE", "ILIKE"})


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


def infer_types(
    tokens: Sequence[Token], placeholders: Sequence[Placeholder], catalog: Catalog
) -> dict[int | str, str]:
    """The DuckDB type of each parameter: of the column it is compared or calculated with, a number's beside a number,
    BIGINT for a count of rows, else VARCHAR.
    """
    types: dict[int | str, str] = dict.fromkeys(parameter_keys(placeholders), "VARCHAR")
    columns: dict[str, set[str]] = {}
    said = {token.text.lower() for token in tokens}
    for table, kinds in catalog.columns().items():
        for name, kind in kinds.items() if table.lower().rpartition(".")[2] in said else ():
            columns.setdefault(name.lower(), set()).add(kind)
    by_start = {token.start: at for at, token in enumerate(tokens)}
    for place in placeholders:
        at = by_start[place.start]
        end = next((n for n in range(at, len(tokens)) if tokens[n].end >= place.end - 1), at)
        found = _type_around(tokens, at, end, columns)
        if found is not None:
            types[place.key] = found
    return types


def _type_around(tokens: Sequence[Token], at: int, end: int, columns: Mapping[str, set[str]]) -> str | None:
    """The type that the neighbours of a placeholder (tokens at … end) suggest."""
    before = [token.text.upper() for token in tokens[max(0, at - 2) : at]]
    after = tokens[end + 1 : end + 3]
    if before[-1:] in (["LIMIT"], ["OFFSET"]):
        return "BIGINT"
    if after and after[0].token_type == TokenType.DCOLON and len(after) > 1:
        return after[1].text.upper()
    if len(before) == 2 and before[-1] in _COMPARISONS:
        return _only(columns.get(before[0].lower()))
    for back in (1, 3):  # x BETWEEN ? AND ?
        if at > back and tokens[at - back].text.upper() == "BETWEEN":
            return _only(columns.get(tokens[at - back - 1].text.lower()))
    opening = at - 1
    while opening > 1 and tokens[opening].token_type in {TokenType.COMMA, TokenType.PLACEHOLDER}:
        opening -= 1
    if opening > 1 and tokens[opening].text == "(" and tokens[opening - 1].text.upper() == "IN":
        return _only(columns.get(tokens[opening - 2].text.lower()))
    if after and after[0].text.upper() in _COMPARISONS:
        name = end + 2
        while name + 2 < len(tokens) and tokens[name + 1].token_type == TokenType.DOT:
            name += 2
        return _only(columns.get(tokens[name].text.lower())) if name < len(tokens) else None
    beside = [tokens[at - 2]] if len(before) == 2 and before[-1] in _ARITHMETIC else []
    beside += [after[1]] if len(after) == 2 and after[0].text in _ARITHMETIC else []
    return next(filter(None, (_operand_type(token, columns) for token in beside)), None)


def _operand_type(token: Token, columns: Mapping[str, set[str]]) -> str | None:
    """The type of a number or of a column, where it is certain."""
    if token.token_type == TokenType.NUMBER:
        return "BIGINT" if token.text.isdigit() else "DOUBLE"
    return _only(columns.get(token.text.lower()))


def _only(kinds: set[str] | None) -> str | None:
    return next(iter(kinds)) if kinds is not None and len(kinds) == 1 else None
