"""The shapes of queries, as text: after the peer's benchmark (QUAIL-B) and what else analysts ask."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property


def _table(name: str, rows: int, low: int, high: int, more: str = "", column: str = "body") -> str:
    """Texts of `low` to `high` bytes that begin with something of their own."""
    body = (
        f"rpad(md5('{name}' || i), CAST({low} + hash(i) % {high - low + 1} AS INTEGER), md5('x{name}' || i))"
    )
    return f"CREATE TABLE {name} AS SELECT CAST(i AS INTEGER) AS id, {body} AS {column}{more} FROM range({rows}) r(i);"


def _name(name: str, rows: int, low: int, high: int, more: str = "") -> str:
    """Short texts."""
    body = f"left(md5('{name}' || i), CAST({low} + hash(i) % {high - low + 1} AS INTEGER))"
    return f"CREATE TABLE {name} AS SELECT CAST(i AS INTEGER) AS id, {body} AS name{more} FROM range({rows}) r(i);"


TABLES = "\n".join(
    (
        _table("reviews", 150, 60, 140, ", CAST(hash(i + 7) % 20 AS INTEGER) AS movie, i % 5 AS stars"),
        _table("movies", 20, 40, 90, ", CAST(i % 6 AS INTEGER) AS genre"),
        _name("genres", 6, 6, 12),
        _name("aspects", 12, 6, 14),
        _table("reports", 12, 400, 900, ", i % 3 AS year"),
        _name("terms", 40, 4, 9),
        _table("claims", 40, 20, 40, ", CAST(i % 30 AS INTEGER) AS topic"),
        _table("evidence", 30, 50, 110, ", CAST(i % 30 AS INTEGER) AS topic"),
        _table("citations", 30, 60, 120),
        _table("passages", 26, 70, 130),
        "CREATE TABLE copies AS SELECT r.id, m.body FROM reviews r JOIN movies m ON r.movie = m.id;",
    )
)


@dataclass(frozen=True)
class Shape:
    """A query shape; its questions hold their numbers as `Q1?`."""

    name: str
    sql: str

    @cached_property
    def questions(self) -> tuple[int, ...]:
        """The numbers of its yes/no questions."""
        return tuple(dict.fromkeys(int(number) for number in re.findall(r"Q(\d+)\?", self.sql)))


def f(number: int, column: str) -> str:
    """A filter."""
    return f"AI_FILTER('Q{number}?', {column})"


def j(number: int, one: str, other: str) -> str:
    """A question about pairs."""
    return f"AI_FILTER(PROMPT('Q{number}? {{0}} {{1}}', {one}, {other}))"


def q(name: str, tables: str, *where: str, select: str = "count(*)", tail: str = "") -> Shape:
    return Shape(name, f"SELECT {select} FROM {tables} WHERE {' AND '.join(where)} {tail}".strip())


R, A, RA = "reviews r", "aspects a", "reviews r, aspects a"
P, T, PT = "reports p", "terms t", "reports p, terms t"
C, E, CE = "claims c", "evidence e", "claims c, evidence e"
L, G, LG = "citations l", "passages g", "citations l, passages g"
MOOD = "AI_CLASSIFY(r.body, ['good', 'bad', 'mixed', 'none']) = 'good'"
ORGAN = "AI_CLASSIFY(p.body, ['heart', 'lung', 'liver', 'skin', 'bone']) = 'heart'"


def _exists(number: int, table: str, one: str, other: str, more: str = "") -> str:
    return f"EXISTS (SELECT 1 FROM {table} WHERE {more}{j(number, one, other)})"


SHAPES = (
    # The peer's: IMDB
    q("imdb-1", R, f(1, "r.body")),
    q("imdb-2", RA, j(1, "r.body", "a.name")),
    q("imdb-3", RA, f(1, "r.body"), j(2, "r.body", "a.name")),
    q("imdb-4", RA, f(1, "r.body"), f(2, "r.body"), j(3, "r.body", "a.name")),
    q("imdb-5", RA, f(1, "r.body"), f(2, "r.body"), f(3, "r.body"), j(4, "r.body", "a.name")),
    q("imdb-6", R, f(1, "r.body"), f(2, "r.body")),
    q("imdb-7", R, f(1, "r.body"), f(2, "r.body"), f(3, "r.body")),
    q("imdb-8", "reviews r, aspects a, genres g", j(1, "r.body", "a.name"), j(2, "r.body", "g.name")),
    q(
        "imdb-9",
        "reviews r, aspects a, movies m, genres g",
        j(1, "r.body", "a.name"),
        j(2, "m.body", "a.name"),
        j(3, "m.body", "g.name"),
    ),
    q(
        "imdb-10",
        "reviews r, aspects a, movies m, genres g",
        f(4, "r.body"),
        j(1, "r.body", "a.name"),
        j(2, "m.body", "a.name"),
        j(3, "m.body", "g.name"),
    ),
    q("imdb-12", R, MOOD, f(1, "r.body")),
    q("imdb-13", RA, MOOD, j(1, "r.body", "a.name")),
    # BIO
    q("bio-1", P, f(1, "p.body")),
    q("bio-2", PT, j(1, "p.body", "t.name")),
    q("bio-2 turned", PT, j(1, "t.name", "p.body")),
    q("bio-3", PT, f(1, "p.body"), j(2, "p.body", "t.name")),
    q(
        "bio-4",
        "reports p, terms t, aspects a",
        f(1, "p.body"),
        f(2, "p.body"),
        f(3, "t.name"),
        j(4, "p.body", "t.name"),
        j(5, "p.body", "a.name"),
    ),
    q("bio-6", PT, ORGAN, j(1, "p.body", "t.name")),
    # FEVER
    q("fev-2", CE, j(1, "c.body", "e.body")),
    q("fev-3", CE, f(1, "c.body"), j(2, "c.body", "e.body")),
    q("fev-4", CE, f(1, "c.body"), f(2, "c.body"), j(3, "c.body", "e.body")),
    q("fev-5", CE, f(1, "c.body"), f(2, "e.body"), j(3, "c.body", "e.body")),
    q("fev-6", CE, f(1, "c.body"), f(2, "e.body"), f(3, "e.body"), j(4, "c.body", "e.body")),
    q("fev-7", CE, j(1, "c.body", "e.body"), j(2, "c.body", "e.body")),
    q(
        "fev-8",
        "claims c, evidence e, terms t, aspects a",
        j(1, "c.body", "e.body"),
        j(2, "e.body", "t.name"),
        j(3, "t.name", "a.name"),
    ),
    q(
        "fev-9",
        "claims c, evidence e, terms t, aspects a",
        f(1, "c.body"),
        f(2, "e.body"),
        f(3, "t.name"),
        f(4, "a.name"),
        j(5, "c.body", "e.body"),
        j(6, "e.body", "t.name"),
        j(7, "t.name", "a.name"),
    ),
    q("fev-10", CE, "c.topic = e.topic", f(1, "c.body"), f(2, "e.body"), j(3, "c.body", "e.body")),
    # LePaRD
    q("lep-2", LG, j(1, "l.body", "g.body")),
    q("lep-3", LG, f(1, "l.body"), j(2, "l.body", "g.body")),
    q("lep-4", LG, f(1, "l.body"), f(2, "l.body"), j(3, "l.body", "g.body")),
    q("lep-5", LG, j(1, "l.body", "g.body"), f(2, "l.body"), f(3, "g.body")),
    # Joins before filters, keys, stars
    q("join first", RA, j(1, "a.name", "r.body"), f(2, "r.body")),
    q(
        "key",
        "reviews r, movies m",
        "r.movie = m.id",
        f(1, "r.body"),
        f(2, "m.body"),
        j(3, "r.body", "m.body"),
    ),
    q(
        "key chain",
        "reviews r, movies m, genres g",
        "r.movie = m.id",
        "m.genre = g.id",
        f(1, "r.body"),
        f(2, "m.body"),
        f(3, "g.name"),
    ),
    q(
        "key chain, ends",
        "reviews r, movies m, genres g",
        "r.movie = m.id",
        "m.genre = g.id",
        f(1, "m.body"),
        j(2, "r.body", "g.name"),
    ),
    q(
        "key and plain",
        "reviews r, movies m",
        "r.movie = m.id",
        "r.stars > 2",
        f(1, "m.body"),
        f(2, "r.body"),
    ),
    q("copies", "copies k, aspects a", f(1, "k.body"), j(2, "k.body", "a.name")),
    q(
        "star of 3",
        "reports p, terms t, aspects a, genres g",
        j(1, "p.body", "t.name"),
        j(2, "p.body", "a.name"),
        j(3, "p.body", "g.name"),
    ),
    q(
        "star with filters",
        "movies m, terms t, aspects a",
        f(1, "m.body"),
        f(2, "t.name"),
        j(3, "m.body", "t.name"),
        j(4, "m.body", "a.name"),
    ),
    q(
        "other column",
        "reviews r, movies m",
        "r.movie = m.id",
        f(1, "r.body"),
        f(2, "r.body"),
        f(3, "m.body"),
        f(4, "m.body"),
    ),
    q(
        "interleaved",
        "reviews r, movies m",
        "r.movie = m.id",
        f(1, "r.body"),
        f(2, "m.body"),
        f(3, "r.body"),
        f(4, "m.body"),
    ),
    q("either", R, f"({f(1, 'r.body')} OR {f(2, 'r.body')} OR {f(3, 'r.body')})"),
    q("either and", R, f"({f(1, 'r.body')} OR {f(2, 'r.body')})", f(3, "r.body"), f"NOT {f(4, 'r.body')}"),
    # Semi-joins
    q("exists", R, _exists(1, A, "r.body", "a.name")),
    q("exists turned", R, _exists(1, A, "a.name", "r.body")),
    q("filter and exists", R, f(1, "r.body"), _exists(2, A, "r.body", "a.name")),
    q("exists and filter", R, _exists(1, A, "r.body", "a.name"), f(2, "r.body")),
    q("two exists", P, _exists(1, T, "p.body", "t.name"), _exists(2, A, "p.body", "a.name")),
    q("not exists", P, f"NOT {_exists(1, T, 'p.body', 't.name')}", f(2, "p.body")),
    q("exists by key", "movies m", _exists(1, R, "m.body", "r.body", "r.movie = m.id AND "), f(2, "m.body")),
    # Groups and values
    q(
        "groups",
        RA,
        f(1, "r.body"),
        j(2, "r.body", "a.name"),
        select="a.name, count(*)",
        tail="GROUP BY a.name",
    ),
    q(
        "groups by key",
        "reviews r, movies m",
        "r.movie = m.id",
        f(1, "r.body"),
        f(2, "m.body"),
        select="m.id, count(*)",
        tail="GROUP BY m.id",
    ),
    q("value", RA, f(1, "r.body"), f(2, "a.name"), select=f"r.id, a.id, {j(3, 'a.name', 'r.body')}"),
    q(
        "counted answers",
        CE,
        "c.topic = e.topic",
        f(1, "e.body"),
        select=f"{j(2, 'c.body', 'e.body')} AS s, count(*)",
        tail="GROUP BY s",
    ),
)
