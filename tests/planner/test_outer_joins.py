"""AI calls in ON of outer, semi and anti joins: the rows of plain DuckDB, and no prompt that need not be asked."""

from __future__ import annotations

import re
from collections import Counter

import duckdb
import pytest
from covey_planner.errors import Unsupported
from covey_planner.plan import PlanOptions, plan
from hypothesis import given, settings
from hypothesis import strategies as st
from support.plan_reference import DOCUMENT_FIRST, Dice, MemoryCatalog, run_both
from test_plan_random import RELAXED, trees

PAIR = "AI_FILTER(PROMPT('{0} is {1}', t.body, p.description))"
OUTER = ("LEFT", "RIGHT", "FULL")

TP = [
    PAIR,
    "AI_FILTER(PROMPT('{1} has {0}', t.note, p.name))",
    "AI_FILTER('a?', t.body)",
    "AI_FILTER('e?', p.name)",
    "t.product = p.id",
    "t.id < p.id + 3",
    "p.cat = 'a'",
    "CAST(NULL AS BOOLEAN)",
]
PD = [
    "AI_FILTER(PROMPT('{0} for {1}', d.title, p.name))",
    "AI_FILTER('d?', d.title)",
    "AI_FILTER('e?', p.name)",
    "d.product = p.id",
    "d.id > 4",
]
TD = [
    "AI_FILTER(PROMPT('{0} of {1}', t.body, d.title))",
    "AI_FILTER('d?', d.title)",
    "AI_FILTER('a?', t.body)",
    "t.product = d.product",
    "t.id < 20",
]
ROWS = [
    "AI_FILTER('a?', t.body)",
    "AI_FILTER('z?', p.description)",
    "t.id < 12",
    "p.id > 2",
    "p.id IS NULL",
    "t.id IS NULL",
]


def check(database: duckdb.DuckDBPyConnection, sql: str) -> None:
    if "AI_FILTER" not in sql:
        return
    # Half of them in an order, and from sides, that are drawn.
    dice = Dice(len(sql)) if len(sql) % 2 else None
    _, rows, expected, asked = run_both(database, sql, DOCUMENT_FIRST, dice)
    assert Counter(map(repr, rows)) == Counter(map(repr, expected)), sql
    assert len(asked) <= 4000


def on(leaves: list[str]) -> st.SearchStrategy[str]:
    return trees(st.sampled_from(leaves), 4)


@settings(RELAXED, max_examples=25)
@given(kind=st.sampled_from([*OUTER, "LEFT"]), tree=on(TP), where=st.none() | on(ROWS))
def test_outer(database: duckdb.DuckDBPyConnection, kind: str, tree: str, where: str | None) -> None:
    sql = f"SELECT t.id, p.id, AI_FILTER('z?', p.description) FROM tickets t {kind} JOIN products p ON {tree}"
    check(database, sql + (f" WHERE {where}" if where else ""))


@settings(RELAXED, max_examples=12)
@given(kind=st.sampled_from(["SEMI", "ANTI"]), tree=on(TP), where=on([r for r in ROWS if "p." not in r]))
def test_semi_and_anti(database: duckdb.DuckDBPyConnection, kind: str, tree: str, where: str) -> None:
    check(database, f"SELECT t.* FROM tickets t {kind} JOIN products p ON {tree} WHERE {where}")


KINDS = st.sampled_from([*OUTER, "INNER", "LEFT"])


@settings(RELAXED, max_examples=25)
@given(first=KINDS, second=KINDS, tp=on(TP), pd=on(PD + TD), where=st.none() | on(ROWS))
def test_chains(
    database: duckdb.DuckDBPyConnection, first: str, second: str, tp: str, pd: str, where: str | None
) -> None:
    sql = f"FROM tickets t {first} JOIN products p ON {tp} {second} JOIN defects d ON {pd}"
    check(database, f"SELECT t.id, p.id, d.id {sql}" + (f" WHERE {where}" if where else ""))


