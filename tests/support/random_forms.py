"""Random SELECTs of rarer forms with AI calls (grouping sets, frames, PIVOT, scalar subqueries), as SQL; runs nothing.

What would depend on the order of rows is ordered by all columns: rows that are still equal cannot be told apart.
"""

from __future__ import annotations

from support.random_expressions import Columns
from support.random_sources import Sources


def everything(columns: Columns) -> str:
    """An order by all columns."""
    return ", ".join(f"{sql} NULLS LAST" for sql in dict.fromkeys(column.sql for column in columns))


class Forms(Sources):
    """Draws such SELECTs, in DuckDB's SQL alone."""

    def special(self, depth: int) -> tuple[str, list[str]]:
        """A query of a form that hardly any statement has."""
        self.duckdb_only = True
        form = self.pick(
            "frame", "sets", "on", "ordered set", "pivot", "scalar", "any", "aggregates", "unnest"
        )
        which = self.pick(*range(18))
        if form == "pivot":
            return self.pivot(depth)
        if form == "ordered set":
            return self.ordered_set(depth)
        source, columns = self.source(depth)
        tail = f"FROM {source}{self.where(columns, depth)}"
        match form:
            case "frame":
                return (
                    f"SELECT {self.of_kind('int', columns) or 1} AS c0, {self.framed(columns, which)} AS c1 {tail}",
                    [
                        "int",
                        "int",
                    ],
                )
            case "sets":
                return self.grouping_sets(tail, columns)
            case "on":
                key = self.pick(self.call, self.label)(columns)
                item = self.item(self.pick("int", "text"), columns, 1)
                order = f"ORDER BY {key}, {everything(columns)}"
                return f"SELECT * FROM (SELECT DISTINCT ON ({key}) {item} AS c0 {tail} {order})", ["text"]
            case "scalar":
                return f"SELECT {self.scalar(columns)} AS c0, {self.pick(*columns).sql} AS c1 {tail}", [
                    "int",
                    "text",
                ]
            case "any":
                member, own = self.stored()
                word = self.pick("= ANY", "<> ALL", ">= ANY", "= ALL")
                inner = self.of_kind("int", own)
                where = f"{self.cheap([*own, *columns])} AND {self.call(own)}"
                test = (
                    f"{self.of_kind('int', columns) or 1} {word} (SELECT {inner} FROM {member} WHERE {where})"
                )
                return f"SELECT {test} AS c0, {self.call(columns)} AS c1 {tail}", ["bool", "bool"]
            case "unnest":
                listed = f"unnest([{self.call(columns)}, {self.cheap(columns)}])"
                return f"SELECT {listed} AS c0, {self.of_kind('int', columns) or 1} AS c1 {tail}", [
                    "bool",
                    "int",
                ]
        return self.aggregates(tail, columns, which)

    def framed(self, columns: Columns, which: int) -> str:
        """A number over a window of which the frame, or the place in it, matters. which: of the 18 forms."""
        order = f"ORDER BY {everything(columns)}"
        call = self.call(columns)
        number = f"CASE WHEN {call} THEN 1 ELSE 0 END"
        partition = f"PARTITION BY {self.pick(self.call, self.cheap)(columns)} " if self.chance(40) else ""
        rows = ("ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", "ROWS 2 PRECEDING", "GROUPS 1 PRECEDING")[
            which // 6
        ]
        return (
            f"sum({number}) OVER ({partition}{order} {rows})",
            f"CAST(lag({call}) OVER ({partition}{order}) AS INTEGER)",
            f"count({call} OR NULL) OVER ({partition}ORDER BY {self.score(columns)} RANGE UNBOUNDED PRECEDING)",
            f"CAST(first_value({call} IGNORE NULLS) OVER ({partition}{order}) AS INTEGER)",
            f"sum({number}) FILTER (WHERE {self.call(columns)}) OVER ({partition}{order} {rows})",
            f"dense_rank() OVER ({partition}ORDER BY {call} NULLS FIRST)",
        )[which % 6]

    def grouping_sets(self, tail: str, columns: Columns) -> tuple[str, list[str]]:
        """Groups of several sets of keys."""
        first, second = self.call(columns), self.pick(self.pick(*columns).sql, self.label(columns))
        sets = self.pick(
            f"ROLLUP ({first}, {second})",
            f"CUBE ({first}, {second})",
            f"GROUPING SETS (({first}), ({second}), ())",
            f"GROUPING SETS (({first}, {second}), ({first}))",
        )
        having = f" HAVING {self.pick('count(*) > 1', f'{first} IS NOT FALSE')}" if self.chance(30) else ""
        named = self.pick(f"grouping({first})", "count(*)", f"count(*) FILTER (WHERE {self.call(columns)})")
        return (
            f"SELECT {first} AS c0, CAST({second} AS VARCHAR) AS c1, {named} AS c2 {tail} GROUP BY {sets}{having}",
            [
                "bool",
                "text",
                "int",
            ],
        )

    def ordered_set(self, depth: int) -> tuple[str, list[str]]:
        """A set operation with an order and a limit of its own."""
        left, kinds = self.plain(max(depth - 1, 1), ["int", "bool"])
        right, _ = self.plain(max(depth - 1, 1), ["int", "bool"])
        word = self.pick("UNION ALL", "UNION", "INTERSECT ALL", "EXCEPT ALL", "UNION BY NAME")
        text = f"({left}) {word} ({right}) ORDER BY 1 NULLS LAST, 2 NULLS FIRST LIMIT {self.pick(2, 3, 5)}"
        return f"SELECT * FROM ({text})", kinds

    def pivot(self, depth: int) -> tuple[str, list[str]]:
        """Answers turned into columns, or columns into rows."""
        if self.chance(40):
            inner, _ = self.plain(max(depth - 1, 1), ["bool", "bool"])
            return f"SELECT k AS c0, v AS c1 FROM ({inner}) UNPIVOT (v FOR k IN (c0, c1))", ["text", "bool"]
        inner, _ = self.plain(max(depth - 1, 1), ["int", "bool"])
        text = f"SELECT * FROM ({inner}) PIVOT (count(*) FOR c1 IN (TRUE AS yes, FALSE AS no) GROUP BY c0)"
        return f"SELECT c0, yes AS c1 FROM ({text})", ["int", "int"]

    def scalar(self, columns: Columns) -> str:
        """A subquery that gives one value."""
        member, own = self.stored()
        both = [*own, *own, *columns]
        inner = self.of_kind("int", own) or "1"
        where = f"{self.cheap(both)} AND {self.call(both)}"
        return self.pick(
            f"(SELECT max({inner}) FROM {member} WHERE {where})",
            f"(SELECT count(*) FROM {member} WHERE {where})",
            f"(SELECT bool_or({self.call(both)}) FROM {member} WHERE {self.cheap(both)})",
            f"(SELECT {inner} FROM {member} WHERE {where} ORDER BY {everything(own)} LIMIT 1)",
            f"CAST(EXISTS (SELECT 1 FROM {member} WHERE {where}) AS INTEGER)",
            f"(SELECT sum(CASE WHEN {self.call(both)} THEN 1 ELSE 0 END) FROM {member} HAVING count(*) > 1)",
        )

    def aggregates(self, tail: str, columns: Columns, which: int) -> tuple[str, list[str]]:
        """Aggregates with an order or a condition of their own."""
        number = self.of_kind("int", columns) or "1"
        call = self.call(columns)
        key = self.pick(self.call, self.cheap)(columns)
        found = (
            f"CAST(list({number} ORDER BY {everything(columns)}) FILTER (WHERE {call}) AS VARCHAR)",
            f"string_agg(CASE WHEN {call} THEN 'y' ELSE 'n' END, '' ORDER BY {everything(columns)})",
            f"CAST(histogram({call}) AS VARCHAR)",
            f"CAST(max({self.score(columns)}) > 0.5 AS VARCHAR)",
            f"CAST(bool_and({call}) AS VARCHAR)",
            f"max({self.label(columns)})",
        )[which % 6]
        return f"SELECT {key} AS c0, {found} AS c1 {tail} GROUP BY 1", ["bool", "text"]
