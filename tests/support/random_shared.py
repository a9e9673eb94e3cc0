"""Random AI calls of which several are about one prompt (a yes or no, scores within bounds, labels), as SQL with marks;
runs nothing.
"""

from __future__ import annotations

from support.random_expressions import Column, Columns, columns_of, word
from support.random_spelling import mark
from support.random_statements import Statements
from support.random_tables import STORED

_BOUNDS = ("0.5", "0.5", "0.1", "0.9", "0", "1", "-0.5", "1.5", "NULL", "0.3 + 0.4", "0.75")
_SIGNS = (">", ">=", "<", "<=", "=", "<>")


class Shared(Statements):
    """Draws statements in which prompts and lists of labels come again, some of them with quotes, braces or NULL."""

    def __init__(self, tape: bytes) -> None:
        super().__init__(tape)
        self._prompts: list[tuple[frozenset[str], tuple[str, ...]]] = []
        self._labels: list[tuple[frozenset[str], str]] = []

    def stored(self) -> tuple[str, list[Column]]:
        if not self.chance(15):
            return super().stored()
        alias = self.name()
        return f"{mark('table', 'f')} {alias}", columns_of(alias, STORED["f"])

    def question(self) -> str:
        return self.pick(*["p?", "q?"] * 2, "r? seldom", "s? often", 'it\'s "so"?', "what\nnow?")

    def argument(self, columns: Columns) -> str:
        if self.chance(4):
            return self.pick(mark("as_text", "NULL"), word("red"), "NULL", word("it's {0}"))
        return super().argument(columns)

    def call(self, columns: Columns) -> str:
        form, *parts = self._prompt(columns)
        match self.pick(*["filter"] * 5, *["bound"] * 4, "between", "other"):
            case "filter":
                return mark(form, "FILTER", *parts)
            case "bound":
                return self._bounded(mark(form, "SCORE", *parts))
            case "between":
                score = mark(form, "SCORE", *parts)
                word_ = self.pick("BETWEEN", "NOT BETWEEN")
                return f"({score} {word_} {self.pick(*_BOUNDS)} AND {self.pick(*_BOUNDS)})"
        return self._other(mark(form, "SCORE", *parts), mark(form, "FILTER", *parts), columns)

    def _bounded(self, score: str) -> str:
        bound, sign = self.pick(*_BOUNDS), self.pick(*_SIGNS)
        return f"({score} {sign} {bound})" if self.chance(75) else f"({bound} {sign} {score})"

    def _other(self, score: str, asked: str, columns: Columns) -> str:
        number = self.of_kind("int", columns) or "1"
        return self.pick(
            f"({score} > {number} / 10.0)",
            f"(round({score}, 3) > 0.5)",
            f"({score} IS NULL)",
            f"({score} > {self.score(columns)})",
            f"(CASE WHEN {asked} THEN {score} ELSE 0 END > 0.7)",
            f"(({asked}) = ({score} > 0.5))",
            f"(1 - {score} < 0.5)",
            f"({asked} = {self.pick('TRUE', 'FALSE')})",
        )

    def score(self, columns: Columns) -> str:
        form, *parts = self._prompt(columns)
        return mark(form, "SCORE", *parts)

    def _prompt(self, columns: Columns) -> tuple[str, ...]:
        """A mark and what stands in it behind the function; often one that was there before."""
        here = frozenset(column.sql for column in columns)
        known = [parts for read, parts in self._prompts if read <= here]
        if known and self.chance(50):
            return self.pick(*known)
        if self.chance(40):
            found = ("asked", *self.prompt(columns, self.question()))
        else:
            found = ("asked_of", self.question(), self.argument(columns))
        self._prompts.append((frozenset(sql for sql in here if any(sql in part for part in found)), found))
        return found

    def label(self, columns: Columns) -> str:
        here = frozenset(column.sql for column in columns)
        known = [label for read, label in self._labels if read <= here]
        if known and self.chance(50):
            return self.pick(*known)
        if self.chance(60):
            found = super().label(columns)
        else:
            value = self.of_kind(self.pick("text", "text", "int"), columns) or mark(
                "as_text", self.pick("NULL", word("x"))
            )
            found = mark("label", value, self.pick("abc", "cab", "ab"))
        self._labels.append((frozenset(sql for sql in here if sql in found), found))
        return found

    def answer(self, columns: Columns) -> str:
        if not self.chance(50):
            return super().answer(columns)
        label = self.label(columns)
        one, other = self.pick("a", "b", "c"), self.pick("b", "c", "z")
        return self.pick(
            f"({label} = {word(one)})",
            f"({label} <> {word(one)})",
            f"({label} IN ({word(one)}, {word(other)}, NULL))",
            f"({label} NOT IN ({word(one)}, {word(other)}))",
            f"(CASE {label} WHEN {word(one)} THEN TRUE WHEN {word(other)} THEN {self.call(columns)} END)",
            f"({label} IS DISTINCT FROM {word(one)})",
            f"({label} = {self.label(columns)})",
            f"({label} < {word('b')})",
            f"({label} = {self.text(columns)})",
            f"({label} IS NULL)",
            f"({word(one)} = {label} OR {label} = {word(other)})",
        )
