"""Steps that end early: which statements have them, that rows are DuckDB's, and that fewer prompts are asked.

The reference executor asks as little as a step allows, in an order that a seed gives, so that an answer which is
missing where it matters shows in the rows.
"""

from __future__ import annotations

import re
from collections import Counter

import duckdb
import pytest
from covey_planner.physical import PhysicalPlan
from covey_planner.plan import PlanOptions, plan
from hypothesis import given, settings
from hypothesis import strategies as st
from support.plan_reference import DOCUMENT_FIRST, MemoryCatalog, Reference
from test_plan_random import CHEAP, RELAXED, TICKET, trees

FITS = "AI_FILTER(PROMPT('{0} fits {1}', t.body, p.description))"
A = "AI_FILTER('a?', body)"
HAS = "AI_FILTER(PROMPT('{0} has {1}', p.name, d.title))"
WAS = "AI_FILTER(PROMPT('{0} was {1}', t.body, p.description))"


def physical(database: duckdb.DuckDBPyConnection, sql: str) -> PhysicalPlan:
    return plan(sql, MemoryCatalog(database), PlanOptions(DOCUMENT_FIRST)).physical


def endings(database: duckdb.DuckDBPyConnection, sql: str) -> list[object]:
    """What may end each step: True for an anchor's first match, a number of matches, None."""
    return [True if step.exists else step.enough for step in physical(database, sql).steps]


def run(database: duckdb.DuckDBPyConnection, sql: str, seed: int = 0) -> tuple[list[tuple[object, ...]], int]:
    """Rows by the plan, and the number of prompts asked."""
    reference = Reference(database, seed=seed)
    _, rows = reference.run(physical(database, sql))
    return rows, len(reference.asked)


def check(database: duckdb.DuckDBPyConnection, sql: str, seed: int) -> int:
    """Compare with plain DuckDB, any rows being right under a LIMIT; the number of prompts asked."""
    rows, asked = run(database, sql, seed)
    unlimited = re.sub(r" LIMIT \d+( OFFSET \d+)?$", "", sql)
    expected = Counter(map(repr, database.execute(unlimited).fetchall()))
    found = Counter(map(repr, rows))
    if unlimited == sql:
        assert found == expected, sql
        return asked
    wanted = database.execute(sql).fetchall()
    assert found <= expected, sql
    assert len(rows) == len(wanted), sql
    return asked


