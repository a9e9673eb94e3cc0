"""Subqueries of which some rows decide: what ends their steps, that rows are DuckDB's, and that fewer are asked."""

from __future__ import annotations

import duckdb
import pytest
from covey_planner.physical import AskStep
from covey_planner.plan import PlanOptions, plan
from hypothesis import given
from hypothesis import strategies as st
from support.plan_reference import DOCUMENT_FIRST, MemoryCatalog, Reference
from test_plan_ending import check, physical
from test_plan_random import RELAXED

FITS = "AI_FILTER(PROMPT('{0} fits {1}', t.body, p.description))"
SOLD = "AI_FILTER('sold?', p.name)"
LATE = "AI_FILTER('late?', u.body)"
URGENT = "AI_FILTER('urgent?', t.body)"
LIST = "SELECT t.id, p.id FROM tickets t"
JOIN = f"{LIST} JOIN products p ON p.id = t.product WHERE"
T = "SELECT t.id FROM tickets t WHERE"
PRODUCTS = "(SELECT 1 FROM products p WHERE"
OTHERS = "(SELECT 1 FROM tickets u WHERE"
IDS = "(SELECT u.product FROM tickets u WHERE"
MORE = "u.product = t.product AND"


def ended(step: AskStep) -> object:
    """What may end a step: (anchor's matches, all matches), or (a group's matches, groups, absent) with a G."""
    if step.groups is not None:
        order = " ordered" if step.ordered else ""
        wanted = "" if step.groups.enough is None else f" {step.groups.enough}{order}"
        ranked = " in order" if step.groups.ranked else ""
        return f"G{step.groups.needed}{ranked}{wanted}{' absent' if step.groups.absent else ''}"
    each = f"A{step.each}" if step.exists else ""
    order = " ordered" if step.ordered else ""
    return f"{each} {'' if step.enough is None else step.enough}{order}".strip()


def in_full(database: duckdb.DuckDBPyConnection, sql: str) -> int:
    options = PlanOptions(DOCUMENT_FIRST, optimize=False)
    reference = Reference(database)
    reference.run(plan(sql, MemoryCatalog(database), options).physical)
    return len(reference.asked)


def verify(database: duckdb.DuckDBPyConnection, sql: str, ends: list[str], less: bool = True) -> None:
    steps = physical(database, sql).steps
    assert [ended(step) for step in steps] == ends, sql
    full = in_full(database, sql)
    asked = [check(database, sql, seed) for seed in range(4)]
    assert sum(asked) < 4 * full if less else max(asked) <= full, sql


@pytest.mark.parametrize(
    ("test", "needed"),
    [
        ("{} > 2", 3),
        ("{} >= 2", 2),
        ("{} < 3", 3),
        ("{} <= 1", 2),
        ("{} = 0", 1),
        ("0 = {}", 1),
        ("{} <> 0", 1),
        ("{} = 2", 3),
        ("2 < {}", 3),
        ("1 >= {}", 2),
        ("{} BETWEEN 1 AND 2", 3),
        ("{} NOT BETWEEN 0 AND 1", 2),
        ("{} IN (0, 2)", 3),
        ("NOT ({} > 1)", 2),
        ("({} > 1) = (t.id > 3)", 2),
    ],
)
@pytest.mark.parametrize("tie", ["u.product = t.product AND ", ""])
def test_counts(database: duckdb.DuckDBPyConnection, test: str, needed: int, tie: str) -> None:
    count = test.format(f"(SELECT count(*) FROM tickets u WHERE {tie}u.id < 30 AND {LATE})")
    verify(database, f"SELECT t.id FROM tickets t WHERE {count}", [f"G{needed}" if tie else f"{needed}"])


