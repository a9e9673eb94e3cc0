"""Parameters: where they stand, their values as literals, their types, and what an unbound statement is good
for.
"""

from __future__ import annotations

import datetime
import decimal
import uuid

import duckdb
import pytest
from covey_planner.errors import BindError, Unsupported
from covey_planner.language.parameters import literal
from covey_planner.plan import PlanOptions, plan
from support.plan_reference import DOCUMENT_FIRST, MemoryCatalog, Reference

OPTIONS = PlanOptions(DOCUMENT_FIRST)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -5,
        2**70,
        1.5,
        -0.0,
        float("inf"),
        "it's {0} ?",
        "größer\n",
        b"\x00\xff",
        decimal.Decimal("-12.50"),
        datetime.date(2024, 2, 29),
        datetime.datetime(2024, 2, 29, 12, 30, 1, 5),
        datetime.time(1, 2, 3),
        datetime.timedelta(days=-1, microseconds=5),
        uuid.UUID(int=7),
    ],
)
def test_literals_read_back(database: duckdb.DuckDBPyConnection, value: object) -> None:
    row = database.execute(f"SELECT {literal(value)}").fetchone()
    assert row is not None
    assert str(row[0]) == str(value)


def test_literal_errors() -> None:
    with pytest.raises(Unsupported, match="a parameter of type set"):
        literal({1})
    with pytest.raises(BindError, match="zero byte"):
        literal("a\x00b")


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("SELECT id FROM tickets WHERE AI_FILTER('a?', body) AND id > ? AND note LIKE ?", [3, "%e%"]),
        (
            "SELECT id FROM tickets WHERE AI_FILTER('a?', body) AND id > $1 AND note LIKE $2 AND id <> $1",
            [3, "%e%"],
        ),
        ("SELECT id FROM tickets WHERE AI_FILTER('a?', body) AND id > $low AND note LIKE $like", [3, "%e%"]),
        ("SELECT id FROM tickets WHERE AI_FILTER('a?', body) AND id > :low AND note LIKE :like", [3, "%e%"]),
        ("SELECT id FROM tickets WHERE AI_FILTER('a?', body) AND id > ?::INT AND note LIKE ?", ["3", "%e%"]),
    ],
)
def test_values_take_their_places(
    database: duckdb.DuckDBPyConnection, catalog: MemoryCatalog, sql: str, values: list[object]
) -> None:
    planned = plan(sql, catalog, OPTIONS, values)
    _, rows = Reference(database).run(planned.physical)
    text = "SELECT id FROM tickets WHERE AI_FILTER('a?', body) AND id > 3 AND note LIKE '%e%'"
    assert sorted(rows) == sorted(database.execute(text).fetchall())
    assert not planned.unbound


def test_a_question_can_be_a_parameter(catalog: MemoryCatalog) -> None:
    sql = "SELECT id FROM tickets WHERE AI_FILTER(?, body)"
    (step,) = plan(sql, catalog, OPTIONS, ["Is it {odd}?"]).physical.steps
    assert any("Is it {odd}?" in getattr(segment, "text", "") for segment in step.questions[0].suffix)


def test_types_are_those_of_the_compared_columns(catalog: MemoryCatalog) -> None:
    sql = (
        "SELECT id FROM tickets WHERE AI_FILTER('a?', body) AND day >= ? AND tickets.score < ?"
        " AND ? = product AND note LIKE ? AND ?::TIMESTAMP IS NOT NULL AND upper(body) = ? LIMIT ?"
    )
    planned = plan(sql, catalog, OPTIONS)
    assert planned.unbound
    assert planned.parameters == (0, 1, 2, 3, 4, 5, 6)
    assert planned.parameter_types == (
        "DATE",
        "DOUBLE",
        "INTEGER",
        "VARCHAR",
        "TIMESTAMP",
        "VARCHAR",
        "BIGINT",
    )
    assert planned.columns == (("id", "INTEGER"),)


