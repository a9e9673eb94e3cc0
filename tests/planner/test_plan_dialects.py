"""Statements in Snowflake's and BigQuery's SQL: the same rows, names and errors as DuckDB's own would give."""

from __future__ import annotations

from collections import Counter

import duckdb
import pytest
from covey_planner.errors import ParseError, PlanError, Unsupported
from covey_planner.language.dialects import translate
from covey_planner.plan import PlanOptions, plan
from support.plan_reference import DOCUMENT_FIRST, MemoryCatalog, Reference

ALIKE = [
    (
        "snowflake",
        "SELECT id FROM tickets WHERE IFF(id > 20, TRUE, FALSE) AND AI_FILTER(PROMPT($$it's {0}$$, body))",
        "SELECT id FROM tickets WHERE id > 20 AND AI_FILTER(PROMPT('it''s {0}', body))",
    ),
    (
        "snowflake",
        "SELECT t.id, p.id AS pid FROM tickets t JOIN products p ON AI_FILTER(PROMPT('{0} fits {1}', t.body, p.name))"
        " QUALIFY ROW_NUMBER() OVER (PARTITION BY t.id ORDER BY p.id) = 1",
        "SELECT t.id, p.id AS pid FROM tickets t JOIN products p ON AI_FILTER(PROMPT('{0} fits {1}', t.body, p.name))"
        " QUALIFY row_number() OVER (PARTITION BY t.id ORDER BY p.id) = 1",
    ),
    (
        "snowflake",
        "SELECT COUNT_IF(AI_FILTER('spam?', TO_VARCHAR(day))) AS n, NVL(cat, '-') AS c FROM tickets t"
        " LEFT JOIN products p ON p.id = t.product GROUP BY ALL",
        "SELECT count_if(AI_FILTER('spam?', CAST(day AS VARCHAR))) AS n, coalesce(cat, '-') AS c FROM tickets t"
        " LEFT JOIN products p ON p.id = t.product GROUP BY ALL",
    ),
    (
        "bigquery",
        'SELECT `id` FROM `tickets` WHERE AI.IF(("is it ", body, r" \\bad")) AND SAFE_CAST(note AS INT64) IS NULL',
        "SELECT id FROM tickets WHERE AI_FILTER(PROMPT('is it {0} \\bad', body)) AND TRY_CAST(note AS BIGINT) IS NULL",
    ),
    (
        "bigquery",
        "SELECT id, AI.IF(prompt => ('x ', body)) AS x FROM tickets WHERE NOT AI.IF(PROMPT('a {0}', note))",
        "SELECT id, AI_FILTER(PROMPT('x {0}', body)) AS x FROM tickets WHERE NOT AI_FILTER(PROMPT('a {0}', note))",
    ),
    (
        "bigquery",
        "SELECT tag FROM tickets, UNNEST(tags) AS tag WHERE AI.IF(('is it ', tag))",
        "SELECT tag FROM (SELECT unnest(tags) AS tag FROM tickets) WHERE AI_FILTER(PROMPT('is it {0}', tag))",
    ),
]


@pytest.mark.parametrize(("dialect", "sql", "same"), ALIKE)
def test_same_rows(database: duckdb.DuckDBPyConnection, dialect: str, sql: str, same: str) -> None:
    planned = plan(sql, MemoryCatalog(database), PlanOptions(DOCUMENT_FIRST, dialect))
    names, rows = Reference(database).run(planned.physical)
    expected = database.execute(same)
    assert names == [name for name, _ in planned.columns] == [column[0] for column in expected.description]
    assert Counter(rows) == Counter(expected.fetchall())
    assert rows


@pytest.mark.parametrize(
    ("dialect", "kind"),
    [("duckdb", "VARCHAR"), ("bigquery", "VARCHAR"), ("snowflake", "STRUCT(labels VARCHAR[])")],
)
def test_what_a_label_is(catalog: MemoryCatalog, dialect: str, kind: str) -> None:
    sql = "SELECT id + 1, AI_CLASSIFY(body, ['a', 'b']) FROM tickets"
    planned = plan(sql, catalog, PlanOptions(DOCUMENT_FIRST, dialect))
    assert planned.columns[1] == ("AI_CLASSIFY(body, ['a', 'b'])", kind)
    assert planned.physical.steps[0].questions[0].kind == "label"


