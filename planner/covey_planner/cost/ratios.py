"""Bytes a token of text columns, by tokenizing a few of their texts; never runs the model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from covey_storage.data_files import quoted
from covey_storage.tokenizer import Tokenizer

from covey_planner.cost.duck_figures import DuckFigures
from covey_planner.physical import TextArgument

USUAL = 4.0
"""Of texts of which there is nothing to tokenize."""

_TEXTS, _CHARACTERS = 8, 500
"""Texts of a column that are tokenized, and how much of each."""


@dataclass
class Ratios:
    """What one statement needs of them."""

    duck: DuckFigures
    tokenizer: Tokenizer
    _found: dict[str, float] = field(default_factory=dict)

    def of(self, source: str, argument: TextArgument) -> float:
        """By texts of the argument's column, else by those that a query yields as `text`, "" for none."""
        table, column = argument.table, argument.column
        if table is not None and column is not None and self.duck.table(table).whole:
            tables = self.duck.table(table).tables
            return self.duck.remember(
                ("ratio", table, column), tables, lambda: self._one(_texts(table, column))
            )
        if source not in self._found:
            self._found[source] = self._one(source) if source else USUAL
        return self._found[source]

    def foresee(self, columns: Iterable[tuple[str, str]]) -> None:
        """Find those of several stored columns by one query."""
        new = [place for place in dict.fromkeys(columns) if self.duck.known(("ratio", *place)) is None]
        new = [(table, column) for table, column in new if self.duck.table(table).whole]
        ratios = self._several([_texts(*place) for place in new])
        for (table, column), ratio in zip(new, ratios, strict=True):
            self.duck.settle(("ratio", table, column), self.duck.table(table).tables, ratio)

    def _one(self, source: str) -> float:
        (found,) = self._several([source])
        return found

    def _several(self, sources: Sequence[str]) -> list[float]:
        """By the texts of each query."""
        asked = [
            f"(SELECT {at}, left(CAST(text AS VARCHAR), {_CHARACTERS}) FROM ({source}) AS __covey_s"
            f" WHERE text IS NOT NULL LIMIT {_TEXTS})"
            for at, source in enumerate(sources)
        ]
        rows = (self.duck.ask(" UNION ALL ".join(asked), sure=True) or []) if asked else []
        offsets, _ = self.tokenizer.encode_batch([str(text) for _, text in rows])
        sizes, tokens = [0] * len(sources), [0] * len(sources)
        for row, (at, text) in enumerate(rows):
            sizes[at] += len(str(text).encode("utf-8", "surrogatepass"))
            tokens[at] += int(offsets[row + 1] - offsets[row])
        return [size / count if count else USUAL for size, count in zip(sizes, tokens, strict=True)]


def _texts(table: str, column: str) -> str:
    return f"SELECT {quoted(column)} AS text FROM {quoted(table)}"
