"""Derived tables, CTEs and UNION branches that ask: which become part of the SELECT around them, and which stay."""

from __future__ import annotations

import contextlib
import re

import pytest
from covey_planner.language.correlated import put_ctes_in_place
from covey_planner.language.flatten import flatten
from covey_planner.language.lambdas import lists_to_rows
from covey_planner.language.laterals import ask_in_laterals
from covey_planner.language.parse import parse, scan
from covey_planner.language.render import render
from covey_planner.language.unions import exists_of_each_branch, in_each_branch
from covey_storage.catalog import Database

ASK = "AI_FILTER('a?', body)"


def changed(sql: str) -> str:
    scanned = scan(sql)
    assert scanned is not None
    tree = parse(scanned, ()).tree
    flatten(tree, {"t": {"id": "INTEGER", "body": "VARCHAR"}})
    exists_of_each_branch(tree)
    return re.sub(r"__COVEY_CALL_\d+B\(", "AI_FILTER(", render(tree))


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (f"SELECT * FROM (SELECT * FROM t WHERE {ASK}) LIMIT 3", f"SELECT * FROM t WHERE ({ASK}) LIMIT 3"),
        (
            f"SELECT d.id FROM (SELECT * FROM t AS x WHERE x.id > 1 AND {ASK}) AS d WHERE d.id < 9",
            "SELECT d.id FROM t AS d WHERE (d.id > 1 AND AI_FILTER('a?', d.body)) AND (d.id < 9)",
        ),
        (
            f"SELECT o.id, d.id FROM o JOIN (SELECT id, body FROM t WHERE {ASK}) AS d ON d.id = o.id",
            "SELECT o.id, d.id FROM o JOIN t AS d ON d.id = o.id WHERE (AI_FILTER('a?', d.body))",
        ),
        (
            f"SELECT count(*) FROM (SELECT id FROM t WHERE {ASK}) AS d",
            "SELECT COUNT(*) FROM t AS d WHERE (AI_FILTER('a?', d.body))",
        ),
        (
            f"SELECT * FROM (SELECT * FROM (SELECT * FROM t WHERE {ASK}) AS a WHERE AI_FILTER('b?', a.note)) AS b",
            "SELECT * FROM t AS b WHERE ((AI_FILTER('a?', b.body)) AND (AI_FILTER('b?', b.note)))",
        ),
        # Views: their names for columns are those that the columns have.
        (
            f"SELECT v.id FROM (SELECT * FROM (SELECT * FROM t WHERE {ASK}) AS v(id, body)) AS v",
            "SELECT v.id FROM t AS v WHERE (AI_FILTER('a?', v.body))",
        ),
        (
            f"SELECT v.id FROM (SELECT * FROM (SELECT body, id FROM t WHERE {ASK}) AS v(body, id)) AS v",
            "SELECT v.id FROM t AS v WHERE (AI_FILTER('a?', v.body))",
        ),
        (
            f"WITH s AS (SELECT * FROM t WHERE {ASK}) "
            "SELECT o.id FROM o WHERE EXISTS (SELECT 1 FROM s WHERE s.k = o.k)",
            "SELECT o.id FROM o WHERE EXISTS(SELECT 1 FROM t AS s WHERE (AI_FILTER('a?', s.body)) AND (s.k = o.k))",
        ),
        (
            f"WITH u AS (SELECT 1 AS k), s AS (SELECT * FROM t WHERE {ASK}) SELECT * FROM s AS x JOIN u ON u.k = x.k",
            "WITH u AS (SELECT 1 AS k) SELECT * FROM t AS x JOIN u ON u.k = x.k WHERE (AI_FILTER('a?', x.body))",
        ),
        (
            f"SELECT 1 FROM o WHERE NOT EXISTS (SELECT 1 FROM t WHERE {ASK} "
            "UNION (SELECT 2 FROM u UNION ALL SELECT 3))",
            f"SELECT 1 FROM o WHERE NOT (EXISTS(SELECT 1 FROM t WHERE {ASK}) OR EXISTS(SELECT 2 FROM u) OR "
            "EXISTS(SELECT 3))",
        ),
    ],
)  # fmt: skip
def test_what_becomes_one_select(sql: str, expected: str) -> None:
    assert changed(sql) == expected


