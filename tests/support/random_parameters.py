"""A statement in, the same with parameters for the literals that it compares, and their values out; runs nothing."""

from __future__ import annotations

import re

_COMPARED = re.compile(r" (=|<>|>=|<=|<|>) ('(?:[^'\\]|'')*'|\d+(?:\.\d+)?)(?=[ )]|$)")


def bound(sql: str) -> tuple[str, tuple[str | int | float, ...]]:
    """A statement in DuckDB's SQL with a `?` for what stands to the right of a comparison, and the values."""
    values: list[str | int | float] = []

    def placed(found: re.Match[str]) -> str:
        values.append(_value(found[2]))
        return f" {found[1]} ?"

    text = _COMPARED.sub(placed, sql)
    return text, tuple(values)


def _value(literal: str) -> str | int | float:
    if literal[0] == "'":
        return literal[1:-1].replace("''", "'")
    return float(literal) if "." in literal else int(literal)