def test_types_in_lists_and_ranges(catalog: MemoryCatalog) -> None:
    sql = "SELECT 1 FROM tickets WHERE AI_FILTER('a?', body) AND day BETWEEN ? AND ? AND score IN (?, ?)"
    assert plan(sql, catalog, OPTIONS).parameter_types == ("DATE", "DATE", "DOUBLE", "DOUBLE")


@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        ("AI_SCORE('a?', body) > ?", "DOUBLE"),
        ("? <= AI_SCORE(PROMPT('{0} is (very) old', body))", "DOUBLE"),
        ("AI_SCORE('a?', body) NOT BETWEEN 0.1 AND ?", "DOUBLE"),
        ("(SELECT count(*) FROM products p WHERE AI_FILTER('b?', p.name)) > ?", "BIGINT"),
        ("? = (SELECT max(p.id) FROM products p WHERE AI_FILTER('b?', p.name))", "INTEGER"),
        ("AI_COUNT_TOKENS(upper(body)) < ?", "BIGINT"),
        ("score NOT IN (?)", "DOUBLE"),
        ("AI_CLASSIFY(body, ['a', 'b']) = ?", "VARCHAR"),
        ("AI_FILTER('a?', body) = ?", "BOOLEAN"),
        ("product % 2 = ?", "VARCHAR"),
        ("? < length(body) + 1", "BIGINT"),
    ],
)
def test_what_calls_and_subqueries_are_compared_with(
    catalog: MemoryCatalog, condition: str, kind: str
) -> None:
    sql = f"SELECT id FROM tickets WHERE AI_FILTER('a?', body) AND {condition}"
    assert plan(sql, catalog, OPTIONS).parameter_types == (kind,)


def test_plain_statements_keep_their_parameters(catalog: MemoryCatalog) -> None:
    sql = "SELECT id FROM tickets WHERE day >= ? AND x = ?"
    planned = plan(sql, catalog, OPTIONS)
    assert (planned.kind, planned.physical.residual, planned.unbound) == ("plain", sql, False)
    assert planned.parameter_types == ("DATE", "VARCHAR")
    assert plan("SELECT 'a?' AS \"b?\"", catalog, OPTIONS).parameters == ()
    assert plan("SELECT ? FROM (", catalog, OPTIONS).parameters == (0,)


@pytest.mark.parametrize(
    ("sql", "values", "message"),
    [
        ("SELECT AI_FILTER('a?', ?), ?", ["x"], "the statement has 2 parameters, but 1 values are given"),
        ("SELECT AI_FILTER('a?', $a), ?", ["x"], "named and numbered parameters stand in one statement"),
        ("SELECT AI_FILTER('a?', 'x')", ["x"], "the statement has 0 parameters, but 1 values are given"),
    ],
)
def test_wrong_values(catalog: MemoryCatalog, sql: str, values: list[object], message: str) -> None:
    with pytest.raises(BindError) as caught:
        plan(sql, catalog, OPTIONS, values)
    assert message in str(caught.value)


def test_values_by_name(catalog: MemoryCatalog) -> None:
    sql = "SELECT id FROM tickets WHERE AI_FILTER('a?', body) AND id = $n"
    assert "= 7" in plan(sql, catalog, OPTIONS, {"n": 7}).physical.residual
    with pytest.raises(BindError, match="parameter 'n' has no value"):
        plan(sql, catalog, OPTIONS, {"m": 7})


def test_a_cte_hides_the_stored_table_of_its_name(database: duckdb.DuckDBPyConnection) -> None:
    database.execute("CREATE TABLE w (c0 INTEGER)")
    sql = (
        "WITH w AS (SELECT body AS c0 FROM tickets WHERE AI_FILTER('a?', body)) SELECT c0 FROM w WHERE c0 > ?"
    )
    assert plan(sql, MemoryCatalog(database), OPTIONS).parameter_types == ("VARCHAR",)