@pytest.mark.parametrize(
    ("inner", "ending"),
    [
        (f"SELECT 1 FROM products p WHERE {FITS}", [True]),
        (f"SELECT * FROM products p WHERE NOT {FITS}", [True]),
        (f"SELECT p.id, NULL FROM products p WHERE p.id > 1 AND {FITS}", [True]),
        (f"SELECT 1 FROM products p WHERE {FITS} AND NOT {WAS}", [True]),
        (f"SELECT 1 FROM products p WHERE {FITS} OR {WAS}", [True]),
        (f"SELECT 1 FROM products p JOIN defects d ON d.product = p.id WHERE {FITS}", [True]),
        (f"SELECT 1 FROM products p LEFT JOIN defects d ON d.product = p.id WHERE {FITS}", [True]),
        (f"SELECT 1 FROM products p WHERE {FITS} ORDER BY p.id LIMIT 2", [True]),
        (f"SELECT 1 FROM products p WHERE AI_FILTER('e?', p.name) AND {FITS} AND t.id > 3", [None, True]),
        # The rows of one anchor meet different partners.
        (f"SELECT 1 FROM products p WHERE p.id = t.product AND {FITS}", [None]),
        (f"SELECT 1 FROM products p WHERE p.name <> t.note AND {FITS}", [None]),
        (f"SELECT 1 FROM products p WHERE p.id IN (SELECT product FROM defects) AND {FITS}", [None]),
        (f"SELECT 1 FROM products p JOIN defects d ON d.id = t.id AND d.product = p.id WHERE {FITS}", [None]),
        # The anchor is the subquery's own, or both sides are.
        ("SELECT 1 FROM products p WHERE AI_FILTER(PROMPT('{0} has {1}', p.name, t.body))", [None]),
        ("SELECT 1 FROM products p WHERE AI_FILTER(PROMPT('{0} {1} {2}', t.body, p.name, p.cat))", [True]),
        # One match does not say whether there is a row.
        (f"SELECT count(*) FROM products p WHERE {FITS}", [None]),
        (f"SELECT sum(p.id) FROM products p WHERE {FITS} HAVING count(*) > 2", [None]),
        (f"SELECT p.cat FROM products p WHERE {FITS} GROUP BY p.cat", [None]),
        (f"SELECT 1 FROM products p WHERE {FITS} LIMIT 1 OFFSET 1", [True]),
        (f"SELECT unnest([p.id]) FROM products p WHERE {FITS}", [None]),
        (f"SELECT 1 FROM products p WHERE random() < 2 AND {FITS}", [None]),
        # Another question is asked about the pairs that are true, or the same one elsewhere.
        (f"SELECT 1 FROM products p, defects d WHERE {FITS} AND {HAS}", [None, None]),
        (f"SELECT 1 FROM products p WHERE {FITS} AND (p.id > 3 OR {FITS})", [None, None]),
        (f"SELECT 1 FROM products p LEFT JOIN defects d ON d.product = t.product WHERE {FITS}", [None]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("word", ["EXISTS", "NOT EXISTS"])
def test_exists(database: duckdb.DuckDBPyConnection, word: str, inner: str, ending: list[object]) -> None:
    sql = f"SELECT t.id FROM tickets t WHERE t.id > 1 AND {word} ({inner})"
    assert endings(database, sql) == ending
    for seed in range(4):
        check(database, sql, seed)


@pytest.mark.parametrize(
    ("sql", "ending"),
    [
        ("SELECT id FROM tickets t WHERE AI_FILTER('a?', body) LIMIT 3", [3]),
        ("SELECT id, upper(body) AS b FROM tickets t WHERE AI_FILTER('a?', body) AND id > 4 LIMIT 3 OFFSET 2", [5]),
        ("SELECT id FROM tickets t WHERE NOT AI_FILTER('a?', body) LIMIT 3", [3]),
        ("SELECT id FROM tickets t WHERE AI_FILTER('a?', body) OR NOT AI_FILTER('b?', body) LIMIT 2", [2]),
        ("SELECT id FROM tickets t WHERE AI_FILTER('a?', note) AND AI_FILTER('b?', body) LIMIT 2", [None, 2]),
        ("SELECT id FROM tickets t WHERE AI_FILTER('a?', body) LIMIT 0", [0]),
        ("SELECT id FROM tickets t WHERE AI_FILTER('a?', body) LIMIT 1000", [1000]),
        (f"SELECT t.id, p.id FROM tickets t JOIN products p ON {FITS} LIMIT 4", [4]),
        (f"SELECT t.id, p.id FROM tickets t JOIN products p ON p.id = t.product AND {FITS} LIMIT 4", [4]),
        (f"SELECT t.id, d.id FROM tickets t LEFT JOIN defects d USING (product) WHERE {A} LIMIT 4", [4]),
        (f"WITH few AS (SELECT * FROM tickets WHERE id < 20) SELECT id FROM few WHERE {A} LIMIT 2", [2]),
        # The values are asked afterwards, of the rows that matched.
        ("SELECT id, AI_FILTER('b?', body) AS b FROM tickets t WHERE AI_FILTER('a?', body) LIMIT 3", [3, None]),
        # Which rows there are, or how many, depends on all of them.
        ("SELECT id FROM tickets t WHERE AI_FILTER('a?', body) ORDER BY id LIMIT 3", [3]),
        ("SELECT id FROM tickets t WHERE AI_FILTER('a?', body) ORDER BY random() LIMIT 3", [None]),
        ("SELECT DISTINCT product FROM tickets t WHERE AI_FILTER('a?', body) LIMIT 3", [None]),
        ("SELECT count(*) FROM tickets t WHERE AI_FILTER('a?', body) LIMIT 3", [None]),
        ("SELECT product, count(*) FROM tickets t WHERE AI_FILTER('a?', body) GROUP BY product LIMIT 3", [None]),
        ("SELECT id, count(*) OVER () FROM tickets t WHERE AI_FILTER('a?', body) LIMIT 3", [None]),
        ("SELECT unnest(tags) FROM tickets t WHERE AI_FILTER('a?', body) LIMIT 3", [None]),
        ("SELECT id FROM tickets t WHERE AI_FILTER('a?', body) QUALIFY row_number() OVER () < 9 LIMIT 3", [None]),
        ("SELECT id FROM tickets t WHERE AI_FILTER('a?', body) AND random() < 2 LIMIT 3", [None]),
        ("SELECT id FROM tickets t WHERE AI_FILTER('a?', body) UNION ALL SELECT 99 LIMIT 3", [None]),
        ("SELECT id FROM tickets t WHERE AI_FILTER('a?', body) LIMIT 1 + 1", [None]),
        ("SELECT id FROM tickets t WHERE AI_FILTER('a?', body) LIMIT 50%", [None]),
        ("SELECT id FROM tickets t WHERE AI_FILTER('a?', body) USING SAMPLE 3 ROWS", [None]),
        ("SELECT id FROM (SELECT * FROM tickets WHERE AI_FILTER('a?', body) LIMIT 3) t", [3]),
        ("SELECT id, AI_FILTER('a?', body) FROM tickets t WHERE id > 3 OR AI_FILTER('a?', body) LIMIT 3", [None, None]),
    ],
)  # fmt: skip
def test_limit(database: duckdb.DuckDBPyConnection, sql: str, ending: list[object]) -> None:
    assert endings(database, sql) == ending
    if not re.search("OVER|1 \\+ 1|%|SAMPLE|\\) t$", sql):
        for seed in range(4):
            check(database, sql, seed)


def test_fewer_prompts_are_asked(database: duckdb.DuckDBPyConnection) -> None:
    exists = f"SELECT t.id FROM tickets t WHERE EXISTS (SELECT 1 FROM products p WHERE {FITS})"
    in_full = f"SELECT t.id FROM tickets t WHERE (SELECT sum(1) FROM products p WHERE {FITS}) > 0"
    rows, asked = run(database, exists)
    everything, all_asked = run(database, in_full)
    assert sorted(rows) == sorted(everything)
    assert asked < 0.7 * all_asked
    _, some = run(database, "SELECT id FROM tickets WHERE AI_FILTER('a?', body) LIMIT 2")
    _, most = run(database, "SELECT id FROM tickets WHERE AI_FILTER('a?', body)")
    assert some < 0.4 * most


def test_explain_says_what_ends_a_step(database: duckdb.DuckDBPyConnection) -> None:
    def text(sql: str) -> str:
        return plan(f"EXPLAIN {sql}", MemoryCatalog(database), PlanOptions(DOCUMENT_FIRST)).text

    assert "    until: each anchor's first match\n" in text(
        f"SELECT t.id FROM tickets t WHERE EXISTS (SELECT 1 FROM products p WHERE {FITS})"
    )
    assert "    until: 7 matches\n" in text(
        "SELECT id FROM tickets WHERE AI_FILTER('a?', body) LIMIT 5 OFFSET 2"
    )
    assert "  until: 5 matches, in the order of the anchors\n" in text(
        "SELECT id FROM tickets WHERE AI_FILTER('a?', body) ORDER BY id LIMIT 5"
    )
    assert "until" not in text("SELECT id FROM tickets WHERE AI_FILTER('a?', body) ORDER BY random() LIMIT 5")


PAIRS = trees(st.sampled_from([FITS, WAS, "AI_FILTER(PROMPT('{0} or {1}', t.body, p.description))"]), 5)
INNER = trees(st.sampled_from(["p.id > 2", "AI_FILTER('e?', p.name)", "p.cat = 'a'", "p.cat IS NULL"]), 3)
TICKETS = trees(st.one_of(TICKET, CHEAP), 4)


@settings(RELAXED, max_examples=60)
@given(st.booleans(), PAIRS, INNER, TICKETS, TICKETS, st.integers(0, 1 << 16))
def test_exists_at_random(
    database: duckdb.DuckDBPyConnection,
    negated: bool,
    pairs: str,
    inner: str,
    outer: str,
    beside: str,
    seed: int,
) -> None:
    word = "NOT EXISTS" if negated else "EXISTS"
    exists = f"{word} (SELECT 1 FROM products p WHERE {inner} AND {pairs})"
    check(database, f"SELECT t.id FROM tickets t WHERE {outer} AND ({exists} OR {beside})", seed)


@settings(RELAXED, max_examples=60)
@given(TICKETS, TICKETS, st.integers(0, 12), st.integers(0, 5), st.integers(0, 1 << 16))
def test_limits_at_random(
    database: duckdb.DuckDBPyConnection, first: str, second: str, limit: int, offset: int, seed: int
) -> None:
    sql = f"SELECT t.id FROM tickets t WHERE {first} AND {second} LIMIT {limit} OFFSET {offset}"
    if "AI_FILTER" in sql:
        check(database, sql, seed)
