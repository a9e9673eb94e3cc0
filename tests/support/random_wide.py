"""Random statements of wider forms (layers of subqueries, views of views, ordered joins, lambdas, changes), as SQL with
marks; runs nothing.
"""

from __future__ import annotations

from support.random_expressions import Column, Columns, columns_of, word
from support.random_forms import everything
from support.random_shared import Shared
from support.random_spelling import mark
from support.random_tables import STORED


class Wide(Shared):
    """Draws such statements, the last of them a query."""

    def wide(self) -> tuple[str, ...]:
        """Statements of any form."""
        match self.pick(*["query"] * 3, "change", "view", *["one"] * 9, "views", "changes", "changes"):
            case "query":
                return (self.query(),)
            case "change":
                return self.change()
            case "view":
                return self.view()
            case "views":
                return self.views()
            case "changes":
                return self.changes()
        form = self.pick(
            self.layers, self.layers, self.read_outside, self.case_groups, self.limited_sets, self.ordered_join,
            self.ordered_join, self.chain, self.numbered, self.lambdas, self.cases, self.values, self.in_subqueries,
        )  # fmt: skip
        return (form(),)

    # Queries

    def test(self, columns: Columns, member: str, own: Columns, where: str) -> str:
        """A condition on the rows of a member of FROM."""
        outer, inner = self.of_kind("int", columns) or "1", self.of_kind("int", own) or "1"
        return self.pick(
            f"EXISTS (SELECT 1 FROM {member} WHERE {where})",
            f"NOT EXISTS (SELECT 1 FROM {member} WHERE {where})",
            f"{outer} IN (SELECT {inner} FROM {member} WHERE {where})",
            f"{outer} NOT IN (SELECT {inner} FROM {member} WHERE {where})",
            f"(SELECT count(*) FROM {member} WHERE {where}) {self.pick('> 1', '= 0', '>= 2', '< 2')}",
            f"{outer} >= (SELECT max({inner}) FROM {member} WHERE {where})",
            f"(SELECT {mark('any_true', self.call([*own, *columns]))} FROM {member} WHERE {where})",
        )

    def linked(self, own: Columns, around: Columns) -> str:
        """A cheap condition that as a rule reads both."""
        left, right = self.of_kind("int", own), self.of_kind("int", around)
        if left is None or right is None or self.chance(30):
            return self.cheap([*own, *around])
        return f"{left} {self.pick('=', '<>', '<', '>=')} {right}"

    def layers(self) -> str:
        """A subquery in a subquery, the inner one of which reads all rows around it."""
        (one, first), (two, second), (three, third) = self.stored(), self.stored(), self.stored()
        inner = self.test(
            [*second, *first],
            three,
            third,
            f"{self.linked(third, first)} {self.pick('AND', 'OR')} {self.call([*third, *third, *second, *first])}",
        )
        join = self.pick("AND", "AND", "OR")
        outer = f"{self.linked(second, first)} AND ({inner} {join} {self.call([*second, *first])})"
        where = self.test(first, two, second, outer)
        if self.chance(30):
            where = f"({where} {self.pick('AND', 'OR')} {self.call(first)})"
        item = self.pick(self.pick(*first).sql, self.call(first), f"CASE WHEN {where} THEN 1 ELSE 0 END")
        return f"SELECT {item} AS c0 FROM {one} WHERE {where}"

    def read_outside(self) -> str:
        """A derived table, or a set operation, in a subquery that reads the row around it."""
        (one, first), (two, second) = self.stored(), self.stored()
        alias = self.name()
        own = columns_of(alias, [("v", "text"), ("k", "int")])
        text, number = self.text(second), self.of_kind("int", second) or "1"
        where = f"{self.linked(second, first)} AND {self.call([*second, *self.pick(second, first)])}"
        inner = f"SELECT {text} AS v, {number} AS k FROM {two} WHERE {where}"
        if self.chance(40):
            three, third = self.stored()
            more = (
                f"SELECT {self.text(third)} AS v, {self.of_kind('int', third) or 1} AS k FROM {three} WHERE "
            )
            inner += f" {mark('set', self.pick('UNION ALL', 'UNION', 'EXCEPT'))} {more}{self.call([*third, *first])}"
        elif self.chance(20):
            inner = f"SELECT max(v) AS v, k FROM ({inner}) {alias}i GROUP BY k"
        condition = self.pick(self.linked(own, first), self.call([*own, *first]), "1 = 1")
        test = self.test(first, f"({inner}) {alias}", own, condition)
        return f"SELECT {self.pick(*first).sql} AS c0, {self.pick(test, '1')} AS c1 FROM {one} WHERE {test}"

    def case_groups(self) -> str:
        """Groups by a CASE over answers."""
        source, columns = self.source(self.pick(1, 1, 2))
        one, other = self.call(columns), self.call(columns)
        key = self.pick(
            f"CASE WHEN {one} THEN {word('yes')} WHEN {other} THEN {word('or')} ELSE {word('no')} END",
            f"CASE WHEN {self.cheap(columns)} THEN {self.label(columns)} ELSE {word('none')} END",
            f"CASE {self.label(columns)} WHEN {word('a')} THEN {word('A')} WHEN {word('b')} "
            f"THEN {self.text(columns)} END",
            f"CASE WHEN {one} AND {other} THEN {word('both')} WHEN {one} OR {other} THEN {word('one')} END",
        )
        count = self.aggregate(columns)
        tail = f"FROM {source}{self.where(columns, 1)}"
        having = f" HAVING {self.pick('count(*) > 1', mark('any_true', other))}" if self.chance(40) else ""
        group = self.pick("1", key)
        order = f" ORDER BY {self.pick(key, '1')} NULLS LAST" if self.chance(30) else ""
        return f"SELECT {key} AS c0, {mark('as_int', count)} AS c1 {tail} GROUP BY {group}{having}{order}"

    def limited_sets(self) -> str:
        """Set operations whose branches have limits of their own."""
        kinds = self.pick(["int", "bool"], ["text", "int"])
        branches = [f"({self.limited_part(kinds)})" for _ in range(self.pick(2, 2, 3))]
        text = branches[0]
        for branch in branches[1:]:
            text = f"{text} {mark('set', self.pick('UNION ALL', 'UNION', 'EXCEPT', 'INTERSECT'))} {branch}"
            text = f"({text})" if len(branches) > 2 else text
        if self.chance(50):
            columns = columns_of("z", [("c0", kinds[0]), ("c1", kinds[1])])
            return f"SELECT * FROM ({text}) z WHERE {self.condition(columns, 1, 2)}"
        return f"SELECT * FROM ({text}) z"

    def limited_part(self, kinds: list[str]) -> str:
        """A query, with its first rows as a rule."""
        query, _ = self.plain(1, kinds)
        if self.chance(25):
            return query
        offset = self.pick("", "", " OFFSET 1")
        return f"{query} ORDER BY 1 NULLS LAST, 2 NULLS FIRST LIMIT {self.pick(1, 2, 4, 0)}{offset}"

    def ordered_join(self) -> str:
        """The first rows of a join, by keys of either side."""
        one, first = self.stored()
        two, second = self.stored()
        both = [*first, *second]
        on = self.pick(self.linked(second, first), self.call(both), self.condition(both, 1, 2))
        source = f"{one} {self.pick('JOIN', 'JOIN', 'LEFT JOIN', 'FULL JOIN')} {two} ON {on}"
        if self.chance(25):
            three, third = self.stored()
            source += f" {self.pick('JOIN', 'LEFT JOIN')} {three} ON {self.linked(third, both)}"
            both = [*both, *third]
        keys = [
            self.pick(
                f"{self.pick(*first).sql} {self.pick('DESC NULLS LAST', 'NULLS FIRST')}",
                f"{self.pick(*second).sql} {self.pick('NULLS LAST', 'DESC NULLS FIRST')}",
                f"{self.pick(self.call, self.score, self.label)(self.pick(both, first, second))} DESC NULLS LAST",
            )
            for _ in range(self.pick(1, 2, 0))
        ]
        order = ", ".join([*keys, everything(both)])
        where = (
            f" WHERE {self.pick(self.call, self.cheap)(self.pick(both, first, second))}"
            if self.chance(70)
            else ""
        )
        items = f"{self.pick(*both).sql} AS c0, {self.pick(self.call(both), self.pick(*both).sql)} AS c1"
        offset = self.pick("", "", " OFFSET 1", " OFFSET 3")
        return f"SELECT {items} FROM {source}{where} ORDER BY {order} LIMIT {self.pick(1, 2, 3, 6)}{offset}"

    def chain(self) -> str:
        """CTEs that read CTEs, read in subqueries and joins."""
        query, kinds = self.plain(1, ["int", "text", "bool"])
        stored = list(zip(("c0", "c1", "c2"), kinds, strict=True))
        w = columns_of("w", stored)
        second = f"SELECT c0, c1, {self.call(w)} AS c2 FROM w WHERE {self.condition(w, 1, 2)}"
        x, y = columns_of("x", stored), columns_of("y", stored)
        tail = self.pick(
            f"FROM x WHERE {self.call(x)}",
            f"FROM x JOIN w y ON {self.condition([*x, *y], 1, 2)}",
            f"FROM x WHERE {self.test(x, 'w y', y, self.call([*y, *x]))}",
            f"FROM x LEFT JOIN w y ON y.c0 = x.c0 AND {self.call([*x, *y])}",
        )
        return f"WITH w AS ({query}), x AS ({second}) SELECT x.c0 AS c0, x.c2 AS c1 {tail}"

    def numbered(self) -> str:
        """The first rows of each group, by a number over a window."""
        source, columns = self.source(self.pick(1, 1, 2))
        partition = (
            f"PARTITION BY {self.pick(self.pick(*columns).sql, self.call(columns), self.label(columns))} "
        )
        key = self.pick("", f"{self.score(columns)} DESC NULLS LAST, ", f"{self.call(columns)} NULLS FIRST, ")
        window = f"OVER ({self.pick(partition, '')}ORDER BY {key}{everything(columns)})"
        function = self.pick("row_number()", "rank()", "row_number()")
        item = self.pick(self.pick(*columns).sql, self.call(columns))
        if self.chance(60):
            wanted = self.pick("<= 2", "= 1", "BETWEEN 2 AND 3")
            more = f" AND {self.call(columns)}" if self.chance(30) else ""
            where = self.where(columns, 1)
            return f"SELECT {item} AS c0 FROM {source}{where} QUALIFY {function} {window} {wanted}{more}"
        inner = f"SELECT {item} AS c0, {function} {window} AS k FROM {source}{self.where(columns, 1)}"
        return f"SELECT z.c0 AS c0 FROM ({inner}) z WHERE z.k <= 2"

    def lambdas(self) -> str:
        """Questions about each value of a list."""
        self.duckdb_only = True
        member, columns = self.stored()
        values = [self.text(columns) for _ in range(self.pick(2, 1, 3))]
        listed = self.pick(
            f"[{', '.join(values)}]", "[]::VARCHAR[]" if self.chance(10) else f"[{values[0]}, NULL]"
        )
        each = [Column("each", "text"), *self.pick((), columns)]
        asked = self.call(each)
        item = self.pick(
            f"CAST(list_filter({listed}, lambda each: {asked}) AS VARCHAR)",
            f"CAST(list_transform({listed}, lambda each: {asked}) AS VARCHAR)",
            f"len(list_filter({listed}, lambda each: {self.cheap(each[:1])} AND {asked}))",
            f"CAST([each FOR each IN {listed} IF {asked}] AS VARCHAR)",
            f"list_contains(list_transform({listed}, lambda each: {self.label(each)}), 'a')",
        )
        where = f" WHERE {self.call(columns)}" if self.chance(40) else ""
        return f"SELECT {self.pick(*columns).sql} AS c0, {item} AS c1 FROM {member}{where}"

    def cases(self) -> str:
        """A CASE with several answers, in several places."""
        source, columns = self.source(self.pick(1, 2))
        one, two, three = self.call(columns), self.call(columns), self.call(columns)
        case = self.pick(
            f"CASE WHEN {one} THEN {two} WHEN {three} THEN {self.cheap(columns)} ELSE NOT {two} END",
            f"CASE WHEN {self.cheap(columns)} THEN {one} ELSE {two} END",
            f"(CASE WHEN {one} THEN {self.score(columns)} WHEN {two} THEN 0.2 END > 0.5)",
            f"(CASE WHEN {one} THEN {self.text(columns)} ELSE {self.label(columns)} END = {word('a')})",
            f"CASE WHEN {one} THEN CASE WHEN {two} THEN {three} ELSE {self.cheap(columns)} END "
            f"WHEN {three} THEN {one} END",
        )
        return self.pick(
            f"SELECT {self.pick(*columns).sql} AS c0, {case} AS c1 FROM {source}{self.where(columns, 1)}",
            f"SELECT {self.pick(*columns).sql} AS c0 FROM {source} WHERE {case}",
            f"SELECT {self.pick(*columns).sql} AS c0, {one} AS c1 FROM {source} WHERE {case} OR {self.cheap(columns)}",
            f"SELECT {mark('count_if', case)} AS c0 FROM {source}",
        )

    def values(self) -> str:
        """Answers about constants, and rows of them."""
        member, columns = self.stored()
        rows = [
            mark("row", str(n), self.pick(word("red"), word("it's"), mark("as_text", "NULL")))
            for n in range(3)
        ]
        alias = self.name()
        own = columns_of(alias, [("id", "int"), ("t", "text")])
        constant = mark("asked_of", "FILTER", self.question(), self.pick(word("red"), word(""), "NULL"))
        condition = self.pick(f"{constant} OR {self.call(own)}", self.call([*own, *columns]), constant)
        return (
            f"SELECT {constant} AS c0, {self.pick(*columns).sql} AS c1 FROM {mark('rows', alias, *rows)} JOIN {member} "
            f"ON {self.linked(own, columns)} WHERE {condition}"
        )

    def in_subqueries(self) -> str:
        """Subqueries in the SELECT list, in CASE and in ORDER BY."""
        (one, first), (two, second) = self.stored(), self.stored()
        where = f"{self.linked(second, first)} AND {self.call([*second, *self.pick(second, first)])}"
        test = self.test(first, two, second, where)
        count = f"(SELECT count(*) FROM {two} WHERE {where})"
        return self.pick(
            f"SELECT {self.pick(*first).sql} AS c0, {count} AS c1 FROM {one} WHERE {count} > 0",
            f"SELECT CASE WHEN {test} THEN {self.call(first)} END AS c0 FROM {one}",
            f"SELECT {self.pick(*first).sql} AS c0 FROM {one} ORDER BY {count} DESC, {everything(first)} LIMIT 3",
            f"SELECT {test} AS c0, count(*) AS c1 FROM {one} GROUP BY 1",
            f"SELECT {self.pick(*first).sql} AS c0 FROM {one} GROUP BY 1 HAVING count(*) > (SELECT count(*) FROM {two} "
            f"WHERE {self.call(second)})",
        )

    # Views and changes

    def views(self) -> tuple[str, ...]:
        """A view of a view, and a query of both."""
        self.duckdb_only = True
        kinds = ["int", "text"]
        inner = self.pick(self.plain(1, kinds)[0], self.plain(2, kinds)[0], self.limited_part(kinds))
        v, w = (columns_of(name, [("c0", "int"), ("c1", "text")]) for name in "vw")
        middle = self.pick(
            f"SELECT v.c0, v.c1 FROM v WHERE {self.call(v)}",
            f"SELECT c0, max(c1) AS c1 FROM v WHERE {self.condition(v, 1, 2)} GROUP BY c0",
            f"SELECT c0, c1 FROM v UNION ALL SELECT id, t FROM b WHERE {mark('asked_of', 'FILTER', 'p?', 't')}",
            f"SELECT v.c0, {self.label(v)} AS c1 FROM v",
            f"SELECT v.c0, r0.t AS c1 FROM v JOIN a r0 ON {self.call([*v, *columns_of('r0', STORED['a'])])}",
        )
        end = self.pick(
            f"SELECT * FROM w WHERE {self.condition(w, 2)}",
            f"SELECT w.c0 AS c0 FROM w JOIN v ON {self.condition([*w, *v], 1, 2)}",
            f"SELECT w.c1 AS c0 FROM w WHERE {self.test(w, 'v', v, self.call([*v, *w]))}",
            f"SELECT w.c0 AS c0, count(*) AS c1 FROM w WHERE {self.call(w)} GROUP BY 1",
        )
        return f"CREATE OR REPLACE VIEW v AS {inner}", f"CREATE OR REPLACE VIEW w AS {middle}", end

    def changes(self) -> tuple[str, ...]:
        """Changes of table z that are rarer, one or two."""
        table = self.pick("b", "a", "f", "d")
        z, columns = mark("table", "z"), [Column(f"z.{name}", kind) for name, kind in STORED[table]]
        made = f"CREATE OR REPLACE TABLE {z} AS SELECT * FROM {mark('table', table)}"
        one = [self.changed(z, columns) for _ in range(self.pick(1, 1, 2))]
        return made, *one, f"SELECT * FROM {z}"

    def changed(self, z: str, columns: list[Column]) -> str:
        """One of them."""
        member, own = self.stored()
        test = self.test(
            columns, member, own, f"{self.linked(own, columns)} AND {self.call([*own, *columns])}"
        )
        source, _ = self.plain(1, ["int", "text"])
        form = self.pick(*range(10))
        self.duckdb_only = self.duckdb_only or form >= 6
        return (
            mark("change", f"DELETE FROM {z}", test),
            mark(
                "change",
                f"UPDATE {z} SET t = {self.text(columns)}, n = CASE WHEN {self.call(columns)} THEN 1 END",
                test,
            ),
            f"INSERT INTO {z} (id, t) {self.limited_part(['int', 'text'])}",
            f"INSERT INTO {z} (t, id) SELECT {self.label(columns)}, z.id + 1 FROM {z} WHERE {self.call(columns)}",
            mark(
                "change",
                f"UPDATE {z} SET id = {mark('tokens', self.text(columns))}",
                self.condition(columns, 1),
            ),
            f"INSERT INTO {z} (id, t) {source} {mark('set', 'UNION ALL')} {self.plain(1, ['int', 'text'])[0]}",
            f"INSERT INTO z (id, t) VALUES (1, CASE WHEN {mark('asked_of', 'FILTER', 'p?', word('red'))} THEN 'y' END)",
            f"INSERT INTO z (id, t) WITH w AS ({source}) SELECT c0, c1 FROM w WHERE c1 IS NOT NULL",
            f"MERGE INTO z USING (SELECT c0 AS i, min(c1) AS v FROM ({source}) GROUP BY c0) s ON s.i = z.id "
            "WHEN MATCHED AND s.v > 'm' THEN DELETE WHEN MATCHED THEN UPDATE SET t = s.v "
            "WHEN NOT MATCHED THEN INSERT (id, t) VALUES (s.i, s.v)",
            f"DELETE FROM z WHERE (z.id, z.t) IN (SELECT c0, c1 FROM ({source}))",
        )[form]
