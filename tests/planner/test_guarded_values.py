"""Questions about one column that guard one another are one step, which asks exactly what evaluating each row would."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import duckdb
import pytest
from covey_planner.physical import AskStep
from covey_planner.plan import PlanOptions, plan
from covey_planner.prompts import Template, question_text
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.plan_reference import DOCUMENT_FIRST, MemoryCatalog, answer, install_oracle, run_both, words

Tree = tuple[object, ...]
"""("call", n), ("row", n), ("true",), ("null",), or an operator and its parts."""

ROW = ("d.n > 1", "d.k = 2", "d.k < 3")
"""Conditions on a row, NULL where its number is."""

QUESTIONS = [question_text(Template((f"question {number}?\n", 0)), DOCUMENT_FIRST) for number in range(5)]


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    """Documents of which most stand in several rows."""
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE d (id INTEGER, t VARCHAR, n INTEGER, k INTEGER)")
        connection.execute(
            "INSERT INTO d SELECT i, CASE WHEN i % 11 <> 0 THEN 'text ' || (i * 7 % 12) END,"
            " CASE WHEN i % 4 <> 3 THEN i % 4 END, CASE WHEN i % 7 <> 2 THEN i % 5 END FROM range(40) r(i)"
        )
        install_oracle(connection)
        yield connection


def sql_of(tree: Tree) -> str:
    match tree:
        case ("call", number):
            return f"AI_FILTER('question {number}?', d.t)"
        case ("row", number):
            return f"({ROW[number]})"  # type: ignore[index]
        case ("true",):
            return "TRUE"
        case ("null",):
            return "NULL::BOOLEAN"
    kind, *parts = tree
    texts = [sql_of(part) for part in parts]  # type: ignore[arg-type]
    match kind:
        case "and" | "or":
            return f"({texts[0]} {str(kind).upper()} {texts[1]})"
        case "not":
            return f"(NOT {texts[0]})"
        case "coalesce":
            return f"coalesce({', '.join(texts)})"
        case "if":
            return f"IF({', '.join(texts)})"
        case "case":
            return f"CASE WHEN {texts[0]} THEN {texts[1]} WHEN {texts[2]} THEN {texts[3]} ELSE {texts[4]} END"
        case "is true":
            return f"(({texts[0]}) IS TRUE)"
    raise AssertionError(kind)


class Row:
    """Evaluates trees on a row from left to right, no more than decides; asked: the questions that takes."""

    def __init__(self, text: str | None, n: int | None, k: int | None) -> None:
        self.text = text
        conditions = (
            None if n is None else n > 1,
            None if k is None else k == 2,
            None if k is None else k < 3,
        )
        self.conditions: tuple[bool | None, ...] = conditions
        self.asked: set[tuple[str, int]] = set()

    def value(self, tree: Tree) -> bool | None:
        kind, *rest = tree
        match kind:
            case "call":
                if self.text is None:
                    return None
                number: int = rest[0]  # type: ignore[assignment]
                self.asked.add((self.text, number))
                return answer(QUESTIONS[number], [self.text])
            case "row":
                return self.conditions[rest[0]]  # type: ignore[index]
            case "true":
                return True
            case "null":
                return None
        parts: list[Tree] = rest  # type: ignore[assignment]
        first = self.value(parts[0])
        match kind:
            case "and" | "or":
                ends = kind == "or"
                second = first if first is ends else self.value(parts[1])
                if first is ends or second is ends:
                    return ends
                return None if first is None or second is None else not ends
            case "not":
                return None if first is None else not first
            case "is true":
                return first is True
            case "coalesce":
                return first if first is not None else self.value(parts[1])
            case "if":
                return self.value(parts[1] if first else parts[2])
            case "case":
                if first:
                    return self.value(parts[1])
                return self.value(parts[3] if self.value(parts[2]) else parts[4])
        raise AssertionError(kind)


def grow(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    def of(kind: str, count: int) -> st.SearchStrategy[Tree]:
        return st.tuples(st.just(kind), *[inner] * count)

    shapes = {"and": 2, "or": 2, "not": 1, "coalesce": 2, "if": 3, "case": 5, "is true": 1}
    return st.one_of(*(of(kind, count) for kind, count in shapes.items()))


CALLS = st.tuples(st.just("call"), st.integers(0, 4))
ONLY_CALLS = st.recursive(
    st.one_of(CALLS, CALLS, CALLS, st.just(("true",)), st.just(("null",))), grow, max_leaves=6
)
WITH_ROWS = st.recursive(
    st.one_of(CALLS, CALLS, CALLS, st.tuples(st.just("row"), st.integers(0, 2))), grow, max_leaves=6
)


def steps(database: duckdb.DuckDBPyConnection, sql: str) -> tuple[AskStep, ...]:
    return plan(sql, MemoryCatalog(database), PlanOptions(DOCUMENT_FIRST, encode=words)).physical.steps


FORTY = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def check(database: duckdb.DuckDBPyConnection, sql: str, *trees: Tree, most: bool = False) -> None:
    """The rows are the oracle's, no prompt comes twice, and those there are would be asked row by row. most: there may
    be fewer.
    """
    if "AI_FILTER" not in sql:
        return
    _, rows, expected, asked = run_both(database, sql)
    assert Counter(map(repr, rows)) == Counter(map(repr, expected)), sql
    assert len(asked) == len(set(asked)), sql
    needed: set[tuple[str, int]] = set()
    for text, n, k in database.execute("SELECT t, n, k FROM d").fetchall():
        row = Row(text, n, k)
        for tree in trees:
            row.value(tree)
        needed |= row.asked
    assert len(asked) <= len(needed) if most else len(asked) == len(needed), sql


@FORTY
@given(ONLY_CALLS, ONLY_CALLS)
def test_a_list_asks_what_its_rows_need(database: duckdb.DuckDBPyConnection, one: Tree, other: Tree) -> None:
    sql = f"SELECT id, {sql_of(one)}, {sql_of(other)} FROM d"
    check(database, sql, one, other)


@FORTY
@given(WITH_ROWS)
def test_rows_decide_too(database: duckdb.DuckDBPyConnection, tree: Tree) -> None:
    check(database, f"SELECT id, {sql_of(tree)} FROM d", tree)
