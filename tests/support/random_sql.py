"""Random queries with AI calls over three small tables, as a hypothesis strategy; runs nothing.

Every query has one answer: what would depend on the order of rows (LIMIT without ORDER BY, row numbers) is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st
from support.random_tables import STORED

_OTHER_JOINS = ("CROSS JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN")

Draw = Callable[[st.SearchStrategy], object]


@dataclass(frozen=True)
class _Column:
    """What can be read: its SQL and whether it is int, text or bool."""

    sql: str
    kind: str


_Columns = Sequence[_Column]


class _Writer:
    """Draws a statement. Names are numbered, so that none hides another but where that is wanted."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._names = 0

    def pick(self, *choices):
        return self._draw(st.sampled_from(choices))

    def chance(self, percent: int) -> bool:
        return self._draw(st.integers(0, 99)) < percent

    def name(self) -> str:
        self._names += 1
        return f"r{self._names}"

    # Expressions

    def text(self, columns: _Columns) -> str:
        own = [column.sql for column in columns if column.kind == "text"]
        if not own or self.chance(4):
            return self.pick("'red'", "CAST(NULL AS VARCHAR)")
        column = self.pick(*own)
        form = self.pick("{}", "{}", "{}", "{}", "upper({})", "{} || '!'", "coalesce({}, '-')", "{} || {}")
        return form.format(column, self.pick(*own))

    def argument(self, columns: _Columns) -> str:
        ints = [column.sql for column in columns if column.kind == "int"]
        return self.pick(*ints) if ints and self.chance(10) else self.text(columns)

    def call(self, columns: _Columns) -> str:
        """A boolean AI call."""
        question = self.pick("p?", "q?", "q?", "r? seldom", "s? often")
        if self.chance(60):
            return f"AI_FILTER('{question}', {self.argument(columns)})"
        return f"AI_FILTER({self.prompt(columns, question)})"

    def prompt(self, columns: _Columns, question: str) -> str:
        """A question about one to three values."""
        texts = ("Is {0} ", "{0} fits {1}, ", "{1} is {0}. ", "{1} and {{so}} {0}: ", "{2} of {0} or {1}? ")
        template = self.pick(*texts[:1], *texts[1:3] * 4, *texts[3:])
        values = ", ".join(self.argument(columns) for n in range(3) if f"{{{n}}}" in template)
        return f"PROMPT('{template}{question}', {values})"

    def answer(self, columns: _Columns) -> str:
        """Another AI call, compared."""
        if self.chance(50):
            return f"({self.label(columns)} {self.pick('=', '<>')} '{self.pick('a', 'b')}')"
        bound = f"{self.pick('<', '>')} 0.5"
        if self.chance(25):
            return f"(AI_SCORE({self.prompt(columns, 'p?')}) {bound})"
        return f"(AI_SCORE('{self.pick('p?', 'q?')}', {self.text(columns)}) {bound})"

    def label(self, columns: _Columns) -> str:
        own = [column.sql for column in columns if column.kind == "text"]
        if self.chance(15):
            return f"AI_CLASSIFY({self.prompt(columns, 'which?')}, ['a', 'b'])"
        return f"AI_CLASSIFY({self.pick(*own) if own else 'NULL::VARCHAR'}, ['a', 'b', 'c'])"

    def cheap(self, columns: _Columns) -> str:
        column = self.pick(*columns)
        others = [other.sql for other in columns if other.kind == column.kind]
        match column.kind:
            case "int":
                form = self.pick("{} = {}", "{} < {}", "{} > 2", "{} IS NULL", "{} <> 1")
            case "text":
                form = self.pick("{} = {}", "{} > 'm'", "{} IS NOT NULL", "{} = 'red'")
            case _:
                form = self.pick("{}", "NOT {}", "{} IS NULL", "{} = {}")
        return f"({form.format(column.sql, self.pick(*others))})"

    def condition(self, columns: _Columns, depth: int, size: int = 4) -> str:
        """A boolean expression. size: bounds its calls."""
        if size <= 1 or self.chance(30):
            return self.leaf(columns, depth)
        inner = [self.condition(columns, depth, size // 2) for _ in range(2)]
        form = self.pick(
            *["({} AND {})"] * 4, *["({} OR {})"] * 4, *["(NOT {})"] * 2, "({} AND NOT {})", "({} IS NOT TRUE)",
            "({} IS NULL)", "(CASE WHEN {} THEN {} END)", "coalesce({}, {})", "({} = {})", "({} IS DISTINCT FROM {})",
        )  # fmt: skip
        return form.format(*inner)

    def leaf(self, columns: _Columns, depth: int) -> str:
        if depth > 1 and self.chance(25):
            return f"({self.subquery(columns, depth - 1)})"
        kind = self.pick(*["call"] * 6, *["cheap"] * 4, "answer", "constant")
        match kind:
            case "call":
                return self.call(columns)
            case "cheap":
                return self.cheap(columns)
            case "answer":
                return self.answer(columns)
        return self.pick("NULL", "TRUE", "FALSE")

    def subquery(self, columns: _Columns, depth: int) -> str:
        """EXISTS, IN or a count, correlated or not."""
        around = columns if self.chance(75) else ()
        source, own = self.source(depth)
        where = f" WHERE {self.condition([*own, *around, *own], depth, 3)}" if self.chance(90) else ""
        if self.chance(40):
            where = f" WHERE {self.cheap([*own, *around])} AND {self.call([*own, *own, *around])}"
        word = self.pick("EXISTS", "NOT EXISTS", "IN", "NOT IN", "count")
        ints = [column.sql for column in columns if column.kind == "int"]
        inner = [column.sql for column in own if column.kind == "int"]
        if word.endswith("IN") and ints and inner:
            return f"{self.pick(*ints)} {word} (SELECT {self.pick(*inner)} FROM {source}{where})"
        texts = [[column.sql for column in side if column.kind == "text"] for side in (columns, own)]
        if word.endswith("IN") and all(texts):
            return f"{self.pick(*texts[0])} {word} (SELECT {self.pick(*texts[1])} FROM {source}{where})"
        if word == "count" and ints and inner and self.chance(40):
            return f"{self.pick(*ints)} >= (SELECT max({self.pick(*inner)}) FROM {source}{where})"
        if word == "count":
            form = self.pick(
                "{} > 0", "{} > 1", "{} >= 3", "{} < 2", "{} = 0", "2 > {}", "{} BETWEEN 1 AND 2"
            )
            return form.format(f"(SELECT count(*) FROM {source}{where})")
        return f"{word if 'EXISTS' in word else 'EXISTS'} (SELECT 1 FROM {source}{where})"

    # FROM

    def relation(self, depth: int) -> tuple[str, list[_Column]]:
        alias = self.name()
        if depth > 1 and self.chance(25):
            inner, kinds = self.select(depth - 1)
            return f"({inner}) {alias}", [_Column(f"{alias}.c{n}", kind) for n, kind in enumerate(kinds)]
        table = self.pick("a", "b", "c")
        return f"{table} {alias}", [_Column(f"{alias}.{name}", kind) for name, kind in STORED[table]]

    def source(self, depth: int) -> tuple[str, list[_Column]]:
        """A FROM clause and what can be read from it."""
        text, columns = self.relation(depth)
        for _ in range(self.pick(0, 0, 1, 1, 2) if depth > 1 else self.pick(0, 0, 0, 1)):
            member, added = self.relation(depth - 1)
            kind = self.pick(",", *["JOIN"] * 2, *["LEFT JOIN"] * 2, *_OTHER_JOINS)
            both = [*columns, *added]
            if kind == ",":
                text += f", {member}"
            else:
                text += f" {kind} {member}"
                if kind != "CROSS JOIN":
                    text += f" ON {self.condition(both, 1, 2)}"
            if kind not in ("SEMI JOIN", "ANTI JOIN"):
                columns = both
        return text, columns

    # SELECT

    def select(self, depth: int) -> tuple[str, list[str]]:
        """A query whose columns are c0, c1, …, and their kinds."""
        if depth > 1 and self.chance(10):
            left, kinds = self.plain(depth - 1, ["int", "bool"])
            right, _ = self.plain(depth - 1, ["int", "bool"])
            return f"{left} {self.pick('UNION ALL', 'UNION', 'INTERSECT', 'EXCEPT')} {right}", kinds
        return self.grouped(depth) if self.chance(25) else self.plain(depth)

    def where(self, columns: _Columns, depth: int) -> str:
        return f" WHERE {self.condition(columns, depth)}" if self.chance(80) else ""

    def plain(self, depth: int, kinds: Sequence[str] = ()) -> tuple[str, list[str]]:
        source, columns = self.source(depth)
        wanted = list(kinds) or [self.pick("int", "text", "bool") for _ in range(self.pick(1, 2, 2, 3))]
        items = [self.item(kind, columns, depth) for kind in wanted]
        listed = ", ".join(f"{item} AS c{n}" for n, item in enumerate(items))
        distinct = "DISTINCT " if self.chance(10) else ""
        where = self.where(columns, depth)
        qualify = f" QUALIFY {self.window_condition(columns)}" if self.chance(8) else ""
        return f"SELECT {distinct}{listed} FROM {source}{where}{qualify}", wanted

    def window_condition(self, columns: _Columns) -> str:
        """A condition over windows in which the order of equal rows does not matter."""
        partition = f"PARTITION BY {self.pick(self.pick(*columns).sql, self.call(columns))}"
        score = f"AI_SCORE('{self.pick('p?', 'q?')}', {self.text(columns)})"
        return self.pick(
            f"count(*) OVER ({partition}) > 2",
            f"rank() OVER (ORDER BY {score} DESC NULLS LAST) <= 2",
            f"rank() OVER ({partition} ORDER BY {score} NULLS LAST) = 1",
            f"count(*) FILTER (WHERE {self.call(columns)}) OVER ({partition}) > 1",
        )

    def item(self, kind: str, columns: _Columns, depth: int) -> str:
        if kind == "bool":
            return self.condition(columns, min(depth, 2), 2)
        if kind == "text" and self.chance(10):
            return self.label(columns)
        own = [column.sql for column in columns if column.kind == kind]
        if own and self.chance(85):
            return self.pick(*own)
        if kind == "int" and self.chance(40):
            counted = f"count(*) FILTER (WHERE {self.call(columns)})"
            return f"CAST({counted} OVER (PARTITION BY {self.pick(*columns).sql}) AS INTEGER)"
        value = "1" if kind == "int" else "'y'"
        return f"CASE WHEN {self.call(columns)} THEN {value} END"

    def grouped(self, depth: int) -> tuple[str, list[str]]:
        source, columns = self.source(depth)
        where = self.where(columns, depth)
        keys: list[tuple[str, str]] = []
        for _ in range(self.pick(0, 1, 1, 2)):
            kind = self.pick("int", "bool")
            own = [column.sql for column in columns if column.kind == kind]
            keys.append(
                (
                    self.call(columns) if kind == "bool" or not own else self.pick(*own),
                    kind if own else "bool",
                )
            )
        forms = ("count(*)", "count({})", "count(*) FILTER (WHERE {})", "sum(CASE WHEN {} THEN 1 ELSE 0 END)")
        counts = [self.pick(*forms).format(self.condition(columns, 1, 2)) for _ in range(self.pick(1, 2))]
        items = [*(key for key, _ in keys), *(f"CAST({count} AS INTEGER)" for count in counts)]
        listed = ", ".join(f"{item} AS c{n}" for n, item in enumerate(items))
        group = f" GROUP BY {', '.join(str(n + 1) for n in range(len(keys)))}" if keys else ""
        having = ""
        if keys and self.chance(25):
            having = " HAVING " + self.pick(
                "count(*) > 1",
                f"bool_or({self.call(columns)})",
                f"AI_FILTER('p?', max({self.text(columns)}))",
            )
        kinds = [*(kind for _, kind in keys), *("int" for _ in counts)]
        return f"SELECT {listed} FROM {source}{where}{group}{having}", kinds

    def first_rows(self) -> str:
        """The first rows in the order of a key, of those that a subquery or a question chooses."""
        alias = self.name()
        columns = [_Column(f"{alias}.{name}", kind) for name, kind in STORED["a"]]
        where = self.subquery(columns, 1) if self.chance(70) else self.call(columns)
        member = f" JOIN b {alias}b ON {alias}b.n = {alias}.n" if self.chance(30) else ""
        keys = f"{alias}.id DESC{f', {alias}b.id, {alias}b.t' if member else ''}"
        return f"SELECT {alias}.id FROM a {alias}{member} WHERE {where} ORDER BY {keys} LIMIT {self.pick(1, 2, 4)}"

    def statement(self) -> str:
        if self.chance(10):
            return self.first_rows()
        query, kinds = self.select(3)
        columns = [_Column(f"z.c{n}", kind) for n, kind in enumerate(kinds)]
        if self.chance(20):
            after = self.pick("", "", f" UNION ALL SELECT * FROM w z WHERE {self.condition(columns, 1, 2)}")
            query = f"WITH w AS ({query}) SELECT * FROM w{after}"
        if self.chance(25):
            places = [f"{n + 1} NULLS LAST" for n in range(len(kinds))]
            if self.chance(30):
                places.insert(0, f"{self.call(columns)} DESC NULLS LAST")
            query = f"SELECT * FROM ({query}) z ORDER BY {', '.join(places)} LIMIT {self.pick(1, 3, 5)}"
        return query

    def change(self) -> tuple[str, str, str]:
        """What makes a table z, a statement that changes it, and a query of what is there then."""
        table = self.pick("a", "b", "c")
        columns = [_Column(f"z.{name}", kind) for name, kind in STORED[table]]
        where = self.where(columns, 2)
        text = self.pick(
            self.text(columns), self.label(columns), f"CASE WHEN {self.call(columns)} THEN 'y' END"
        )
        source, _ = self.plain(2, ["int", "text"])
        statement = self.pick(
            *[f"UPDATE z SET t = {text}{where}"] * 3,
            *[f"DELETE FROM z{where}"] * 3,
            *[f"INSERT INTO z (id, t) {source}"] * 3,
            f"CREATE OR REPLACE TABLE z AS {source}",
        )
        return f"CREATE OR REPLACE TABLE z AS SELECT * FROM {table}", statement, "SELECT * FROM z"


@st.composite
def queries(draw: Draw) -> str:
    """A query, with at least one AI call as a rule."""
    return _Writer(draw).statement()


@st.composite
def changes(draw: Draw) -> tuple[str, str, str]:
    """A table made, changed with AI calls as a rule, and read."""
    return _Writer(draw).change()
