"""Statistics of stored tables: DuckDB's own and the token columns' in, counts out; never runs the model.

What is small is counted; what is not, as far as a budget of time goes. For the rest DuckDB's estimates are taken, and
the figures say so.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import InitVar, dataclass, field, replace

import duckdb
from covey_storage.data_files import quoted
from covey_storage.library import TokenLibrary
from covey_storage.numbers import numbers

from covey_planner.cost.duck_figures import SECONDS, DuckFigures
from covey_planner.cost.kept import KeptFigures
from covey_planner.cost.keyed import firsts, grouped, keys, summed
from covey_planner.cost.ranges import dense, inside
from covey_planner.cost.ratios import Ratios
from covey_planner.cost.statistics import (
    DEFAULT,
    Count,
    Counted,
    KeyOverlap,
    Selectivity,
    TokenCount,
    hinted,
)
from covey_planner.cost.text_lengths import TextLengths
from covey_planner.cost.together import Wanted, find
from covey_planner.lowering.domains import VALUE
from covey_planner.physical import CallKey, Given, TextArgument

_BYTES = 8 << 20
"""Bytes of text that are counted whatever the budget is."""

_TINY = 1_000
"""Rows of a table in which keys are counted even if their range tells how many there are."""


@dataclass
class StoredStatistics:
    """Statistics of what one cursor sees; made for one statement. in_transaction: the cursor must not be interrupted.

    answers: what is known of questions asked before. left: seconds for what may take time. kept: what was found for
    other statements. What was found once is kept, failures too.
    """

    cursor: InitVar[duckdb.DuckDBPyConnection]
    library: TokenLibrary
    in_transaction: InitVar[bool] = False
    answers: Mapping[CallKey, Selectivity] = field(default_factory=dict)
    left: InitVar[float] = SECONDS
    kept: InitVar[KeptFigures | None] = None
    duck: DuckFigures = field(init=False)
    _texts: TextLengths = field(init=False)
    _domains: dict[object, Counted] = field(default_factory=dict)
    _matching: dict[str, Count] = field(default_factory=dict)
    _distincts: dict[tuple[str, str], Count] = field(default_factory=dict)
    _overlaps: dict[tuple[tuple[str, str], tuple[str, str]], KeyOverlap] = field(default_factory=dict)
    _failures: dict[str, duckdb.Error] = field(default_factory=dict)

    def __post_init__(
        self, cursor: duckdb.DuckDBPyConnection, in_transaction: bool, left: float, kept: KeptFigures | None
    ) -> None:
        self.duck = DuckFigures(cursor, in_transaction, left, KeptFigures() if kept is None else kept)
        self._texts = TextLengths(self.duck, self.library, Ratios(self.duck, self.library.tokenizer))

    def within(
        self, cursor: duckdb.DuckDBPyConnection, answers: Mapping[CallKey, Selectivity]
    ) -> StoredStatistics:
        """The same figures for a statement that runs, in the transaction of its cursor, with other answers."""
        found = copy(self)
        found.answers, found.duck = answers, replace(self.duck, cursor=cursor, in_transaction=True)
        found._texts = self._texts.within(found.duck)
        return found

    def foresee(self, keys: Collection[tuple[str, str]], texts: Collection[tuple[str, str]]) -> None:
        """Find together what a statement needs of stored columns (table, column). keys: those that it compares; texts:
        those that it asks about.
        """
        places = [*keys, *texts]
        # What cannot be asked of one of them is said when that one is needed.
        with suppress(duckdb.Error):
            self.duck.tables(table for table, _ in places)
            self.duck.columns(places)
            self._texts.ratios.foresee(place for place in texts if self.library.built(*place) is None)
            left = self.duck.rows_left
            wanted = [*map(self._distinct_key, keys), *map(self._whole_text, texts)]
            self.duck.rows_left = left
            find(
                [each for each in wanted if each is not None and self.duck.known(each.key) is None], self.duck
            )

    def _distinct_key(self, place: tuple[str, str]) -> Wanted | None:
        """The count of a column's different values, where they are counted."""
        table, column = place
        source = self.duck.table(table)
        if source.rows > _TINY and dense(self.duck.column(table, column)) is not None:
            return None
        if not self._few_bytes([place], self.rows(table).value) or not self.duck.small(source):
            return None
        sql = f"SELECT count(DISTINCT {quoted(column)}) FROM {quoted(table)}"
        return Wanted(("distinct", table, column), source.tables, sql, 1, lambda row: row[0])

    def _whole_text(self, place: tuple[str, str]) -> Wanted | None:
        """The domain of a column's texts, where it is counted, and none of them is tokenized."""
        given, argument = _all_texts(*place)
        source = self.duck.table(place[0])
        counted = source.whole and self._texts.column(argument) is None
        if not counted or not self._few_bytes([place], source.scanned) or not self.duck.small(source):
            return None
        key = ("domain", given.rows, (place,), (-1,))
        return Wanted(
            key, source.tables, summed(given.rows), 4, lambda row: self._of_sums(row, given, argument)
        )

    def rows(self, table: str) -> Count:
        """Rows of a table, exact; of a view as of a query."""
        return self.matching(f"SELECT 1 FROM {quoted(table)}")

    def distinct(self, table: str, column: str) -> Count:
        """Different values, counted where the table is small, else by a sketch of the whole column."""
        place = table, column
        if place not in self._distincts:
            self._distincts[place] = self._differing(table, column)
        return self._distincts[place]

    def _differing(self, table: str, column: str) -> Count:
        counted = self._distinct_key((table, column))
        if counted is not None:
            number = self.duck.remember(counted.key, counted.tables, lambda: self._asked(counted.sql))
            return Count(number, exact=True)
        stats, rows = self.duck.column(table, column), self.rows(table).value
        # What DuckDB keeps is a sketch of a sample, seen to be off by a factor of up to three.
        kept = stats.get("approx_unique")
        found = None if kept is None else dense(stats) or self.duck.sketch(table, column)
        return Count(min(found or kept or rows, rows), exact=False)

    def _asked(self, sql: str) -> float:
        """A number that takes no time."""
        ((found,),) = self.duck.ask(sql, sure=True) or ((0.0,),)
        return float(found)

    def tokens(self, table: str, column: str) -> TokenCount:
        """Tokens of a text column: of all texts where the table is small and its token column holds them."""
        given, argument = _all_texts(table, column)
        found = self.domain(given, (argument,))
        lengths, rows, texts = found.lengths[0], found.rows.value, found.tuples.value
        exact = lengths.exact and found.tuples.exact
        return TokenCount(rows, texts, lengths.mean * rows, lengths.total, lengths.mean, exact)

    def overlap(self, left: tuple[str, str], right: tuple[str, str]) -> KeyOverlap:
        """Distinct values and, by how the two ranges overlap, common ones; counted where both tables are small."""
        if (left, right) not in self._overlaps:
            self._overlaps[left, right] = self._meeting(left, right)
        return self._overlaps[left, right]

    def _meeting(self, left: tuple[str, str], right: tuple[str, str]) -> KeyOverlap:
        ours, theirs = self.distinct(*left), self.distinct(*right)
        if (
            ours.exact
            and theirs.exact
            and all(self.duck.small(self.duck.table(side[0])) for side in (left, right))
        ):
            here, there = (
                f"SELECT {quoted(column)} AS v FROM {quoted(table)}" for table, column in (left, right)
            )
            sql = f"SELECT count(DISTINCT a.v) FROM ({here}) a SEMI JOIN ({there}) b ON a.v = b.v"
            tables = {**self.duck.table(left[0]).tables, **self.duck.table(right[0]).tables}
            common = self.duck.remember(("common", left, right), tables, lambda: self._asked(sql))
            return KeyOverlap(ours.value, theirs.value, common, exact=True)
        one, other = (self.duck.column(*side) for side in (left, right))
        share = min(inside(one, other) * ours.value, inside(other, one) * theirs.value)
        return KeyOverlap(ours.value, theirs.value, share, exact=False)

    def matching(self, sql: str) -> Count:
        """Rows of an AI-free query: counted if that is quick, else estimated by DuckDB."""
        if sql in self._failures:
            raise self._failures[sql]
        if sql not in self._matching:
            try:
                self._matching[sql] = self.duck.count(sql)
            except duckdb.Error as error:
                # Asked again within a transaction, it would abort it.
                self._failures[sql] = error
                raise
        return self._matching[sql]

    def selectivity(self, key: CallKey, hint: float | None = None) -> Selectivity:
        """Remembered, else the hint, else the default."""
        return self.answers.get(key, DEFAULT if hint is None else hinted(hint))

    def domain(self, given: Given, arguments: Sequence[TextArgument]) -> Counted:
        """What a domain holds: counted, with the lengths from the token columns, where the tables are small."""
        columns = tuple((argument.table, argument.column) for argument in arguments)
        # All rows of a table are the same ones whatever it is called.
        whole = self.duck.outline(given.counted).whole and None not in {table for table, _ in columns}
        place = ("" if whole else given.rows), columns
        if place not in self._domains:
            self._domains[place] = self._count(given, arguments) or self._guess(given, arguments)
            if whole and len(columns) == 1 and self._domains[place].tuples.exact:
                ((table, column),) = columns
                self._distincts[str(table), str(column)] = self._domains[place].tuples
        return self._domains[place]

    def tuples(self, given: Given) -> Count:
        """Distinct tuples of the arguments: counted where the tables are small, else no more than there are rows."""
        if self.duck.small(self.duck.outline(given.counted)):
            place, tables = ("tuples", given.rows), self.duck.outline(given.counted).tables
            return Count(self.duck.remember(place, tables, lambda: self._differing_tuples(given)), exact=True)
        rows = self.matching(given.counted)
        return Count(rows.value, exact=False)

    def _differing_tuples(self, given: Given) -> float:
        count = len(self.duck.cursor.sql(given.rows).columns)
        return self._asked(f"SELECT count(*) FROM ({grouped(given.rows, count)}) AS __covey_q")

    def _count(self, given: Given, arguments: Sequence[TextArgument]) -> Counted | None:
        """Count a domain; None where it is too large."""
        expected = self.duck.outline(given.counted)
        stored = [(each.table, each.column) for each in arguments if each.table and each.column]
        if not self._few_bytes(stored, expected.scanned) or not self.duck.small(expected):
            return None
        columns = [self._texts.column(argument) for argument in arguments]
        # With more tokenized texts it may be another one.
        sizes = tuple(-1 if column is None else len(column) for column in columns)
        place = ("domain", given.rows, tuple(stored), sizes)
        find = self._summed if columns == [None] else self._grouped
        return self.duck.remember(place, expected.tables, lambda: find(given, arguments))

    def _summed(self, given: Given, arguments: Sequence[TextArgument]) -> Counted:
        """A domain of one argument of which no text is tokenized."""
        found = self.duck.ask(summed(given.rows), sure=True)
        return self._of_sums(list(map(float, found[0])) if found else [0.0] * 4, given, arguments[0])

    def _of_sums(self, sums: Sequence[float], given: Given, argument: TextArgument) -> Counted:
        rows, texts = sums[:2]
        lengths = self._texts.by_bytes(argument, given, sums)
        return Counted(Count(rows, exact=True), Count(texts, exact=True), (lengths,))

    def _grouped(self, given: Given, arguments: Sequence[TextArgument]) -> Counted:
        """A domain by the keys of its texts."""
        found = self.duck.cursor.sql(grouped(given.rows, len(arguments))).to_arrow_table()
        rows = int(numbers(found["n"]).sum())
        held = [keys(found[f"k{n}"]) for n in range(len(arguments))]
        lengths = tuple(
            self._texts.by_keys(
                argument,
                f"SELECT {VALUE}{n} AS text FROM ({given.rows}) AS __covey_d",
                held[n],
                numbers(found[f"b{n}"]),
                firsts(held[: n + 1]),
                first=n == 0,
            )
            for n, argument in enumerate(arguments)
        )
        return Counted(Count(rows, exact=True), Count(found.num_rows, exact=True), lengths)

    def _guess(self, given: Given, arguments: Sequence[TextArgument]) -> Counted:
        """A domain by DuckDB's estimates."""
        rows = self.matching(given.counted)
        distinct = [self._distinct_among(argument, rows.value) for argument in arguments]
        tuples = min(rows.value, math.prod(distinct))
        lengths = tuple(
            self._texts.guessed(argument, given, n, min(rows.value, math.prod(distinct[: n + 1])), self.rows)
            for n, argument in enumerate(arguments)
        )
        return Counted(rows, Count(tuples, exact=False), lengths)

    def _distinct_among(self, argument: TextArgument, rows: float) -> float:
        """Different texts among some rows of a column: those expected if each is equally likely in each row."""
        if argument.table is None or argument.column is None:
            return rows
        every, texts = self.rows(argument.table).value, self.distinct(argument.table, argument.column).value
        if not every or not texts or rows >= every:
            return min(texts, rows)
        return texts * (1.0 - float((1.0 - rows / every) ** (every / texts)))

    def _few_bytes(self, columns: Iterable[tuple[str, str]], rows: float) -> bool:
        sizes = (self.duck.column(*place).get("total_string_length") or 16 * rows for place in columns)
        return sum(sizes) <= _BYTES


def _all_texts(table: str, column: str) -> tuple[Given, TextArgument]:
    """All texts of a column as a domain."""
    source = quoted(table)
    rows = f"SELECT {quoted(column)} AS {VALUE}0 FROM {source}"
    return Given(rows, frozenset(), alike=f"SELECT 1 FROM {source}"), TextArgument(column, "", table, column)
