"""What planning knows about data and answers: records, and the questions a source of them answers; runs nothing.

Every figure says whether it is exact. A source never runs the model and answers within milliseconds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from covey_planner.call import Argument, Call
from covey_planner.physical import CallKey, Given, TextArgument

__all__ = [
    "DEFAULT",
    "CallKey",
    "Count",
    "Counted",
    "Counting",
    "Foreseeing",
    "KeyOverlap",
    "Lengths",
    "Pinned",
    "Selectivity",
    "Statistics",
    "TokenCount",
    "call_key",
    "hinted",
]


@dataclass(frozen=True)
class Count:
    """A number of rows or values. exact: counted; otherwise estimated."""

    value: float
    exact: bool


@dataclass(frozen=True)
class TokenCount:
    """Tokens of a text column (NULLs have none).

    rows: rows with a text; distinct: different texts; total: tokens of all rows; distinct_total: tokens of the
    different texts, each once; mean: tokens a different text. exact: counted in the token column; otherwise estimated
    from the column's bytes.
    """

    rows: float
    distinct: float
    total: float
    distinct_total: float
    mean: float
    exact: bool


@dataclass(frozen=True)
class Lengths:
    """Tokens of some texts: how many texts, the sum of their lengths, and the sum of the squares of these.

    exact: as they stand in a token column; otherwise estimated from bytes. each: mean tokens over all tuples of a
    domain, where a text may stand in several; None for the mean over the texts. shared, shared_squares: tokens that
    texts have in common with another one's beginning, of each the most, and the sum of their squares.
    """

    texts: float
    total: float
    squares: float
    exact: bool
    each: float | None = None
    shared: float = 0.0
    shared_squares: float = 0.0

    @property
    def mean(self) -> float:
        """Tokens a text."""
        return self.total / self.texts if self.texts else 0.0


@dataclass(frozen=True)
class Counted:
    """The rows behind a domain: how many, how many distinct tuples of arguments without NULL, and of each argument
    the lengths over the distinct tuples of it and the arguments before it.
    """

    rows: Count
    tuples: Count
    lengths: tuple[Lengths, ...]


@dataclass(frozen=True)
class KeyOverlap:
    """How two columns of an equi-join match: distinct values of either, and how many they have in common."""

    left: float
    right: float
    common: float
    exact: bool

    def join_rows(self, left_rows: float, right_rows: float) -> float:
        """Rows of the equi-join, where every value has equally many rows on its side."""
        if not self.left or not self.right:
            return 0.0
        return self.common * (left_rows / self.left) * (right_rows / self.right)


@dataclass(frozen=True)
class Selectivity:
    """The share of true answers, between `low` and `high` with 95 % certainty, who says so, and from how many."""

    value: float
    low: float
    high: float
    source: Literal["remembered", "sample", "hint", "default"]
    answers: int = 0

    @property
    def origin(self) -> str:
        """Who says so, in words."""
        if not self.answers:
            return self.source
        how = "sampled" if self.source == "sample" else f"{self.source} from"
        return f"{how} {self.answers:,} answers"


DEFAULT = Selectivity(0.5, 0.05, 0.95, "default")
"""Of a question nobody knows anything about."""


def hinted(value: float) -> Selectivity:
    """A user's hint, believed within a factor of two."""
    return Selectivity(value, value / 2, min(2 * value, 1 - (1 - value) / 2), "hint")


def call_key(call: Call) -> CallKey:
    """The identity of a call beyond its statement: aliases do not count."""
    parts = (f"{{{part}}}" if isinstance(part, int) else part for part in call.template.parts)
    labels = "".join(f"\n{label}" for label in call.labels)
    test = " | ".join(call.accepted or ()) if call.above is None else str(call.above)
    return CallKey("".join(parts) + labels, tuple(map(_named, call.arguments)), call.kind, test)


def _named(argument: Argument) -> str:
    return (
        argument.known or argument.sql
        if argument.table is None
        else f"{argument.table}.{argument.column}".lower()
    )


