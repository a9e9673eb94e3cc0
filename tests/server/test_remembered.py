"""What the running server remembers of answers: counts by question, through EXPLAIN and by themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as dbapi
import pyarrow as pa
import pytest
from covey_planner.cost.shares import share_of
from covey_planner.physical import CallKey
from covey_server.estimating import Prices
from covey_server.remembered import LEAST, Remembered
from hypothesis import given
from hypothesis import strategies as st
from support.hash_server import Host
from support.sql import rows, run

TEXTS = 200
OFTEN, SELDOM = "AI_FILTER('Is it often so?', body)", "AI_FILTER('Is it seldom so?', body)"
BOTH = f"SELECT id FROM docs WHERE {OFTEN} AND {SELDOM}"
TABLES = frozenset({"docs", "other"})


def key(question: str = "q", *arguments: str) -> CallKey:
    return CallKey(question, arguments or ("docs.body",))


@pytest.fixture
def uri(host: Host, tmp_path: Path) -> Iterator[str]:
    with host.serve(tmp_path, prices=Prices()) as uri:
        with dbapi.connect(uri, autocommit=True) as connection:
            run(
                connection,
                f"CREATE TABLE docs AS SELECT i AS id, 'text ' || i AS body FROM range({TEXTS}) r(i)",
            )
            run(connection, "CREATE TABLE other AS SELECT 1 AS id, 'text' AS body")
            run(connection, "CREATE VIEW seen AS SELECT id, body FROM docs")
        yield uri


@pytest.fixture
def client(uri: str) -> Iterator[dbapi.Connection]:
    with dbapi.connect(uri, autocommit=True) as connection:
        yield connection


def questions(client: dbapi.Connection, sql: str) -> list[Any]:
    """The questions of a statement's steps, in the order in which they are asked."""
    ((_, text),) = rows(client, f"EXPLAIN (FORMAT json) {sql}")
    return [question for step in json.loads(text)["steps"] for question in step["questions"]]


def sources(client: dbapi.Connection, sql: str) -> list[str]:
    return [question["selectivity"]["source"] for question in questions(client, sql)]


def test_answers_decide_the_order_of_the_next_statement(client: dbapi.Connection) -> None:
    assert [question["call"] for question in questions(client, BOTH)] == [OFTEN, SELDOM]
    assert sources(client, BOTH) == ["default", "default"]
    found = rows(client, BOTH)
    assert [question["call"] for question in questions(client, BOTH)] == [SELDOM, OFTEN]
    assert sources(client, BOTH) == ["remembered", "remembered"]
    assert sorted(rows(client, BOTH)) == sorted(found)


def test_explain_says_from_how_many_answers(client: dbapi.Connection) -> None:
    rows(client, f"SELECT id FROM docs WHERE {OFTEN}")
    ((_, text),) = rows(client, f"EXPLAIN SELECT id FROM docs AS d WHERE {OFTEN.replace('body', 'd.body')}")
    assert f"true (remembered from {TEXTS} answers, " in text
    (question,) = questions(client, f"SELECT id FROM docs WHERE {OFTEN}")
    known = question["selectivity"]
    assert known["answers"] == TEXTS
    assert 0.5 < known["low"] < known["value"] < known["high"] < 1


def test_few_answers_say_nothing_and_a_hint_counts_less_than_answers(client: dbapi.Connection) -> None:
    hinted = "SELECT id FROM docs WHERE AI_FILTER('Is it often so?', body, {'selectivity': 0.1})"
    rows(client, f"SELECT id FROM docs WHERE {OFTEN} AND id < {LEAST - 1}")
    assert sources(client, hinted) == ["hint"]
    rows(client, f"SELECT id FROM docs WHERE {OFTEN}")
    assert sources(client, hinted) == ["remembered"]


WRITES = [
    "INSERT INTO docs VALUES (1000, 'new')",
    "UPDATE docs SET body = 'old' WHERE id = 3",
    "DELETE FROM docs WHERE id = 3",
    "CREATE OR REPLACE TABLE docs AS SELECT 1 AS id, 'text' AS body",
    f"DELETE FROM docs WHERE {SELDOM}",
]


@pytest.mark.parametrize("sql", WRITES)
def test_a_written_table_is_forgotten(client: dbapi.Connection, sql: str) -> None:
    asked = f"SELECT id FROM docs WHERE {OFTEN}"
    rows(client, asked)
    run(client, "INSERT INTO other VALUES (2, 'text')")
    assert sources(client, asked) == ["remembered"]
    run(client, sql)
    assert sources(client, asked) == ["default"]