@pytest.mark.parametrize(
    "sql",
    [
        # Rows that are not there are shown as NULL, or rows go by their place.
        f"SELECT * FROM o LEFT JOIN (SELECT * FROM t WHERE {ASK}) AS d ON d.id = o.id",
        f"SELECT * FROM (SELECT * FROM t WHERE {ASK}) AS d RIGHT JOIN o ON d.id = o.id",
        f"SELECT * FROM (SELECT * FROM t WHERE {ASK}) AS d POSITIONAL JOIN o",
        f"SELECT * FROM o SEMI JOIN (SELECT * FROM t WHERE {ASK}) AS d ON d.id = o.id",
        f"SELECT * FROM (SELECT * FROM t WHERE {ASK}) AS d USING SAMPLE 3 ROWS",
        # Which rows there are depends on others, or the columns are not those of the table.
        f"SELECT d.id FROM (SELECT DISTINCT id FROM t WHERE {ASK}) AS d",
        f"SELECT d.id FROM (SELECT * FROM t WHERE {ASK} LIMIT 3) AS d",
        f"SELECT d.n FROM (SELECT count(*) AS n FROM t WHERE {ASK}) AS d",
        f"SELECT d.x FROM (SELECT id AS x FROM t WHERE {ASK}) AS d",
        f"SELECT d.a FROM (SELECT * FROM t WHERE {ASK}) AS d(a, b)",
        f"SELECT d.id FROM (SELECT * FROM t WHERE {ASK}) AS d(body, id)",
        f"SELECT d.id FROM (SELECT * FROM (SELECT body, id FROM t WHERE {ASK}) AS v(id, body)) AS d",
        # A column that the derived table does not show would come in sight.
        f"SELECT * FROM (SELECT id FROM t WHERE {ASK}) AS d",
        f"SELECT id FROM (SELECT id FROM t WHERE {ASK}) AS d",
        f"SELECT d.* FROM (SELECT id FROM t WHERE {ASK}) AS d",
        f"SELECT d.id FROM (SELECT id FROM t WHERE {ASK}) AS d JOIN o USING (id)",
        f"SELECT d.id, d.note FROM (SELECT id FROM t WHERE {ASK}) AS d",
        # A subquery, or what changes from call to call, stays where it is evaluated.
        f"SELECT d.id FROM (SELECT * FROM t WHERE {ASK} AND id IN (SELECT id FROM o)) AS d",
        f"SELECT d.id FROM (SELECT * FROM t WHERE {ASK} AND random() < 0.5) AS d",
        # Nothing is asked there, or a CTE is read twice, kept on purpose, recursive, or hidden by another.
        f"SELECT d.id FROM (SELECT * FROM t WHERE id > 3) AS d WHERE {ASK.replace('body', 'd.body')}",
        f"WITH s AS (SELECT * FROM t WHERE {ASK}) SELECT * FROM s AS a, s AS b",
        f"WITH s AS MATERIALIZED (SELECT * FROM t WHERE {ASK}) SELECT * FROM s",
        f"WITH t AS (SELECT * FROM t WHERE {ASK}) SELECT * FROM t",
        f"WITH RECURSIVE s AS (SELECT * FROM t WHERE {ASK}) SELECT * FROM s",
        f"WITH s AS (SELECT * FROM t WHERE {ASK}) SELECT * FROM (WITH u AS (SELECT 1) SELECT * FROM s, u)",
        f"WITH s AS (SELECT * FROM t WHERE {ASK}) SELECT * FROM o LEFT JOIN s ON s.id = o.id",
        # EXISTS of what is left of others.
        f"SELECT 1 FROM o WHERE EXISTS (SELECT 1 FROM t WHERE {ASK} EXCEPT SELECT 2)",
        f"SELECT 1 FROM o WHERE EXISTS (SELECT 1 FROM t WHERE {ASK} UNION SELECT 2 LIMIT 0)",
    ],
)
def test_what_stays(sql: str) -> None:
    scanned = scan(sql)
    assert scanned is not None
    plain = re.sub(r"__COVEY_CALL_\d+B\(", "AI_FILTER(", render(parse(scanned, ()).tree))
    assert changed(sql) == plain