class Statistics(Protocol):
    """A source of figures about one state of the database. Names are as stored; unknown ones are a caller's fault."""

    def rows(self, table: str) -> Count:
        """Rows of a table (exact) or a view."""
        ...

    def distinct(self, table: str, column: str) -> Count:
        """Different values of a column, NULL not counted."""
        ...

    def tokens(self, table: str, column: str) -> TokenCount:
        """Tokens of a text column."""
        ...

    def overlap(self, left: tuple[str, str], right: tuple[str, str]) -> KeyOverlap:
        """How two columns, each a (table, column), match in an equi-join."""
        ...

    def matching(self, sql: str) -> Count:
        """Rows of an AI-free query; of a cheap predicate: `SELECT 1 FROM "t" AS a WHERE predicate`."""
        ...

    def selectivity(self, key: CallKey, hint: float | None = None) -> Selectivity:
        """The share of true answers: remembered, else from a sample, else the hint, else DEFAULT."""
        ...


class Counting(Statistics, Protocol):
    """Statistics from which the steps of a physical plan are estimated."""

    def domain(self, given: Given, arguments: Sequence[TextArgument]) -> Counted:
        """What a domain holds before anything is answered."""
        ...

    def tuples(self, given: Given) -> Count:
        """Distinct tuples without NULL of the arguments that some rows yield."""
        ...


@runtime_checkable
class Foreseeing(Protocol):
    """Statistics that are found faster when it is known beforehand which ones are needed."""

    def foresee(self, keys: Collection[tuple[str, str]], texts: Collection[tuple[str, str]]) -> None:
        """Of columns (table, column): keys are compared with each other, texts are asked about."""
        ...


@dataclass(frozen=True)
class Pinned:
    """Statistics written down: for plans whose figures must not depend on data. What is not given is a guess.

    tables: rows. columns: distinct values by (table, column). texts: tokens by (table, column). overlaps: by the two
    columns. queries: rows by SQL. answers: shares of true answers by key.
    """

    tables: Mapping[str, float] = field(default_factory=dict)
    columns: Mapping[tuple[str, str], float] = field(default_factory=dict)
    texts: Mapping[tuple[str, str], TokenCount] = field(default_factory=dict)
    overlaps: Mapping[tuple[tuple[str, str], tuple[str, str]], KeyOverlap] = field(default_factory=dict)
    queries: Mapping[str, float] = field(default_factory=dict)
    answers: Mapping[CallKey, Selectivity] = field(default_factory=dict)

    def rows(self, table: str) -> Count:
        """As given, else 1,000."""
        return Count(self.tables.get(table, 1000.0), table in self.tables)

    def distinct(self, table: str, column: str) -> Count:
        """As given, else every row has its own value."""
        place = table, column
        return Count(self.columns.get(place, self.rows(table).value), place in self.columns)

    def tokens(self, table: str, column: str) -> TokenCount:
        """As given, else 100 tokens a text."""
        found = self.texts.get((table, column))
        if found is not None:
            return found
        rows, distinct = self.rows(table).value, self.distinct(table, column).value
        return TokenCount(rows, distinct, 100 * rows, 100 * distinct, 100.0, exact=False)

    def overlap(self, left: tuple[str, str], right: tuple[str, str]) -> KeyOverlap:
        """As given, else the smaller side's values are all on the other."""
        found = self.overlaps.get((left, right))
        if found is not None:
            return found
        ours, theirs = self.distinct(*left).value, self.distinct(*right).value
        return KeyOverlap(ours, theirs, min(ours, theirs), exact=False)

    def matching(self, sql: str) -> Count:
        """As given, else 1,000."""
        return Count(self.queries.get(sql, 1000.0), sql in self.queries)

    def selectivity(self, key: CallKey, hint: float | None = None) -> Selectivity:
        """As given, else the hint, else DEFAULT."""
        return self.answers.get(key, DEFAULT if hint is None else hinted(hint))

    def domain(self, given: Given, arguments: Sequence[TextArgument]) -> Counted:
        """As given for the rows and the columns; of a computed text, 100 tokens."""
        found = [
            self.tokens(argument.table, argument.column)
            for argument in arguments
            if argument.table is not None and argument.column is not None
        ]
        most = max((tokens.distinct for tokens in found), default=1000.0)
        rows = self.queries.get(given.rows, max((tokens.rows for tokens in found), default=1000.0))
        count = min(rows, most)
        exact = bool(found) and all(tokens.exact for tokens in found)
        means = [tokens.mean for tokens in found] or [100.0] * len(arguments)
        lengths = tuple(Lengths(count, count * mean, count * mean * mean, exact) for mean in means)
        return Counted(Count(rows, exact), Count(count, exact), lengths)

    def tuples(self, given: Given) -> Count:
        """As given for the rows."""
        return self.matching(given.rows)
