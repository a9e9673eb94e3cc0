"""Small tables with texts of given lengths, as SQL that makes them."""

from __future__ import annotations


def table(name: str, rows: int, low: int, high: int, more: str = "", column: str = "body") -> str:
    """Texts of `low` to `high` bytes that begin with something of their own."""
    body = (
        f"rpad(md5('{name}' || i), CAST({low} + hash(i) % {high - low + 1} AS INTEGER), md5('x{name}' || i))"
    )
    return f"CREATE TABLE {name} AS SELECT CAST(i AS INTEGER) AS id, {body} AS {column}{more} FROM range({rows}) r(i);"


def names(name: str, rows: int, low: int, high: int, more: str = "") -> str:
    """Short texts."""
    body = f"left(md5('{name}' || i), CAST({low} + hash(i) % {high - low + 1} AS INTEGER))"
    return f"CREATE TABLE {name} AS SELECT CAST(i AS INTEGER) AS id, {body} AS name{more} FROM range({rows}) r(i);"


TABLES = "\n".join(
    (
        table("reviews", 150, 60, 140, ", CAST(hash(i + 7) % 20 AS INTEGER) AS movie, i % 5 AS stars"),
        table("movies", 20, 40, 90, ", CAST(i % 6 AS INTEGER) AS genre"),
        names("genres", 6, 6, 12),
        names("aspects", 12, 6, 14),
        table("reports", 12, 400, 900, ", i % 3 AS year"),
        names("terms", 40, 4, 9),
        table("claims", 40, 20, 40, ", CAST(i % 30 AS INTEGER) AS topic"),
        table("evidence", 30, 50, 110, ", CAST(i % 30 AS INTEGER) AS topic"),
        table("citations", 30, 60, 120),
        table("passages", 26, 70, 130),
        "CREATE TABLE copies AS SELECT r.id, m.body FROM reviews r JOIN movies m ON r.movie = m.id;",
    )
)
