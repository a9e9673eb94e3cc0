"""Random queries, changes and views with AI calls over small tables, as SQL with marks; runs nothing."""

from __future__ import annotations

from collections.abc import Sequence

from support.random_expressions import Column, Columns, columns_of, word
from support.random_forms import Forms
from support.random_spelling import mark
from support.random_tables import STORED


class Statements(Forms):
    """Draws whole statements."""

    def limited(self, query: str, kinds: Sequence[str]) -> str:
        """The first rows of a query in an order that decides all of them, or how many there are."""
        if self.chance(20):
            return f"SELECT count(*) AS c0 FROM ({query} LIMIT {self.pick(1, 3)}) z"
        columns = columns_of("z", [(f"c{n}", kind) for n, kind in enumerate(kinds)])
        places = [f"{n + 1} NULLS LAST" for n in range(len(kinds))]
        if self.chance(40):
            key = self.pick(self.call, self.score)(columns)
            places.insert(0, f"{key} DESC NULLS LAST")
        offset = self.pick("", "", " OFFSET 1")
        return f"SELECT * FROM ({query}) z ORDER BY {', '.join(places)} LIMIT {self.pick(1, 3, 5)}{offset}"

    def first_rows(self) -> str:
        """The first rows in the order of a key, of those that a subquery or a question chooses."""
        alias = self.name()
        columns = columns_of(alias, STORED["a"])
        where = self.subquery(columns, 1) if self.chance(70) else self.call(columns)
        member = f" JOIN {mark('table', 'b')} {alias}b ON {alias}b.n = {alias}.n" if self.chance(30) else ""
        keys = f"{alias}.id DESC{f', {alias}b.id, {alias}b.t' if member else ''}"
        rows = self.pick(1, 2, 4)
        return f"SELECT {alias}.id FROM {mark('table', 'a')} {alias}{member} WHERE {where} ORDER BY {keys} LIMIT {rows}"

    def with_query(self, query: str, kinds: Sequence[str]) -> str:
        """A query as a CTE that is read once or twice."""
        stored = [(f"c{n}", kind) for n, kind in enumerate(kinds)]
        columns = columns_of("z", stored)
        match self.pick("once", "union", "join", "exists"):
            case "once":
                return f"WITH w AS ({query}) SELECT * FROM w"
            case "union":
                after = f"UNION ALL SELECT * FROM w z WHERE {self.condition(columns, 1, 2)}"
                return f"WITH w AS ({query}) SELECT * FROM w {after}"
            case "join":
                both = [*columns, *columns_of("y", stored)]
                join = f"{self.pick('JOIN', 'LEFT JOIN', 'FULL JOIN')} w y ON {self.condition(both, 1, 2)}"
                return f"WITH w AS ({query}) SELECT z.c0 AS c0, y.c0 AS c1 FROM w z {join}"
        around = [*columns_of("y", stored), *columns, *columns]
        within = f"SELECT 1 FROM w y WHERE {self.cheap(around)} AND {self.call(around)}"
        word_ = self.pick("EXISTS", "NOT EXISTS")
        return f"WITH w AS ({query}) SELECT * FROM w z WHERE {word_} ({within})"

    def recursive(self) -> str:
        """A recursive CTE whose first part asks."""
        table = self.pick("a", "b")
        columns = columns_of("r", STORED[table])
        first = f"SELECT r.id AS c0, r.t AS c1 FROM {mark('table', table)} r WHERE {self.condition(columns, 2, 2)}"
        union = mark("set", self.pick("UNION ALL", "UNION"))
        step = self.pick(
            "SELECT g.c0 + 1, g.c1 FROM g WHERE g.c0 < 4",
            f"SELECT s.n, s.t FROM g JOIN {mark('table', 'b')} s ON s.id = g.c0 + 1 WHERE g.c0 < 9 AND s.n > g.c0",
        )
        read = columns_of("g", [("c0", "int"), ("c1", "text")])
        where = f" WHERE {self.condition(read, 2, 2)}" if self.chance(60) else ""
        return f"WITH RECURSIVE g AS ({first} {union} {step}) SELECT g.c0 AS c0, g.c1 AS c1 FROM g{where}"

    def query(self) -> str:
        """A query."""
        match self.pick(*["select"] * 14, *["first"] * 2, "recursive"):
            case "first":
                return self.first_rows()
            case "recursive":
                return self.recursive()
        query, kinds = self.select(self.pick(2, 1, 2, 1, 2, 3))
        if self.chance(20):
            return self.with_query(query, kinds)
        return self.limited(query, kinds) if self.chance(25) else query

    def change(self) -> tuple[str, ...]:
        """What makes a table z, a statement that changes it, and a query of what is there then."""
        table = self.pick("b", "a", "c")
        columns = [Column(f"z.{name}", kind) for name, kind in STORED[table]]
        made = f"CREATE OR REPLACE TABLE {mark('table', 'z')} AS SELECT * FROM {mark('table', table)}"
        if self.rare and self.chance(70):
            return made, self.other_change(columns), f"SELECT * FROM {mark('table', 'z')}"
        where = self.condition(columns, 2) if self.chance(80) else ""
        text = self.pick(
            self.text(columns), self.label(columns), mark("either", self.call(columns), word("y"), "t")
        )
        source, _ = self.plain(2, ["int", "text"])
        z = mark("table", "z")
        statement = self.pick(
            *[mark("change", f"UPDATE {z} SET t = {text}", where)] * 3,
            *[mark("change", f"DELETE FROM {z}", where)] * 3,
            *[f"INSERT INTO {z} (id, t) {source}"] * 3,
            f"CREATE OR REPLACE TABLE {z} AS {source}",
        )
        return made, statement, f"SELECT * FROM {z}"

    def other_change(self, columns: Columns) -> str:
        """A change of table z by the rows of another query."""
        self.duckdb_only = True
        form = self.pick(*range(7))
        inner, _ = self.plain(2, ["int", "text"])
        source = f"(SELECT c0 AS i, min(c1) AS v FROM ({inner}) GROUP BY c0) s"
        both = [*columns, *columns_of("s", [("i", "int"), ("v", "text")])]
        return (
            f"MERGE INTO z USING {source} ON s.i = z.id WHEN MATCHED THEN UPDATE SET t = s.v "
            "WHEN NOT MATCHED THEN INSERT (id, t) VALUES (s.i, s.v)",
            f"MERGE INTO z USING {source} ON s.i = z.id WHEN MATCHED THEN DELETE",
            f"UPDATE z SET t = s.v FROM {source} WHERE s.i = z.id AND {self.condition(both, 1, 2)}",
            f"DELETE FROM z USING {source} WHERE s.i = z.id AND {self.condition(both, 1, 2)}",
            f"INSERT INTO z BY NAME SELECT i AS id, v AS t FROM {source}",
            f"DELETE FROM z WHERE id IN (SELECT i FROM {source} WHERE {self.call(both[-2:])})",
            f"UPDATE z SET t = (SELECT max(v) FROM {source} WHERE s.i = z.id AND {self.call(both)})",
        )[form]

    def view(self) -> tuple[str, ...]:
        """A view, and a query of it."""
        # Other dialects have no views with AI calls here.
        self.duckdb_only = True
        inner, kinds = self.select(2)
        columns = columns_of("z", [(f"c{n}", kind) for n, kind in enumerate(kinds)])
        source, all_columns = "v z", columns
        if self.chance(40):
            member, added = self.stored()
            both: Columns = [*columns, *added]
            source += f" {self.pick('JOIN', 'LEFT JOIN')} {member} ON {self.condition(both, 1, 2)}"
            all_columns = [*columns, *added]
        where = f" WHERE {self.condition(all_columns, 2, 2)}" if self.chance(70) else ""
        return f"CREATE OR REPLACE VIEW v AS {inner}", f"SELECT z.c0 AS c0 FROM {source}{where}"