def rewritten(sql: str) -> str:
    scanned = scan(sql)
    assert scanned is not None
    tree = lists_to_rows(parse(scanned, ())).tree
    put_ctes_in_place(tree)
    ask_in_laterals(tree)
    with contextlib.closing(Database.open(None)) as database:
        database.cursor().execute(
            "CREATE TABLE t (id INTEGER, body VARCHAR); CREATE TABLE o (k INTEGER, n BIGINT)"
        )
        in_each_branch(tree, database)
    return re.sub(r"__COVEY_CALL_\d+B\(", "AI_FILTER(", render(tree))


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            "SELECT list_filter(xs, lambda x: AI_FILTER('a?', x)) FROM t",
            "SELECT CASE WHEN NOT xs IS NULL THEN COALESCE((SELECT ARRAY_AGG(__covey_u0.x ORDER BY "
            "__covey_u0.__covey_i) FROM UNNEST(xs) WITH ORDINALITY AS __covey_u0(x, __covey_i) "
            "WHERE AI_FILTER('a?', __covey_u0.x)), []) END FROM t",
        ),
        (
            "SELECT list_filter(xs, lambda x: x > 'a') FROM t WHERE AI_FILTER('a?', body)",
            "SELECT LIST_FILTER(xs, LAMBDA x : x > 'a') FROM t WHERE AI_FILTER('a?', body)",
        ),
        (
            f"SELECT id FROM o WHERE k IN (SELECT id FROM t WHERE {ASK} UNION SELECT k FROM o)",
            f"SELECT id FROM o WHERE (k IN (SELECT id FROM t WHERE {ASK}) OR k IN (SELECT k FROM o))",
        ),
        (
            f"SELECT id FROM o WHERE NOT k IN (SELECT id FROM t WHERE id = n AND {ASK} UNION SELECT k FROM o)",
            f"SELECT id FROM o WHERE NOT (k IN (SELECT id FROM t WHERE id = n AND {ASK}) OR k IN (SELECT k FROM o))",
        ),
        # Other types compare otherwise; a value that asks, or changes, stays one.
        *(
            (sql, sql)
            for sql in (
                f"SELECT id FROM o WHERE k IN (SELECT id FROM t WHERE {ASK} UNION SELECT n FROM o)",
                f"SELECT id FROM o WHERE n IN (SELECT id FROM t WHERE id = n AND {ASK} UNION SELECT n FROM o)",
                f"SELECT id FROM o WHERE RANDOM() IN (SELECT id FROM t WHERE {ASK} UNION SELECT k FROM o)",
                f"SELECT id FROM o WHERE k IN (SELECT id FROM t WHERE {ASK} UNION SELECT k FROM o LIMIT 1)",
                f"SELECT id FROM o WHERE k IN (SELECT id FROM t WHERE {ASK} EXCEPT SELECT k FROM o)",
            )
        ),
        (
            f"SELECT id FROM o WHERE EXISTS (WITH s AS (SELECT * FROM t WHERE {ASK}) SELECT 1 FROM s WHERE s.id = k)",
            f"SELECT id FROM o WHERE EXISTS(SELECT 1 FROM (SELECT * FROM t WHERE {ASK}) AS s WHERE s.id = k)",
        ),
        (
            f"SELECT o.k FROM o LEFT JOIN LATERAL (SELECT body FROM t WHERE id = o.k) AS s ON {ASK}",
            f"SELECT o.k FROM o LEFT JOIN LATERAL (SELECT * FROM (SELECT body FROM t WHERE id = o.k) AS s WHERE {ASK})"
            ' AS "s" ON TRUE',
        ),
    ],
)
def test_what_is_put_where_it_can_be_asked(sql: str, expected: str) -> None:
    assert rewritten(sql) == expected
