"""Random FROM clauses, subqueries and SELECTs with AI calls, as SQL with marks (random_spelling); runs nothing."""

from __future__ import annotations

from collections.abc import Sequence

from support.random_expressions import Column, Columns, Expressions, columns_of, word
from support.random_spelling import mark
from support.random_tables import NESTED, STORED

_JOINS = (
    "JOIN",
    "JOIN",
    "LEFT JOIN",
    "LEFT JOIN",
    "CROSS JOIN",
    "RIGHT JOIN",
    "FULL JOIN",
    "SEMI JOIN",
    "ANTI JOIN",
)
_COUNTS = ("{} > 0", "{} > 1", "{} >= 3", "{} < 2", "{} = 0", "2 > {}", "{} BETWEEN 1 AND 2")


class Sources(Expressions):
    """Draws what reads tables."""

    def subquery(self, columns: Columns, depth: int) -> str:
        """EXISTS, IN or a count, correlated or not."""
        around = columns if self.chance(75) else ()
        source, own = self.source(depth)
        where = f" WHERE {self.condition([*own, *around, *own], depth, 2)}" if self.chance(90) else ""
        if self.chance(40):
            where = f" WHERE {self.cheap([*own, *around])} AND {self.call([*own, *own, *around])}"
        form = self.pick("EXISTS", "NOT EXISTS", "IN", "NOT IN", "count", "max")
        kind = self.pick("int", "text")
        outer, inner = self.of_kind(kind, columns), self.of_kind(kind, own)
        if form == "count" or (form == "max" and kind == "text"):
            return self.pick(*_COUNTS).format(f"(SELECT count(*) FROM {source}{where})")
        if outer is None or inner is None or "EXISTS" in form:
            return f"{form if 'EXISTS' in form else 'EXISTS'} (SELECT 1 FROM {source}{where})"
        if form == "max":
            return f"{outer} >= (SELECT max({inner}) FROM {source}{where})"
        return f"{outer} {form} (SELECT {inner} FROM {source}{where})"

    # FROM

    def stored(self) -> tuple[str, list[Column]]:
        """A table."""
        alias, table = (
            self.name(),
            self.pick("b", "a", "a", "c", "b", "a", "c", "d", *("ee" if self.rare else "")),
        )
        if table == "e":
            self.duckdb_only = True
            return f"e {alias}", [Column(f"{alias}.{name}", kind) for name, kind in NESTED]
        return f"{mark('table', table)} {alias}", columns_of(alias, STORED[table])

    def relation(self, depth: int) -> tuple[str, list[Column]]:
        """A table, a derived table or a list of rows."""
        if depth > 1 and self.chance(25):
            inner, kinds = self.select(depth - 1)
            alias = self.name()
            return f"({inner}) {alias}", columns_of(alias, [(f"c{n}", kind) for n, kind in enumerate(kinds)])
        if self.chance(6):
            alias = self.name()
            rows = [
                ("1", word("red")),
                ("2", "NULL"),
                ("NULL", word("x")),
                ("1", word("red")),
                ("4", word("")),
            ]
            taken = [mark("row", *row) for row in rows[: self.pick(1, 3, 5)]]
            return mark("rows", alias, *taken), columns_of(alias, [("id", "int"), ("t", "text")])
        return self.stored()

    def lateral(self, columns: Columns) -> tuple[str, list[Column]]:
        """A derived table that reads what stands before it."""
        member, own = self.stored()
        alias = self.name()
        where = f"{self.cheap([*own, *columns])} AND {self.call([*own, *columns])}"
        picked = [(f"c{n}", column.kind) for n, column in enumerate(own)]
        items = ", ".join(f"{column.sql} AS c{n}" for n, column in enumerate(own))
        self.duckdb_only = True
        return f"LATERAL (SELECT {items} FROM {member} WHERE {where}) {alias}", columns_of(alias, picked)

    def source(self, depth: int) -> tuple[str, list[Column]]:
        """A FROM clause and what can be read from it."""
        text, columns = self.paired() if self.rare and self.chance(15) else self.relation(depth)
        comma = False
        for _ in range(self.pick(0, 0, 0, 1, 1, 2) if depth > 1 else self.pick(0, 0, 0, 1)):
            if self.chance(5):
                member, added = self.lateral(columns)
                text += self.pick(f" CROSS JOIN {member}", f" LEFT JOIN {member} ON TRUE")
                columns = [*columns, *added]
                continue
            member, added = self.relation(depth - 1)
            kind = self.pick(*_JOINS, ",")
            both = [*columns, *added]
            if kind == ",":
                text, comma = f"{text}, {member}", True
            else:
                # BigQuery refuses such a join behind a comma; read as BigQuery reads the others, it has other rows.
                if kind in ("RIGHT JOIN", "FULL JOIN") and comma:
                    self.duckdb_only = True
                on = "" if kind == "CROSS JOIN" else f" ON {self.condition(both, 1, 2)}"
                text += f" {kind} {member}{on}"
            if kind in ("SEMI JOIN", "ANTI JOIN"):
                self.duckdb_only = True
            else:
                columns = both
        return text, columns

    def paired(self) -> tuple[str, list[Column]]:
        """Two tables joined by the names of columns, by the nearest number, or by their places."""
        self.duckdb_only = True
        left, right, tables = self.name(), self.name(), self.pick("bc", "ab", "aa", "cb", "bd")
        columns = columns_of(left, STORED[tables[0]])
        added = columns_of(right, STORED[tables[1]])
        side = self.pick("", "", "LEFT ", "RIGHT ", "FULL ", "SEMI ", "ANTI ")
        form = self.pick("USING (id)", "USING (t, id)", "NATURAL", "ASOF", "POSITIONAL")
        one, other = f"{mark('table', tables[0])} {left}", f"{mark('table', tables[1])} {right}"
        if form == "POSITIONAL":
            return f"{one} POSITIONAL JOIN {other}", [*columns, *added]
        if form == "ASOF":
            # The numbers of c are all different.
            other, added = f"c {right}", columns_of(right, STORED["c"])
            side = side.replace("SEMI ", "").replace("ANTI ", "")
            return f"{one} ASOF {side}JOIN {other} ON {left}.id >= {right}.id", [*columns, *added]
        text = (
            f"{one} NATURAL {side}JOIN {other}" if form == "NATURAL" else f"{one} {side}JOIN {other} {form}"
        )
        merged = [Column("id", "int")] * 3 if self.chance(40) else []
        return text, [*merged, *columns, *(() if side in ("SEMI ", "ANTI ") else added)]

    # SELECT

    def select(self, depth: int) -> tuple[str, list[str]]:
        """A query whose columns are c0, c1, …, and their kinds."""
        if depth > 1 and self.chance(10):
            left, kinds = self.plain(depth - 1, ["int", "bool"])
            right, _ = self.plain(depth - 1, ["int", "bool"])
            return (
                f"{left} {mark('set', self.pick('UNION ALL', 'UNION', 'INTERSECT', 'EXCEPT'))} {right}",
                kinds,
            )
        if self.rare and self.chance(25):
            return self.special(depth)
        return self.grouped(depth) if self.chance(25) else self.plain(depth)

    def special(self, depth: int) -> tuple[str, list[str]]:
        """A query of a form that hardly any statement has."""
        raise NotImplementedError

    def where(self, columns: Columns, depth: int) -> str:
        """A WHERE clause, as a rule."""
        return f" WHERE {self.condition(columns, depth)}" if not self.chance(20) else ""

    def plain(self, depth: int, kinds: Sequence[str] = ()) -> tuple[str, list[str]]:
        """A query without groups."""
        source, columns = self.source(depth)
        wanted = list(kinds) or [
            self.pick("int", "int", "text", "bool") for _ in range(self.pick(1, 1, 2, 3))
        ]
        items = [self.item(kind, columns, depth) for kind in wanted]
        listed = ", ".join(f"{item} AS c{n}" for n, item in enumerate(items))
        distinct = "DISTINCT " if self.chance(10) else ""
        where = self.where(columns, depth)
        qualify = f" QUALIFY {self.window_condition(columns)}" if self.chance(8) else ""
        return f"SELECT {distinct}{listed} FROM {source}{where}{qualify}", wanted

    def window_condition(self, columns: Columns) -> str:
        """A condition over windows in which the order of equal rows does not matter."""
        partition = f"PARTITION BY {self.pick(self.pick(*columns).sql, self.call(columns))}"
        score = self.score(columns)
        return self.pick(
            f"count(*) OVER ({partition}) > 2",
            f"rank() OVER (ORDER BY {score} DESC NULLS LAST) <= 2",
            f"rank() OVER ({partition} ORDER BY {score} NULLS LAST) = 1",
            f"{mark('count_if', self.call(columns))} OVER ({partition}) > 1",
        )

    def item(self, kind: str, columns: Columns, depth: int) -> str:
        """A column of a result."""
        if kind == "bool":
            return self.condition(columns, min(depth, 2), 2)
        if kind == "text" and self.chance(10):
            return self.label(columns)
        own = self.of_kind(kind, columns)
        if own is not None and not self.chance(20):
            return own
        if kind == "int" and self.chance(40):
            counted = f"{mark('count_if', self.call(columns))} OVER (PARTITION BY {self.pick(*columns).sql})"
            return mark("as_int", self.pick(counted, mark("tokens", self.text(columns))))
        one, other = ("1", "2") if kind == "int" else (word("y"), self.text(columns))
        return self.pick(
            f"CASE WHEN {self.call(columns)} THEN {one} END",
            mark("either", self.condition(columns, 0, 2), one, other),
            f"CASE WHEN {self.cheap(columns)} THEN {mark('either', self.call(columns), one, other)} ELSE {one} END",
        )

    def grouped(self, depth: int) -> tuple[str, list[str]]:
        """A query with groups, or of all rows."""
        source, columns = self.source(depth)
        where = self.where(columns, depth)
        keys: list[tuple[str, str]] = []
        for _ in range(self.pick(1, 0, 1, 2)):
            own = self.of_kind("int", columns)
            made = self.pick("int", "bool", "text")
            if made == "text":
                keys.append((self.label(columns), "text"))
            else:
                keys.append((own, "int") if made == "int" and own else (self.call(columns), "bool"))
        counts = [self.aggregate(columns) for _ in range(self.pick(1, 2))]
        items = [*(key for key, _ in keys), *(mark("as_int", count) for count in counts)]
        listed = ", ".join(f"{item} AS c{n}" for n, item in enumerate(items))
        group = f" GROUP BY {', '.join(str(n + 1) for n in range(len(keys)))}" if keys else ""
        having = ""
        if keys and self.chance(25):
            having = " HAVING " + self.pick(
                "count(*) > 1",
                mark("any_true", self.call(columns)),
                mark("asked_of", "FILTER", "p?", f"max({self.text(columns)})"),
            )
        kinds = [*(kind for _, kind in keys), *("int" for _ in counts)]
        return f"SELECT {listed} FROM {source}{where}{group}{having}", kinds

    def aggregate(self, columns: Columns) -> str:
        """A number of rows."""
        condition = self.condition(columns, 1, 2)
        return self.pick(
            "count(*)",
            f"count({condition})",
            mark("count_if", condition),
            f"sum(CASE WHEN {condition} THEN 1 ELSE 0 END)",
            f"count(DISTINCT {self.text(columns)})",
        )
