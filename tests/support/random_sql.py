"""Random queries with AI calls over three small tables, as a hypothesis strategy; runs nothing.

Every query has one answer: what would depend on the order of rows (LIMIT without ORDER BY, row numbers) is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

TABLES = """
CREATE TABLE a (id INTEGER, t VARCHAR, u VARCHAR, n INTEGER);
INSERT INTO a VALUES (1, 'red', 'x', 1), (2, 'blue', NULL, 2), (3, NULL, 'y', 1), (4, 'red', 'z {0}', NULL),
    (5, '', 'x', 3), (6, 'Zoë', NULL, NULL), (7, 'green', '', 2), (7, 'green', '', 2);
CREATE TABLE b (id INTEGER, t VARCHAR, n INTEGER);
INSERT INTO b VALUES (1, 'red', 2), (2, 'one', 1), (3, NULL, 3), (NULL, 'two', NULL), (5, 'blue', 7), (2, 'three', 1);
CREATE TABLE c (id INTEGER, t VARCHAR, flag BOOLEAN);
INSERT INTO c VALUES (1, 'x', TRUE), (2, 'red', FALSE), (3, 'x', NULL), (4, NULL, TRUE);
"""

_STORED = {
    "a": [("id", "int"), ("t", "text"), ("u", "text"), ("n", "int")],
    "b": [("id", "int"), ("t", "text"), ("n", "int")],
    "c": [("id", "int"), ("t", "text"), ("flag", "bool")],
}

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
        if self.chance(85):
            template = self.pick("{0} fits {1}, ", "{1} is {0}. ") + question
            return f"AI_FILTER(PROMPT('{template}', {self.argument(columns)}, {self.argument(columns)}))"
        return f"AI_FILTER(PROMPT('Is {{0}} {question}', {self.text(columns)}))"

    def answer(self, columns: _Columns) -> str:
        """Another AI call, compared."""
        if self.chance(50):
            return f"({self.label(columns)} {self.pick('=', '<>')} '{self.pick('a', 'b')}')"
        return f"(AI_SCORE('{self.pick('p?', 'q?')}', {self.text(columns)}) {self.pick('<', '>')} 0.5)"

    def label(self, columns: _Columns) -> str:
        own = [column.sql for column in columns if column.kind == "text"]
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
        source, own = self.source(depth, inside=True)
        where = f" WHERE {self.condition([*own, *around, *own], depth, 3)}" if self.chance(90) else ""
        word = self.pick("EXISTS", "NOT EXISTS", "IN", "NOT IN", "count")
        ints = [column.sql for column in columns if column.kind == "int"]
        inner = [column.sql for column in own if column.kind == "int"]
        if word.endswith("IN") and ints and inner:
            return f"{self.pick(*ints)} {word} (SELECT {self.pick(*inner)} FROM {source}{where})"
        if word == "count":
            return f"(SELECT count(*) FROM {source}{where}) > {self.pick(0, 1, 3)}"
        return f"{word if 'EXISTS' in word else 'EXISTS'} (SELECT 1 FROM {source}{where})"

    # FROM

    def relation(self, depth: int) -> tuple[str, list[_Column]]:
        alias = self.name()
        if depth > 1 and self.chance(25):
            inner, kinds = self.select(depth - 1)
            return f"({inner}) {alias}", [_Column(f"{alias}.c{n}", kind) for n, kind in enumerate(kinds)]
        table = self.pick("a", "b", "c")
        return f"{table} {alias}", [_Column(f"{alias}.{name}", kind) for name, kind in _STORED[table]]

    def source(self, depth: int, inside: bool = False) -> tuple[str, list[_Column]]:
        """A FROM clause and what can be read from it.

        inside: of a subquery, where DuckDB 2.0.1 itself mistakes a SEMI JOIN whose ON holds two subqueries.
        """
        text, columns = self.relation(depth)
        for _ in range(self.pick(0, 0, 1, 1, 2) if depth > 1 else self.pick(0, 0, 0, 1)):
            member, added = self.relation(depth - 1)
            kind = self.pick(",", *["JOIN"] * 2, *["LEFT JOIN"] * 2, *_OTHER_JOINS[: 3 if inside else 5])
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
        return f"SELECT {distinct}{listed} FROM {source}{self.where(columns, depth)}", wanted

    def item(self, kind: str, columns: _Columns, depth: int) -> str:
        if kind == "bool":
            return self.condition(columns, min(depth, 2), 2)
        if kind == "text" and self.chance(10):
            return self.label(columns)
        own = [column.sql for column in columns if column.kind == kind]
        if own and self.chance(85):
            return self.pick(*own)
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

    def statement(self) -> str:
        query, kinds = self.select(3)
        if self.chance(20):
            query = f"WITH w AS ({query}) SELECT * FROM w"
        if self.chance(25):
            places = ", ".join(f"{n + 1} NULLS LAST" for n in range(len(kinds)))
            query = f"SELECT * FROM ({query}) z ORDER BY {places} LIMIT {self.pick(1, 3, 5)}"
        return query


@st.composite
def queries(draw: Draw) -> str:
    """A query, with at least one AI call as a rule."""
    return _Writer(draw).statement()
