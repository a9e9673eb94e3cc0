"""Texts of an argument in, their lengths in tokens out: from its token column, for others by their bytes.

Tokenizes no more than the few texts that say how many bytes a token has; never runs the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from covey_storage.library import TokenLibrary
from covey_storage.tokens import TokenColumn
from numpy.typing import NDArray

from covey_planner.cost import beginnings
from covey_planner.cost.duck_figures import DuckFigures
from covey_planner.cost.ratios import Ratios
from covey_planner.cost.statistics import Count, Lengths
from covey_planner.lowering.domains import VALUE
from covey_planner.physical import Given, TextArgument

_SAMPLE, _UNKNOWN_BYTES = 64, 100.0
_SPREAD = 1.5
"""Mean square of text lengths over the square of their mean, where only their sum is known."""


@dataclass(frozen=True)
class TextLengths:
    """Lengths for one statement. ratios: bytes a token."""

    duck: DuckFigures
    library: TokenLibrary
    ratios: Ratios

    def within(self, duck: DuckFigures) -> TextLengths:
        """The same by what another cursor sees."""
        return replace(self, duck=duck, ratios=replace(self.ratios, duck=duck))

    def column(self, argument: TextArgument) -> TokenColumn | None:
        """The tokenized texts of the argument, None where there are none."""
        if argument.table is None or argument.column is None:
            return None
        return self.library.built(argument.table, argument.column)

    def by_bytes(self, argument: TextArgument, given: Given, sums: Sequence[float]) -> Lengths:
        """Of a domain of one argument. sums: rows, texts, their bytes, and the squares of these."""
        _, texts, total, squares = sums
        source = f"SELECT {VALUE}0 AS text FROM ({given.rows}) AS __covey_d"
        ratio = self.ratios.of(source, argument) if texts else 1.0
        return Lengths(texts, total / ratio, squares / ratio**2, exact=not texts)

    def by_keys(
        self,
        argument: TextArgument,
        source: str,
        keys: NDArray[np.void],
        sizes: NDArray[np.int64],
        chosen: NDArray[np.intp],
        *,
        first: bool,
    ) -> Lengths:
        """Tokens of the chosen texts by their keys; of those that no token column holds, by their sizes in bytes.

        source: a small query that yields the texts. first: no argument stands before it.
        """
        tokens = np.zeros(len(keys))
        known = np.zeros(len(keys), np.bool_)
        column = self.column(argument)
        if column is not None:
            slots = column.find(keys)
            known = slots >= 0
            tokens[known] = column.lengths[slots[known]]
        if not known.all():
            tokens[~known] = sizes[~known] / self.ratios.of(source, argument)
        each = float(tokens.mean()) if len(tokens) else 0.0
        tokens = tokens[chosen]
        squares = float((tokens * tokens).sum())
        shared = (0.0, 0.0)
        if first and column is not None and known.all():
            shared = beginnings.of_some(column, slots[chosen])
        return Lengths(len(tokens), float(tokens.sum()), squares, bool(known.all()), each, *shared)

    def guessed(
        self, argument: TextArgument, given: Given, number: int, texts: float, rows: Callable[[str], Count]
    ) -> Lengths:
        """Lengths of so many texts of a column by those that are tokenized already, else by their bytes.

        number: the argument's in its domain; rows: those of a table.
        """
        column = self.column(argument)
        if column is not None and len(column):
            known = column.lengths.astype(np.float64)
            mean, square = float(known.mean()), float((known * known).mean())
            alike = self._alike(argument, column) if number == 0 else (0.0, 0.0)
            shared = [texts / len(column) * each for each in alike]
            return Lengths(texts, texts * mean, texts * square, False, None, *shared)
        ratio = self.ratios.of("", argument)
        mean = self._mean_bytes(argument, given, number, rows) / ratio
        return Lengths(texts, texts * mean, texts * mean * mean * _SPREAD, exact=False)

    def _alike(self, argument: TextArgument, column: TokenColumn) -> tuple[float, float]:
        """How much all texts of a column begin alike."""
        tables = self.duck.table(str(argument.table)).tables
        key = ("alike", argument.table, argument.column, len(column))
        return self.duck.remember(key, tables, lambda: beginnings.of_all(column))

    def _mean_bytes(
        self, argument: TextArgument, given: Given, number: int, rows: Callable[[str], Count]
    ) -> float:
        if argument.table is not None and argument.column is not None:
            total = self.duck.column(argument.table, argument.column).get("total_string_length")
            count = rows(argument.table).value
            if total and count:
                return float(total) / count
        text = f"coalesce(avg(strlen(CAST({VALUE}{number} AS VARCHAR))), {_UNKNOWN_BYTES})"
        sample = f"SELECT {text} FROM (SELECT * FROM ({given.rows}) LIMIT {_SAMPLE}) AS __covey_s"
        found = self.duck.number(
            ("bytes", number, given.rows), sample, self.duck.outline(given.counted), finish=False
        )
        return _UNKNOWN_BYTES if found is None else found