def test_an_uploaded_table_is_forgotten(client: dbapi.Connection) -> None:
    asked = f"SELECT id FROM docs WHERE {OFTEN}"
    rows(client, asked)
    with client.cursor() as cursor:
        cursor.adbc_ingest("docs", pa.table({"id": [1000], "body": ["new"]}), mode="append")
    assert sources(client, asked) == ["default"]


def test_a_view_is_forgotten_with_any_table(client: dbapi.Connection) -> None:
    asked = f"SELECT id FROM seen WHERE {OFTEN}"
    rows(client, asked)
    assert sources(client, asked) == ["remembered"]
    run(client, "INSERT INTO other VALUES (2, 'text')")
    assert sources(client, asked) == ["default"]


def test_nothing_is_learned_from_what_may_be_rolled_back(uri: str, client: dbapi.Connection) -> None:
    asked = f"SELECT id FROM docs WHERE {OFTEN}"
    with dbapi.connect(uri) as other:
        run(other, "INSERT INTO docs SELECT 1000 + i, 'more ' || i FROM range(100) r(i)")
        rows(other, asked)
        assert sources(client, asked) == ["default"]
        other.rollback()
        rows(other, asked)
        assert sources(client, asked) == ["remembered"]
        run(other, "INSERT INTO docs VALUES (1000, 'new')")
        rows(client, asked)
        other.commit()
    assert sources(client, asked) == ["default"]


def test_computed_texts_are_not_remembered(client: dbapi.Connection) -> None:
    asked = "SELECT id FROM docs WHERE AI_FILTER('Is it often so?', upper(body))"
    rows(client, asked)
    assert sources(client, asked) == ["default"]


def test_counts_add_up_and_the_oldest_question_goes_first() -> None:
    remembered = Remembered(most=2)
    for name in ("a", "b", "a", "c"):
        remembered.note(key(name), 100, 10, remembered.now)
    assert set(remembered) == {key("a"), key("c")}
    assert remembered[key("a")] == share_of(200, 20, "remembered")
    assert remembered.get(key("b")) is None


@given(
    steps=st.lists(
        st.tuples(st.sampled_from("nf"), st.lists(st.sampled_from("abcv"), min_size=1, max_size=2)),
        max_size=40,
    )
)
def test_writes_forget_just_what_they_may_have_changed(steps: list[tuple[str, list[str]]]) -> None:
    """Of three tables and a view, against a plain list of what is known; the least recently noted goes first."""
    remembered, known = Remembered(most=5), list[CallKey]()
    for kind, names in steps:
        if kind == "n":
            noted = key("q", *(f"{name}.body" for name in names))
            remembered.note(noted, 100, 10, remembered.now)
            known = [*(each for each in known if each != noted), noted][-5:]
        else:
            remembered.forget(frozenset(names), frozenset("abc"))
            known = [each for each in known if not {a[0] for a in each.arguments} & {*names, "v"}]
        assert list(remembered) == known
        asked = {argument.partition(".")[0] for each in known for argument in each.arguments}
        assert remembered._about.keys() == asked


def test_what_was_read_before_a_write_is_not_kept() -> None:
    remembered = Remembered()
    before = remembered.now
    remembered.forget(frozenset({"docs", "insert"}), TABLES)
    remembered.note(key(), 100, 10, before)
    remembered.note(key("q", "other.body", "docs.body"), 100, 10, before)
    assert not remembered
    remembered.note(key("q", "other.body"), 100, 10, before)
    remembered.note(key(), 100, 10, remembered.now)
    assert len(remembered) == 2


def test_names_of_writes_are_bounded_too() -> None:
    remembered = Remembered(most=2)
    before = remembered.now
    for name in ("docs", "x", "y", "z"):
        remembered.forget(frozenset({name}), TABLES)
    remembered.note(key(), 100, 10, before)
    remembered.note(key("q", "other.body"), 100, 10, before)
    assert not remembered, "whether a table was written so long ago is not known"


@given(asked=st.integers(1, 5000), part=st.floats(0, 1), alike=st.floats(1, 20))
def test_a_share_lies_in_its_interval_which_less_evidence_widens(
    asked: int, part: float, alike: float
) -> None:
    true = round(asked * part)
    found, worse = share_of(asked, true, "sample"), share_of(asked, true, "sample", alike)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert worse.low <= found.low + 1e-12
    assert worse.high >= found.high - 1e-12
    assert 0 < found.value < 1