@pytest.mark.parametrize(
    ("sql", "ends"),
    [
        # About pairs: what an anchor meets is its own, or depends on more.
        (f"SELECT t.id, (SELECT count(*) FROM products p WHERE {FITS}) > 1 AS b FROM tickets t", ["A2"]),
        (f"{T} (SELECT count(*) > 1 FROM products p WHERE {FITS})", ["A2"]),
        (f"{T} (SELECT count(1) FROM products p WHERE p.id > t.product AND {FITS}) > 1", ["G2"]),
        (f"{T} EXISTS {PRODUCTS} p.id > t.product AND {FITS})", ["G1"]),
        (f"{T} NOT EXISTS {PRODUCTS} p.name <> t.note AND {FITS})", ["G1"]),
        (f"{T} {URGENT} AND EXISTS {PRODUCTS} p.id >= t.product AND {FITS})", ["", "G1"]),
        # The question is about rows of the subquery alone.
        (f"{T} EXISTS {OTHERS} {LATE})", ["1"]),
        (f"{T} NOT EXISTS {OTHERS} u.id < 5 AND {LATE})", ["1"]),
        (f"SELECT t.id, EXISTS {OTHERS} {MORE} {LATE}) AS e FROM tickets t", ["G1"]),
        (f"{T} t.id > 30 OR EXISTS (SELECT DISTINCT u.day FROM tickets u WHERE u.day = t.day AND {LATE})", ["G1"]),
        (f"{T} EXISTS (SELECT 1 FROM tickets u JOIN defects d USING (product) WHERE d.id = t.id AND {LATE})", ["G1"]),
        (f"{T} EXISTS {OTHERS} {MORE} t.id > 5 AND NOT {LATE})", ["G1"]),
        # IN: by value, and what makes it NULL.
        (f"{T} t.product IN {IDS} {LATE})", ["G1"]),
        (f"{T} t.product = ANY {IDS} {LATE})", ["G1"]),
        (f"{T} t.product NOT IN {IDS} {LATE})", ["G1"]),
        (f"{T} t.product NOT IN {IDS} u.product IS NOT NULL AND {LATE})", ["G1"]),
        (f"{T} t.product <> ALL {IDS} u.product > 2 AND {LATE})", ["G1"]),
        (f"SELECT t.id, t.product IN {IDS} u.id > 7 AND {LATE}) AS i FROM tickets t", ["G1"]),
        (f"SELECT t.id, t.product IN {IDS} u.day = t.day AND {LATE}) AS i FROM tickets t", ["G1"]),
        (f"{T} (t.product IN {IDS} u.day > t.day AND {LATE})) IS NULL", ["G1"]),
    ],
)  # fmt: skip
def test_rows(database: duckdb.DuckDBPyConnection, sql: str, ends: list[str]) -> None:
    verify(database, sql, ends)


@pytest.mark.parametrize(
    ("sql", "ends"),
    [
        (f"{T} EXISTS {PRODUCTS} {FITS}) LIMIT 3", ["A1 3"]),
        (f"{T} NOT EXISTS {PRODUCTS} p.id < 2 AND {FITS}) LIMIT 3", ["G1 3 absent"]),
        (f"{T} (SELECT count(*) FROM products p WHERE {FITS}) > 1 LIMIT 2 OFFSET 1", ["A2 3"]),
        (f"{T} (SELECT count(*) FROM products p WHERE {FITS}) < 2 LIMIT 2", ["A2"]),
        (f"{T} EXISTS {OTHERS} {MORE} {LATE}) LIMIT 3", ["G1 3"]),
        (f"{T} NOT EXISTS {OTHERS} {MORE} u.id > 30 AND {LATE}) LIMIT 3", ["G1 3 absent"]),
        (f"{T} t.product IN {IDS} {LATE}) LIMIT 4", ["G1 4"]),
        (f"{T} EXISTS {PRODUCTS} {FITS}) ORDER BY t.id DESC LIMIT 3", ["G1 3 ordered"]),
        (f"{T} NOT EXISTS {PRODUCTS} p.id < 2 AND {FITS}) ORDER BY t.id LIMIT 3", ["G1 3 ordered absent"]),
        (f"{T} t.product IN {IDS} {LATE}) ORDER BY t.product, t.id LIMIT 4", ["G1 4 ordered"]),
        (
            f"SELECT t.id, AI_FILTER('b?', t.body) AS b FROM tickets t"
            f" WHERE t.id > 2 AND NOT EXISTS {PRODUCTS} p.id < 2 AND {FITS}) LIMIT 3",
            ["G1 3 absent", ""],
        ),
    ],
)  # fmt: skip
def test_limits_over_subqueries(database: duckdb.DuckDBPyConnection, sql: str, ends: list[str]) -> None:
    verify(database, sql, ends)
    if "ORDER" in sql:
        for seed in range(4):
            _, rows = Reference(database, seed=seed).run(physical(database, sql))
            assert rows == database.execute(sql).fetchall()