@settings(RELAXED, max_examples=12)
@given(
    first=st.sampled_from(["SEMI", "ANTI", "LEFT"]),
    second=st.sampled_from(["SEMI", "ANTI", *OUTER]),
    tp=on(TP),
    td=on(TD),
)
def test_semi_joins_in_chains(
    database: duckdb.DuckDBPyConnection, first: str, second: str, tp: str, td: str
) -> None:
    sql = f"FROM tickets t {first} JOIN products p ON {tp} {second} JOIN defects d ON {td}"
    check(database, f"SELECT t.id {sql}")


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT * FROM tickets t LEFT JOIN products p ON {PAIR}",
        f"SELECT t.id, p.id, d.id FROM tickets t LEFT JOIN products p ON {PAIR} FULL JOIN defects d ON d.id = p.id",
        "SELECT t.id, name FROM tickets t LEFT JOIN products p ON AI_FILTER(PROMPT('{0} {1}', body, name)) "
        "JOIN (SELECT 1 AS one, 'n' AS name2) x ON one < t.id",
        # A name that only a later join makes ambiguous.
        "SELECT count(*) FROM tickets t LEFT JOIN products p ON AI_FILTER(PROMPT('{0} {1}', body, name)) "
        "JOIN products q ON q.id = p.id",
        f"SELECT t.id, (SELECT count(*) FROM products p LEFT JOIN defects d ON {PD[0]} AND d.product = t.product) "
        "FROM tickets t WHERE t.id < 9",
        f"SELECT t.id FROM tickets t WHERE EXISTS (SELECT 1 FROM defects d LEFT JOIN products p ON {PAIR} "
        "WHERE d.product = t.product AND p.id IS NULL)",
        f"WITH w AS (SELECT t.id, p.cat FROM tickets t LEFT JOIN products p ON {PAIR}) "
        "SELECT cat, count(*) FROM w GROUP BY cat",
        f"SELECT p.cat, count(t.id) FROM products p LEFT JOIN tickets t ON {PAIR} GROUP BY p.cat "
        "HAVING AI_FILTER('big?', p.cat)",
        f"SELECT t.id FROM tickets t LEFT JOIN products p ON {PAIR} AND EXISTS (SELECT 1 FROM defects d "
        "WHERE d.product = p.id AND AI_FILTER('d?', d.title)) WHERE t.id < 9",
        "SELECT t.id, p.id FROM tickets t LEFT JOIN products p ON AI_FILTER('is it?', coalesce(p.name, 'x')) "
        "AND p.id = t.product WHERE AI_FILTER('or not?', coalesce(p.name, 'nothing'))",
        f"SELECT t.id, p.id FROM tickets t JOIN defects d ON {TD[0]} RIGHT JOIN products p ON {PAIR}",
        "SELECT x.id, y.id FROM tickets x LEFT JOIN tickets y ON AI_FILTER(PROMPT('{0} = {1}', x.body, y.body)) "
        "AND x.id < y.id AND y.id < 9",
    ],
)
def test_statements(database: duckdb.DuckDBPyConnection, sql: str) -> None:
    check(database, sql)


def asked(database: duckdb.DuckDBPyConnection, sql: str) -> list[str]:
    return run_both(database, sql, DOCUMENT_FIRST)[3]


def test_only_pairs_that_pass_the_rest_of_on_are_asked(database: duckdb.DuckDBPyConnection) -> None:
    pairs = "SELECT DISTINCT t.body, p.description FROM tickets t JOIN products p ON t.product = p.id"
    given_ = "WHERE body IS NOT NULL AND description IS NOT NULL AND {}"
    for kind in OUTER:
        sql = f"SELECT t.id, p.id FROM tickets t {kind} JOIN products p ON {PAIR} AND t.product = p.id"
        (count,) = database.execute(f"SELECT count(*) FROM ({pairs} {given_.format('true')})").fetchall()[0]
        assert len(asked(database, sql)) == count
        kept = {"LEFT": "t.id < 9", "RIGHT": "p.id > 3"}.get(kind)
        if kept is not None:
            (count,) = database.execute(f"SELECT count(*) FROM ({pairs} {given_.format(kept)})").fetchall()[0]
            assert len(asked(database, f"{sql} WHERE {kept}")) == count


def test_rows_that_a_filter_drops_are_no_pairs(database: duckdb.DuckDBPyConnection) -> None:
    sql = f"SELECT t.id, p.id FROM tickets t LEFT JOIN products p ON {PAIR}"
    kept = asked(database, f"{sql} WHERE AI_FILTER('a?', t.body)")
    bodies = {re.findall(r"<1>(.*?)</>", prompt)[0] for prompt in kept if "[[a?" not in prompt}
    true = database.execute("SELECT DISTINCT body FROM tickets WHERE AI_FILTER('a?', body)").fetchall()
    assert bodies == {body for (body,) in true}


def test_random_joins_and_positions_are_refused(database: duckdb.DuckDBPyConnection) -> None:
    def fails(sql: str, message: str) -> None:
        with pytest.raises(Unsupported, match=message):
            plan(sql, MemoryCatalog(database), PlanOptions(DOCUMENT_FIRST))

    left = "SELECT 1 FROM tickets t LEFT JOIN products p ON"
    fails(f"{left} random() < 0.5 WHERE AI_FILTER('a?', t.body)", "random")
    fails(f"{left} random() < 0.5 AND {PAIR}", "random")
    fails(f"SELECT 1 FROM tickets t ASOF JOIN products p ON t.id >= p.id AND {PAIR}", "ASOF")
