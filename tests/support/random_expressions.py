"""Random expressions with AI calls over given columns, as SQL with marks (random_spelling); runs nothing.

A choice is read from a tape of bytes; a zero, and all beyond its end, is the simplest choice.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from support.random_spelling import mark


@dataclass(frozen=True)
class Column:
    """What can be read: its SQL and whether it is int, text, bool or date."""

    sql: str
    kind: str


Columns = Sequence[Column]

RARE = os.environ.get("COVEY_RANDOM_FORMS") == "all"
"""Whether rarer forms are drawn as well: without them the same are drawn as ever."""

TEMPLATES = ("Is {0} ", "{0} fits {1}, ", "{1} is {0}. ", "{1} and {{so}} {0}: ", "{2} of {0} or {1}? ")


def columns_of(alias: str, stored: Sequence[tuple[str, str]]) -> list[Column]:
    """The columns of a member of FROM. stored: their names and kinds."""
    return [Column(mark("column", alias, name), kind) for name, kind in stored]


def word(value: str) -> str:
    """A text literal."""
    return mark("text", value)


class Expressions:
    """Draws expressions. Names are numbered, so that none hides another but where that is wanted."""

    def __init__(self, tape: bytes) -> None:
        self._tape = tape
        self._at = 0
        self._names = 0
        self.duckdb_only = False
        # Whether forms are drawn that are rare, or that DuckDB alone has.
        self.rare = RARE and self.chance(45)

    def pick(self, *choices):
        """One of the choices, the first being the simplest."""
        byte = self._tape[self._at] if self._at < len(self._tape) else 0
        self._at += 1
        return choices[byte % len(choices)]

    def chance(self, percent: int) -> bool:
        """True so often; False at the end of the tape."""
        return self.pick(*range(256)) * 100 >= (100 - percent) * 256

    def name(self) -> str:
        """A name of its own."""
        self._names += 1
        return f"r{self._names}"

    def of_kind(self, kind: str, columns: Columns) -> str | None:
        """A column of a kind, if there is one."""
        own = [column.sql for column in columns if column.kind == kind]
        return self.pick(*own) if own else None

    # Values

    def text(self, columns: Columns) -> str:
        """A text of columns, as it is or computed."""
        column = self.of_kind("text", columns)
        if column is None or self.chance(4):
            return self.pick(word("red"), mark("as_text", "NULL"), word(""))
        other = ["other"] if self.rare else []
        match self.pick(*["column"] * 8, "upper", "joined", "twice", "or_else", "case", *other):
            case "other":
                self.duckdb_only = True
                return self.pick(
                    f"nullif({column}, '')",
                    f"substr({column}, 1, 2)",
                    f"concat_ws('/', {column}, {self.of_kind('text', columns)})",
                    f"({column}::VARCHAR)[:2]",
                    f"({column} COLLATE NOCASE)",
                    f"[{column}, 'x'][1]",
                    f"({{'v': {column}}}).v",
                )
            case "upper":
                return f"upper({column})"
            case "joined":
                return mark("joined", column, word("!"))
            case "twice":
                return mark("joined", column, self.of_kind("text", columns) or column)
            case "or_else":
                return mark("or_else", column, word("-"))
            case "case":
                return f"CASE WHEN {self.cheap(columns)} THEN {column} END"
        return column

    def argument(self, columns: Columns) -> str:
        """What a question can be about: now and then a number or a truth value."""
        kind = self.pick(*["text"] * 10, "int", "bool", *(["date"] if self.rare else []))
        found = None if kind == "text" else self.of_kind(kind, columns)
        if found is not None and self.rare and self.chance(40):
            self.duckdb_only = True
            return {"int": f"{found}::DOUBLE", "date": f"strftime({found}, '%d.%m.')"}.get(kind, found)
        return found or self.text(columns)

    # AI calls

    def question(self) -> str:
        """How a question ends."""
        return self.pick("p?", "q?", "q?", "r? seldom", "s? often")

    def call(self, columns: Columns) -> str:
        """A boolean AI call."""
        if self.chance(40):
            return mark("asked", "FILTER", *self.prompt(columns, self.question()))
        return mark("asked_of", "FILTER", self.question(), self.argument(columns))

    def prompt(self, columns: Columns, question: str) -> tuple[str, ...]:
        """A template for a question, and one to three values."""
        template = self.pick(*TEMPLATES[:1], *TEMPLATES[1:3] * 4, *TEMPLATES[3:])
        values = [self.argument(columns) for n in range(3) if f"{{{n}}}" in template]
        return f"{template}{question}", *values

    def score(self, columns: Columns) -> str:
        """A number between 0 and 1."""
        if self.chance(25):
            return mark("asked", "SCORE", *self.prompt(columns, "p?"))
        return mark("asked_of", "SCORE", self.pick("p?", "q?"), self.text(columns))

    def label(self, columns: Columns) -> str:
        """A label or a sentiment, as a text."""
        if self.chance(15):
            return mark("label_of", "ab", *self.prompt(columns, "which?"))
        column = self.of_kind("text", columns) or mark("as_text", "NULL")
        return f"AI_SENTIMENT({column})" if self.chance(15) else mark("label", column, "abc")

    def answer(self, columns: Columns) -> str:
        """Another AI call than a yes or no, compared."""
        match self.pick("label", "score", "score", "tokens", "labels", *(["many"] if self.rare else [])):
            case "many":
                self.duckdb_only = True
                many = mark("many", self.of_kind("text", columns) or "CAST(NULL AS VARCHAR)", "abc")
                return self.pick(f"list_contains({many}, 'a')", f"(len({many}) > 1)", f"({many} = ['b'])")
            case "label":
                return f"({self.label(columns)} {self.pick('=', '<>')} {word(self.pick('a', 'b'))})"
            case "labels":
                return f"({self.label(columns)} {self.pick('IN', 'NOT IN')} ({word('a')}, {word('c')}))"
            case "tokens":
                return f"({mark('tokens', self.text(columns))} {self.pick('<', '>')} 3)"
        return f"({self.score(columns)} {self.pick('<', '>')} 0.5)"

    # Conditions

    def cheap(self, columns: Columns) -> str:
        """A condition without AI calls."""
        column = self.pick(*columns)
        other = self.of_kind(column.kind, columns)
        match column.kind:
            case "int":
                form = self.pick(
                    "{} > 2", "{} = {}", "{} < {}", "{} IS NULL", "{} <> 1", "{} IN (1, 2, NULL)"
                )
            case "text":
                form = self.pick("{} IS NOT NULL", "{} = {}", f"{{}} > {word('m')}", f"{{}} = {word('red')}")
            case "date":
                form = self.pick("{} IS NULL", "{} = {}", "{} > DATE '2024-01-01'")
            case _:
                form = self.pick("{}", "NOT {}", "{} IS NULL", "{} = {}")
        return f"({form.format(column.sql, other)})"

    def condition(self, columns: Columns, depth: int, size: int = 4) -> str:
        """A boolean expression. size: bounds its calls; depth: of subqueries in it."""
        if size <= 1 or not self.chance(60):
            return self.leaf(columns, depth)
        inner = [self.condition(columns, depth, size // 2) for _ in range(2)]
        form = self.pick(
            *["({} AND {})"] * 4, *["({} OR {})"] * 4, *["(NOT {})"] * 2, "({} AND NOT {})", "({} IS NOT TRUE)",
            "({} IS NULL)", "(CASE WHEN {} THEN {} END)", "coalesce({}, {})", "({} = {})", "({} IS DISTINCT FROM {})",
            "either", *(["odd"] * 3 if self.rare else []),
        )  # fmt: skip
        if form == "odd":
            self.duckdb_only = True
            form = self.pick(
                "({} IN ({}, NULL))", "(CASE {} WHEN {} THEN TRUE WHEN NOT TRUE THEN NULL END)", "({} IS NOT FALSE)",
                "(list_contains([{}, {}], TRUE))", "({} < {})", "(nullif({}, {}))", "(NOT ({} AND {}) OR NULL)",
                "(if({}, NULL, {}))", "({} BETWEEN FALSE AND {})", "(greatest({}, {}))", "(struct_pack(v := {}).v)",
                "(xor(CAST({} AS INTEGER), 1) = CAST({} AS INTEGER))",
            )  # fmt: skip
        if form == "either":
            return mark("either", *inner, self.leaf(columns, 0))
        return form.format(*inner)

    def leaf(self, columns: Columns, depth: int) -> str:
        """A condition of one part."""
        if depth > 1 and self.chance(25):
            return f"({self.subquery(columns, depth - 1)})"
        match self.pick(*["call"] * 6, *["cheap"] * 4, "answer", "constant"):
            case "call":
                return self.call(columns)
            case "cheap":
                return self.cheap(columns)
            case "answer":
                return self.answer(columns)
        return self.pick("NULL", "TRUE", "FALSE")

    def subquery(self, columns: Columns, depth: int) -> str:
        """A condition on a query."""
        raise NotImplementedError