@pytest.mark.parametrize(
    "sql",
    [
        # More than the number of rows, or more than these, decides.
        f"{T} (SELECT count(u.note) FROM tickets u WHERE {LATE}) > 1",
        f"{T} (SELECT count(*) FROM tickets u WHERE {LATE}) > t.id",
        f"{T} (SELECT count(*) FROM tickets u WHERE {LATE}) >= 0",
        f"{T} (SELECT sum(u.id) FROM tickets u WHERE {LATE}) > 1",
        f"SELECT (SELECT count(*) FROM tickets u WHERE {LATE}) AS n FROM tickets t",
        f"{T} (SELECT count(*) FROM tickets u WHERE {LATE} GROUP BY u.product LIMIT 1) > 1",
        f"{T} EXISTS (SELECT count(*) FROM tickets u WHERE {LATE})",
        f"{T} t.id IN (SELECT u.id + 1 FROM tickets u WHERE {LATE})",
        f"{T} t.product < ANY {IDS} {LATE})",
        f"{T} t.product IN (SELECT max(u.product) FROM tickets u WHERE {LATE} GROUP BY u.day)",
        f"{T} EXISTS {OTHERS} {MORE} {LATE} LIMIT 0)",
        # Rows that have an anchor in common meet others of the subquery's rows.
        f"SELECT t.id FROM tickets t, defects d WHERE EXISTS {PRODUCTS} p.id = d.product AND {FITS})",
    ],
)  # fmt: skip
def test_asked_in_full(database: duckdb.DuckDBPyConnection, sql: str) -> None:
    verify(database, sql, [""] * len(physical(database, sql).steps), less=False)


TOP = "SELECT u.id FROM tickets u WHERE"


@pytest.mark.parametrize(
    ("sql", "ends"),
    [
        (f"SELECT t.id, ({TOP} {MORE} {LATE} ORDER BY u.id DESC LIMIT 1) AS n FROM tickets t", ["G1 in order"]),
        (f"SELECT t.id, x.id FROM tickets t, LATERAL ({TOP} {MORE} {LATE} ORDER BY u.day, id LIMIT 2) x",
         ["G2 in order"]),
        (f"SELECT t.id, ({TOP} {LATE} ORDER BY abs(u.id - t.product * 9), u.id LIMIT 1) AS n FROM tickets t",
         ["G1 in order"]),
        (f"SELECT t.id, (SELECT p.id FROM products p WHERE {FITS} ORDER BY p.id LIMIT 1) AS n FROM tickets t",
         ["G1 in order"]),
        (f"SELECT t.id, (SELECT p.id FROM products p WHERE {FITS} AND p.id <> t.product ORDER BY p.cat, p.id DESC "
         "LIMIT 1 OFFSET 1) AS n FROM tickets t", ["G2 in order"]),
        (f"{T} t.id IN ({TOP} u.day = t.day AND {LATE} ORDER BY u.id LIMIT 2)", ["G2 in order"]),
        (f"{T} t.id > 20 AND t.id NOT IN ({TOP} {LATE} ORDER BY u.id DESC LIMIT 7)", ["7 ordered"]),
        (f"SELECT x.id FROM ({TOP} {LATE} ORDER BY u.id LIMIT 4) x", ["4 ordered"]),
        (f"SELECT t.id, ({TOP} {MORE} {LATE} ORDER BY AI_SCORE('b?', u.body), u.id LIMIT 1) AS n FROM tickets t "
         "WHERE t.id < 0", [""]),
        (f"SELECT t.id, ({TOP} {MORE} {LATE} ORDER BY random(), u.id LIMIT 1) > 0 AS n FROM tickets t", [""]),
    ],
)  # fmt: skip
def test_the_first_rows_for_each_row_around(
    database: duckdb.DuckDBPyConnection, sql: str, ends: list[str]
) -> None:
    assert [ended(step) for step in physical(database, sql).steps] == ends
    if ends == [""] or "SCORE" in sql:
        return
    full, asked = in_full(database, sql), 0
    expected = sorted(map(repr, database.execute(sql).fetchall()))
    for seed in range(4):
        reference = Reference(database, seed=seed)
        assert sorted(map(repr, reference.run(physical(database, sql))[1])) == expected
        asked += len(reference.asked)
    assert asked < 4 * full


