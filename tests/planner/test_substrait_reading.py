"""Plans by hand, in old and new forms, as SQL that DuckDB runs: what no statement of ours would write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from covey_planner.errors import PlanError
from covey_planner.substrait.read import read
from support.plans import NULLABLE, call, column, number, plan_bytes, table

A = table("a", id="i64", t="string")
B = table("b", k="i64", u="string")


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE a (id BIGINT, t VARCHAR)")
        connection.execute("INSERT INTO a VALUES (1, 'x'), (2, 'y'), (3, NULL), (3, 'z')")
        connection.execute("CREATE TABLE b (k BIGINT, u VARCHAR)")
        connection.execute("INSERT INTO b VALUES (2, 'X'), (3, 'Y'), (4, 'Z')")
        yield connection


def result(duck: duckdb.DuckDBPyConnection, relation: dict[str, Any], *names: str, **more: Any) -> list[Any]:
    return sorted(duck.execute(read(plan_bytes(relation, list(names), **more)).sql).fetchall(), key=str)


def join(kind: str, left: dict[str, Any] = A, right: dict[str, Any] = B, **more: Any) -> dict[str, Any]:
    on = call("equal", column(0), column(2))
    return {"join": {"left": left, "right": right, "expression": on, "type": f"JOIN_TYPE_{kind}", **more}}


def test_joins_that_keep_the_right_side(duck: duckdb.DuckDBPyConnection) -> None:
    assert result(duck, join("RIGHT_SEMI"), "k", "u") == [(2, "X"), (3, "Y")]
    assert result(duck, join("RIGHT_ANTI"), "k", "u") == [(4, "Z")]


@pytest.mark.parametrize(("kind", "size"), [("INNER", 3), ("LEFT", 4), ("RIGHT", 4), ("OUTER", 5)])
def test_joins(kind: str, size: int, duck: duckdb.DuckDBPyConnection) -> None:
    assert len(result(duck, join(kind), "id", "t", "k", "u")) == size


def test_a_filter_below_an_outer_join_stays_there(duck: duckdb.DuckDBPyConnection) -> None:
    kept = {"filter": {"input": B, "condition": call("gt", column(0), number(2))}}
    assert len(result(duck, join("LEFT", right=kept), "id", "t", "k", "u")) == 4
    low = {"filter": {"input": A, "condition": call("gt", column(0), number(2))}}
    assert result(duck, join("RIGHT", left=low), "id", "t", "k", "u") == [
        (3, "z", 3, "Y"),
        (3, None, 3, "Y"),
        (None, None, 2, "X"),
        (None, None, 4, "Z"),
    ]


def test_a_computed_column_below_an_outer_join_is_null_above(duck: duckdb.DuckDBPyConnection) -> None:
    text = {"literal": {"string": "there"}}
    made = {"project": {"common": {"emit": {"outputMapping": [0, 2]}}, "input": B, "expressions": [text]}}
    found = result(duck, join("LEFT", right=made), "id", "t", "k", "said")
    assert [row[3] for row in found] == [None, "there", "there", "there"]


def test_bushy_joins(duck: duckdb.DuckDBPyConnection) -> None:
    both = join("INNER")
    on = call("equal", column(0), column(4))
    whole = {"join": {"left": B, "right": both, "type": "JOIN_TYPE_INNER", "expression": on}}
    assert len(result(duck, whole, *"abcdef")) == 3
    outer = whole["join"] | {"right": join("OUTER"), "type": "JOIN_TYPE_LEFT"}
    assert len(result(duck, {"join": outer}, *"abcdef")) == 4


def test_post_join_filter(duck: duckdb.DuckDBPyConnection) -> None:
    relation = join("LEFT", postJoinFilter=call("gt", column(2), number(2)))
    assert result(duck, relation, "id", "t", "k", "u") == [(3, "z", 3, "Y"), (3, None, 3, "Y")]


def measure(name: str, *arguments: dict[str, Any], gives: str = "i64") -> dict[str, Any]:
    said = call(name, *arguments, gives=gives)["scalarFunction"]
    return {"measure": {**said, "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT"}}


def test_sums_are_of_the_type_that_the_plan_says(duck: duckdb.DuckDBPyConnection) -> None:
    relation = {"aggregate": {"input": A, "measures": [measure("sum", column(0)), measure("count")]}}
    text = read(plan_bytes(relation, ["s", "n"])).sql
    assert [str(kind) for kind in duck.sql(text).types] == ["BIGINT", "BIGINT"]
    assert duck.execute(text).fetchall() == [(9, 4)]


def test_grouping_sets_of_both_forms_with_the_set_s_number(duck: duckdb.DuckDBPyConnection) -> None:
    new = {
        "input": A,
        "groupingExpressions": [column(0), column(1)],
        "groupings": [
            {"expressionReferences": [0]},
            {"expressionReferences": []},
            {"expressionReferences": [0, 1]},
        ],
        "measures": [measure("count")],
    }
    old = {
        "input": A,
        "groupings": [
            {"groupingExpressions": [column(0)]},
            {},
            {"groupingExpressions": [column(0), column(1)]},
        ],
        "measures": [measure("count")],
    }
    found = result(duck, {"aggregate": new}, "id", "t", "n", "which")
    assert found == result(duck, {"aggregate": old}, "id", "t", "n", "which")
    assert [row for row in found if row[3] == 1] == [(None, None, 4, 1)]
    assert sorted(row[2] for row in found if row[3] == 0) == [1, 1, 2]
    assert sum(row[3] == 2 for row in found) == 4


def test_an_aggregate_that_nothing_is_shown_of_is_still_one_row(duck: duckdb.DuckDBPyConnection) -> None:
    one = {"literal": {"i32": 1}}
    relation = {
        "project": {
            "common": {"emit": {"outputMapping": [1]}},
            "input": {"aggregate": {"input": A, "measures": [measure("count")]}},
            "expressions": [one],
        }
    }
    assert result(duck, relation, "one") == [(1,)]


def test_what_stands_above_a_fetch_stays_above_it(duck: duckdb.DuckDBPyConnection) -> None:
    sort = {"expr": column(0), "direction": "SORT_DIRECTION_ASC_NULLS_LAST"}
    first = {"fetch": {"input": {"sort": {"input": A, "sorts": [sort]}}, "count": 2}}
    assert result(duck, first, "id", "t") == [(1, "x"), (2, "y")]
    kept = {"filter": {"input": first, "condition": call("gt", column(0), number(1))}}
    assert result(duck, kept, "id", "t") == [(2, "y")]
    again = {"fetch": {"input": first, "offsetExpr": number(1)}}
    assert result(duck, again, "id", "t") == [(2, "y")]
    assert len(result(duck, {"fetch": {"input": A, "count": -1, "offset": 1}}, "id", "t")) == 3


def test_virtual_tables_of_both_forms(duck: duckdb.DuckDBPyConnection) -> None:
    schema = {"names": ["n"], "struct": {"types": [{"i64": {"nullability": NULLABLE}}]}}
    new = {"expressions": [{"fields": [number(5)]}, {"fields": [number(6)]}]}
    old = {"values": [{"fields": [{"i64": 5}]}, {"fields": [{"null": {"i64": {"nullability": NULLABLE}}}]}]}
    assert result(duck, {"read": {"baseSchema": schema, "virtualTable": new}}, "n") == [(5,), (6,)]
    assert result(duck, {"read": {"baseSchema": schema, "virtualTable": old}}, "n") == [(5,), (None,)]
    assert result(duck, {"read": {"baseSchema": schema, "virtualTable": {}}}, "n") == []


@pytest.mark.parametrize(
    ("op", "wanted"),
    [
        ("UNION_DISTINCT", [1, 2, 3, 4]),
        ("MINUS_PRIMARY", [1]),
        ("MINUS_PRIMARY_ALL", [1]),
        ("MINUS_MULTISET", [1, 2]),
        ("INTERSECTION_PRIMARY", [2, 3]),
        ("INTERSECTION_MULTISET", [3]),
    ],
)
def test_set_operations_of_three_inputs(op: str, wanted: list[int], duck: duckdb.DuckDBPyConnection) -> None:
    def ids(relation: dict[str, Any], least: int) -> dict[str, Any]:
        kept = {"filter": {"input": relation, "condition": call("gt", column(0), number(least))}}
        return {"project": {"common": {"emit": {"outputMapping": [0]}}, "input": kept}}

    inputs = [ids(A, 0), ids(B, 1), ids(B, 2)]
    assert result(duck, {"set": {"inputs": inputs, "op": f"SET_OP_{op}"}}, "id") == [(n,) for n in wanted]


def test_a_subtree_that_the_plan_refers_to(duck: duckdb.DuckDBPyConnection) -> None:
    shared = {"filter": {"input": A, "condition": call("gt", column(0), number(1))}}
    again = {"reference": {"subtreeOrdinal": 0}}
    relation = join("INNER", left=again, right=again)
    relations = [{"rel": shared}, {"root": {"input": relation, "names": list("abcd")}}]
    assert len(result(duck, relation, *"abcd", relations=relations)) == 5


def test_a_read_with_filter_and_projection(duck: duckdb.DuckDBPyConnection) -> None:
    projection = {"select": {"structItems": [{"field": 1}]}}
    said = {**A["read"], "filter": call("gt", column(0), number(2)), "projection": projection}
    assert result(duck, {"read": said}, "t") == [("z",), (None,)]


def test_extensions_by_uri(duck: duckdb.DuckDBPyConnection) -> None:
    uris = [{"extensionUriAnchor": 1, "uri": "/functions_comparison.yaml"}]
    functions = [
        {"extensionFunction": {"extensionUriReference": 1, "functionAnchor": 2, "name": "gt:any_any"}}
    ]
    relation = {"filter": {"input": A, "condition": call("gt", column(0), number(2))}}
    more = {"extensionUrns": [], "extensionUris": uris, "extensions": functions}
    assert len(result(duck, relation, "id", "t", **more)) == 2


def test_a_correlated_subquery(duck: duckdb.DuckDBPyConnection) -> None:
    inner = {"filter": {"input": B, "condition": call("equal", column(0), column(0, 1))}}
    there = {"subquery": {"setPredicate": {"predicateOp": "PREDICATE_OP_EXISTS", "tuples": inner}}}
    assert len(result(duck, {"filter": {"input": A, "condition": there}}, "id", "t")) == 3


@pytest.mark.parametrize(
    ("relation", "message"),
    [
        ({"fetch": {"count": 1}}, "has no input"),
        (
            {"project": {"common": {"emit": {"outputMapping": [9]}}, "input": A}},
            "emits column 9 of a project that has 2",
        ),
        (
            {"sort": {"input": A, "sorts": [{"expr": column(0)}]}},
            "sorting other than ascending or descending",
        ),
        ({"filter": {"input": A, "condition": {"windowFunction": {}}}}, "window functions"),
        ({"filter": {"input": A, "condition": {"enum": {}}}}, "of kind enum"),
        (
            {"aggregate": {"input": A, "groupings": [{"expressionReferences": [3]}]}},
            "refers to an expression",
        ),
        ({"aggregate": {"input": A, "measures": [measure("lower", column(1))]}}, "aggregate function lower"),
        (
            {"set": {"inputs": [A, {"cross": {"left": A, "right": B}}], "op": "SET_OP_UNION_ALL"}},
            "2 and 4 columns",
        ),
        ({"set": {"inputs": [A], "op": "SET_OP_UNION_ALL"}}, "fewer than two inputs"),
    ],
)
def test_what_is_wrong_is_named(relation: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        read(plan_bytes(relation, ["a", "b"]))


def test_the_schema_is_checked_column_by_column() -> None:
    consumed = read(plan_bytes(A, ["id", "t"]))
    consumed.check(lambda _: [("T", "VARCHAR"), ("ID", "BIGINT"), ("more", "UTINYINT")])
    with pytest.raises(PlanError, match='column t of "a", which has no such column'):
        consumed.check(lambda _: [("id", "BIGINT")])
    with pytest.raises(PlanError, match="for BIGINT, but it is INTEGER"):
        consumed.check(lambda _: [("id", "INTEGER"), ("t", "VARCHAR")])