@pytest.mark.parametrize(
    "call",
    [
        "AI_CLASSIFY(body, ['a', 'b'], {'task_description': 'Which?'})",
        "AI_CLASSIFY(body, ARRAY_CONSTRUCT('a', 'b'), OBJECT_CONSTRUCT('task_description', 'Which?'))",
        "AI_CLASSIFY(body, [{'label': 'a'}, {'label': 'b'}], {'task_description': 'Which?'}):labels[0]::STRING",
    ],
)
def test_options_objects(catalog: MemoryCatalog, call: str) -> None:
    sql = f"SELECT {call} AS label FROM tickets"
    (step,) = plan(sql, catalog, PlanOptions(DOCUMENT_FIRST, "snowflake")).physical.steps
    (same,) = plan(
        "SELECT AI_CLASSIFY(body, ['a', 'b'], {'task_description': 'Which?'}) FROM tickets",
        catalog,
        PlanOptions(DOCUMENT_FIRST),
    ).physical.steps
    assert (step.prefix, step.questions[0].suffix) == (same.prefix, same.questions[0].suffix)
    assert step.questions[0].labels == same.questions[0].labels


def test_parameters_are_values_whatever_the_dialect_escapes(catalog: MemoryCatalog) -> None:
    for dialect in ("snowflake", "bigquery"):
        planned = plan(
            "SELECT AI_FILTER('a?', body) FROM tickets WHERE note = ? AND id > ?",
            catalog,
            PlanOptions(DOCUMENT_FIRST, dialect),
            [r"it's \n", 3],
        )
        assert r"'it''s \n'" in planned.physical.residual
    named = plan(
        "SELECT AI.IF(('a? ', body)) FROM tickets WHERE note = @note",
        catalog,
        PlanOptions(DOCUMENT_FIRST, "bigquery"),
        {"note": "x"},
    )
    assert named.parameters == ("note",)


@pytest.mark.parametrize(
    ("dialect", "sql", "message"),
    [
        (
            "snowflake",
            "SELECT id FROM tickets WHERE AI_FILTER('a?', bdy)",
            "no column 'bdy' (there is body) (line 1:46)",
        ),
        (
            "bigquery",
            "SELECT id FROM tickets\nWHERE AI.IF(('a? ', bdy))",
            "no column 'bdy' (there is body) (line 2:21)",
        ),
        ("bigquery", "SELECT AI.IF(('a? ', body)) FROM `tikets`", "no table 'tikets' (line 1:34)"),
        (
            "snowflake",
            "SELECT AI_FILTER('a?', body) FROM tickets WHERE",
            "an expression is missing near 'WHERE' (line 1:43)",
        ),
    ],
)
def test_errors_have_places(catalog: MemoryCatalog, dialect: str, sql: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        plan(sql, catalog, PlanOptions(DOCUMENT_FIRST, dialect))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("dialect", "sql", "expected"),
    [
        ("duckdb", "SELECT  1 -- as it is", "SELECT  1 -- as it is"),
        (
            "snowflake",
            "SELECT IFF(a > 1, 'x', 'y') FROM t",
            "SELECT CASE WHEN a > 1 THEN 'x' ELSE 'y' END FROM t",
        ),
        (
            "snowflake",
            "SELECT v:a.b[0]::int FROM t",
            "SELECT CAST(CAST(v AS JSON) ->> '$.a.b[0]' AS INT) FROM t",
        ),
        ("snowflake", "SELECT v:a = 'x' FROM t", "SELECT (CAST(v AS JSON) ->> '$.a') = 'x' FROM t"),
        (
            "snowflake",
            "CREATE TABLE t (a NUMBER(10, 0), b STRING)",
            "CREATE TABLE t (a DECIMAL(10, 0), b TEXT)",
        ),
        ("snowflake", "EXPLAIN SELECT TO_VARCHAR(a) FROM t", "EXPLAIN SELECT CAST(a AS TEXT) FROM t"),
        ("bigquery", 'SELECT "x" FROM `a b`', "SELECT 'x' FROM \"a b\""),
        (
            "bigquery",
            "SELECT table_name FROM information_schema.tables",
            "SELECT table_name FROM information_schema.tables AS tables",
        ),
        ("bigquery", "SELECT 'AI.IF(x)' FROM t WHERE a = @b", "SELECT 'AI.IF(x)' FROM t WHERE a = $b"),
        ("snowflake", "SET ai_dialect = 'duckdb'", "SET ai_dialect = 'duckdb'"),
        ("bigquery", "BEGIN TRANSACTION", "BEGIN TRANSACTION"),
        ("bigquery", "", ""),
        ("bigquery", "'no end", "'no end"),
    ],
)
def test_translate(dialect: str, sql: str, expected: str) -> None:
    assert translate(sql, dialect) == expected


def test_what_has_no_translation() -> None:
    with pytest.raises(ParseError, match="line 1"):
        translate("SELECT FROM WHERE", "snowflake")
    with pytest.raises(Unsupported, match="CREATE of this form is not understood in the dialect snowflake"):
        translate("CREATE STREAM s ON TABLE t", "snowflake")
    with pytest.raises(
        Unsupported, match="this snowflake statement has no counterpart in DuckDB: Unsupported prop"
    ):
        translate("CREATE TABLE t (a INT) CLUSTER BY (a) COPY GRANTS", "snowflake")