OUTER = st.sampled_from(["TRUE", "t.id > 7", URGENT, f"NOT {URGENT}", f"({URGENT} OR t.id < 20)"])
TIES = st.sampled_from(["", "u.product = t.product", "u.day = t.day", "u.id < t.id", "u.product IS NULL"])
ASKED = st.sampled_from([LATE, f"NOT {LATE}",  f"({LATE} OR AI_FILTER('b?', u.body))",
    "AI_FILTER(PROMPT('{0} fits {1}', t.body, u.note))",
    "AI_FILTER(PROMPT('{0} fits {1}', u.note, t.body))"])  # fmt: skip
TESTS = st.sampled_from(["EXISTS (SELECT 1 {})", "NOT EXISTS (SELECT * {})", "t.product IN (SELECT u.product {})",
    "t.product NOT IN (SELECT u.product {})", "(SELECT count(*) {}) > 1", "(SELECT count(*) {}) < 2",
    "(t.product IN (SELECT u.product {})) IS NULL", "(SELECT count(*) {}) = 1"])  # fmt: skip
ENDS = st.sampled_from(
    ["", "", " LIMIT 2", " LIMIT 5", " ORDER BY t.id DESC LIMIT 4", " ORDER BY t.day, t.id LIMIT 3"]
)


@given(OUTER, TIES, ASKED, TESTS, ENDS, st.integers(0, 1000))
@RELAXED
def test_random(
    database: duckdb.DuckDBPyConnection, outer: str, tie: str, asked: str, test: str, end: str, seed: int
) -> None:
    where = " AND ".join(part for part in (tie, asked) if part)
    condition = test.format(f"FROM tickets u WHERE u.id % 3 = 0 AND {where}")
    sql = f"{T} {outer} AND {condition}{end}"
    check(database, sql, seed)
    if "ORDER" in end:
        _, rows = Reference(database, seed=seed).run(physical(database, sql))
        assert rows == database.execute(sql).fetchall(), sql


@pytest.mark.parametrize(
    ("sql", "ends"),
    [
        (f"{JOIN} {URGENT} ORDER BY p.name, t.id LIMIT 3", ["3 ordered"]),
        (f"{JOIN} {SOLD} ORDER BY t.id DESC LIMIT 3", ["3 ordered"]),
        (f"{JOIN} {FITS} ORDER BY t.id LIMIT 3", ["G1 3 ordered"]),
        (f"{LIST} JOIN products p ON p.id >= t.product WHERE {FITS} ORDER BY p.name, 1, 2 LIMIT 2", ["G1 2 ordered"]),
        (f"{LIST} LEFT JOIN products p ON p.id = t.product WHERE {URGENT} ORDER BY t.id DESC LIMIT 3", ["3 ordered"]),
        (f"{JOIN} {SOLD} AND {FITS} ORDER BY t.id LIMIT 2", ["", "G1 2 ordered"]),
        # Nothing says whose key it is, or in which order the texts' rows come.
        (f"{JOIN} {URGENT} ORDER BY day, t.id LIMIT 3", [""]),
        (f"SELECT t.id, p.id FROM tickets t, products p WHERE {URGENT} ORDER BY p.name, t.id, p.id LIMIT 3", [""]),
        (f"{LIST} JOIN products p ON {FITS} ORDER BY t.id, p.id LIMIT 3", ["3 ordered"]),
        (f"{LIST} JOIN products p ON {FITS} ORDER BY p.id, t.id LIMIT 3", ["3 ordered"]),
        (f"{LIST} JOIN products p ON {FITS} ORDER BY p.cat DESC, t.day, p.id, t.id LIMIT 2", ["2 ordered"]),
        (f"{LIST} CROSS JOIN products p LEFT JOIN defects d ON d.id = p.id WHERE {FITS} "
         "ORDER BY d.title DESC, t.id, p.id LIMIT 3", ["3 ordered"]),
        (f"{LIST} JOIN products p ON {FITS} ORDER BY p.id + t.id, t.id LIMIT 3", [""]),
    ],
)  # fmt: skip
def test_the_first_rows_of_joins(database: duckdb.DuckDBPyConnection, sql: str, ends: list[str]) -> None:
    assert [ended(step) for step in physical(database, sql).steps] == ends
    expected = database.execute(sql).fetchall()
    asked = 0
    for seed in range(4):
        reference = Reference(database, seed=seed)
        assert reference.run(physical(database, sql))[1] == expected
        asked += len(reference.asked)
    assert asked < 4 * in_full(database, sql) or ends == [""]
