"""How a shape is written: questions hold their numbers as `Q1?`, so that answers can be drawn for them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Shape:
    """A query shape. A question about labels counts as true where one of its first two labels is the answer."""

    name: str
    sql: str

    @cached_property
    def questions(self) -> tuple[int, ...]:
        """The numbers of its questions."""
        return tuple(dict.fromkeys(int(number) for number in re.findall(r"Q(\d+)\?", self.sql)))


def f(number: int, column: str) -> str:
    """A filter."""
    return f"AI_FILTER('Q{number}?', {column})"


def j(number: int, one: str, other: str) -> str:
    """A question about pairs."""
    return f"AI_FILTER(PROMPT('Q{number}? {{0}} {{1}}', {one}, {other}))"


def c(number: int, labels: Sequence[str], *columns: str) -> str:
    """A question about a document, or about pairs, with a label for an answer."""
    places = " ".join(f"{{{n}}}" for n in range(len(columns)))
    written = ", ".join(f"'{label}'" for label in labels)
    return f"AI_CLASSIFY(PROMPT('Q{number}? {places}', {', '.join(columns)}), [{written}])"


def one_of(number: int, labels: Sequence[str], column: str) -> str:
    """A filter by the label: the first two pass."""
    return f"{c(number, labels, column)} IN ('{labels[0]}', '{labels[1]}')"


def exists(number: int, table: str, one: str, other: str, more: str = "") -> str:
    """A partner that a question is true of."""
    return f"EXISTS (SELECT 1 FROM {table} WHERE {more}{j(number, one, other)})"


def q(name: str, tables: str, *where: str, select: str = "count(*)", tail: str = "") -> Shape:
    """A shape; conditions stand in the order in which they are written."""
    kept = f" WHERE {' AND '.join(where)}" if where else ""
    return Shape(name, f"SELECT {select} FROM {tables}{kept} {tail}".strip())
