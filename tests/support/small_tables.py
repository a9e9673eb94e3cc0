"""A small database for planner tests: duplicates, NULLs, a collation, a view, a schema, lists and blobs."""

from __future__ import annotations

import duckdb

_WORDS = (
    "late",
    "broken",
    "refund",
    "thanks",
    "crash",
    "Spam",
    "SPAM",
    "the box",
    "login {0}",
    "it's",
    "größer",
)


def build(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the tables."""
    connection.execute(
        "CREATE TABLE tickets (id INTEGER, body VARCHAR, note VARCHAR, product INTEGER, day DATE,"
        " score DOUBLE, tags VARCHAR[], raw BLOB, folded VARCHAR COLLATE NOCASE)"
    )
    connection.execute("CREATE TABLE products (id INTEGER, name VARCHAR, description VARCHAR, cat VARCHAR)")
    connection.execute("CREATE TABLE defects (id INTEGER, product INTEGER, title VARCHAR)")
    connection.execute(
        'CREATE TABLE "odd table" ("the text" VARCHAR, "select" INTEGER, k0 VARCHAR, answer BOOLEAN)'
    )
    for n in range(36):
        word = _WORDS[n % len(_WORDS)]
        body = None if n % 9 == 4 else f"{word} {n % 13}"
        note = None if n % 5 == 1 else f"note {word}"
        connection.execute(
            "INSERT INTO tickets VALUES (?, ?, ?, ?, DATE '2024-01-01' + CAST(? AS INTEGER), ?, [?], ?, ?)",
            [
                n,
                body,
                note,
                None if n % 11 == 3 else n % 6,
                n % 10,
                [0.0, -0.0, 1.5][n % 3],
                word,
                b"x",
                word,
            ],
        )
    for n in range(7):
        connection.execute(
            "INSERT INTO products VALUES (?, ?, ?, ?)",
            [n, f"product {n % 5}", None if n == 5 else f"it does {n % 4}", None if n == 6 else "abc"[n % 3]],
        )
    for n in range(9):
        connection.execute("INSERT INTO defects VALUES (?, ?, ?)", [n, n % 7, f"defect {n % 6}"])
    connection.execute(
        """INSERT INTO "odd table" SELECT 'odd ' || i, i, 'k ' || (i % 3), i % 2 = 0 FROM range(6) r(i)"""
    )
    connection.execute(
        "CREATE VIEW open_tickets AS SELECT id AS ticket, body AS words FROM tickets WHERE id % 2 = 0"
    )
    connection.execute("CREATE TABLE empty_table (id INTEGER, body VARCHAR)")
