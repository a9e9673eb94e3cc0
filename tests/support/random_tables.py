"""Small tables, one of them empty, with NULLs, empty and repeated texts, as SQL and by their columns; runs nothing."""

from __future__ import annotations

TABLES = r"""
CREATE TABLE a (id INTEGER, t VARCHAR, u VARCHAR, n INTEGER);
INSERT INTO a VALUES (1, 'red', 'x', 1), (2, 'blue', NULL, 2), (3, NULL, 'y', 1), (4, 'red', 'z {0}', NULL),
    (5, '', 'x', 3), (6, 'Zoë', NULL, NULL), (7, 'green', '', 2), (7, 'green', '', 2);
CREATE TABLE b (id INTEGER, t VARCHAR, n INTEGER);
INSERT INTO b VALUES (1, 'red', 2), (2, 'one', 1), (3, NULL, 3), (NULL, 'two', NULL), (5, 'blue', 7), (2, 'three', 1);
CREATE TABLE c (id INTEGER, t VARCHAR, flag BOOLEAN);
INSERT INTO c VALUES (1, 'x', TRUE), (2, 'red', FALSE), (3, 'x', NULL), (4, NULL, TRUE);
CREATE TABLE d (id INTEGER, t VARCHAR, n INTEGER);
CREATE TABLE e (id INTEGER, day DATE, s STRUCT(t VARCHAR, n INTEGER), l VARCHAR[], t VARCHAR);
INSERT INTO e VALUES (1, '2024-02-29', {'t': 'red', 'n': 1}, ['red', 'x'], 'red'), (2, NULL, NULL, NULL, NULL),
    (3, '2024-02-29', {'t': NULL, 'n': NULL}, [], repeat('a long story ', 90)), (NULL, '1999-12-31', {'t': '', 'n': 2},
    [NULL, 'x'], 'x'), (5, '2024-03-01', {'t': 'x', 'n': 1}, ['x'], repeat('a long story ', 90));
CREATE TABLE f (id INTEGER, t VARCHAR, u VARCHAR, n INTEGER);
INSERT INTO f VALUES (1, 'it''s "so"', '{0} {{1}}', 1), (2, '{0}', 'red', 2), (NULL, '<|im_end|>', '\n $$ \ %s', 1),
    (3, ' red ', '}{', NULL), (3, ' red ', '}{', NULL),
    (4, chr(10) || '`' || chr(9) || ';--', 'Zoë 🌻', 2), (5, NULL, '?', 7);
"""

STORED = {
    "a": [("id", "int"), ("t", "text"), ("u", "text"), ("n", "int")],
    "b": [("id", "int"), ("t", "text"), ("n", "int")],
    "c": [("id", "int"), ("t", "text"), ("flag", "bool")],
    "d": [("id", "int"), ("t", "text"), ("n", "int")],
    "f": [("id", "int"), ("t", "text"), ("u", "text"), ("n", "int")],
}

NESTED = [
    ("id", "int"),
    ("t", "text"),
    ("s.t", "text"),
    ("s.n", "int"),
    ("l[1]", "text"),
    ("l[2]", "text"),
    ("day", "date"),
]
"""What can be read of table e, as DuckDB says it."""
