"""Anchors chosen again when a step begins, through the client: filters leave texts that are not like the others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import adbc_driver_flightsql.dbapi as dbapi
import pytest
from covey_server.estimating import Prices
from support.hash_server import Host
from support.sql import rows, run

LATE = "AI_FILTER('Is it late?', body)"
TABLES = f"""
CREATE TABLE short AS SELECT i AS id, i % 4 AS topic, 'letter ' || i AS body FROM range(300) r(i);
CREATE TABLE long AS SELECT 1000 + i AS id, i % 4 AS topic, 'letter ' || i || repeat(' and more', 20) AS body
FROM range(30) r(i);
CREATE TABLE letters AS
SELECT * FROM short WHERE NOT {LATE} UNION ALL SELECT * FROM long WHERE {LATE};
CREATE TABLE parts AS SELECT i AS id, i % 4 AS topic, 'part ' || i || repeat(' or so', 10) AS name FROM range(20) r(i)
"""
"""Of the letters only the long ones are late: of 160, about one in ten."""

LATE_LETTER = "AI_FILTER('Is it late?', l.body, {'selectivity': 0.1})"


def pair(word: str = "about", option: str = "") -> str:
    return f"AI_FILTER(PROMPT('Is {{0}} {word} {{1}}?', p.name, l.body){option})"


JOIN = f"SELECT l.id, p.id FROM parts p, letters l WHERE {LATE_LETTER} AND {pair()}"
LABEL = "AI_CLASSIFY(PROMPT('Which of {0} and {1}?', p.name, l.body), ['one', 'other'])"
AFTER = "AI_FILTER('Is it whole?', p.name)"
STATEMENTS = {
    "every pair": JOIN,
    "linked pairs": f"{JOIN} AND p.topic = l.topic",
    "two questions": f"{JOIN} AND {pair('beside')}",
    "either of two": JOIN.replace(pair(), f"({pair()} OR NOT {pair('beside')})"),
    "labels of pairs": JOIN.replace("l.id, p.id", f"l.id, p.id, {LABEL}"),
    "scores of pairs": JOIN.replace("l.id, p.id", "l.id, AI_SCORE(PROMPT('{0}, {1}?', p.name, l.body))"),
    "a filter behind it": f"{JOIN} AND {AFTER.replace('whole', 'often whole')}",
    "groups": JOIN.replace("l.id, p.id", "p.topic, count(*)") + " GROUP BY p.topic",
    "a join not ordered": f"SELECT l.id, p.id FROM letters l LEFT JOIN parts p ON {pair()} WHERE {LATE_LETTER}",
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dbapi.Connection]:
    host = Host()
    with (
        host.serve(tmp_path_factory.mktemp("tokens"), prices=Prices()) as uri,
        dbapi.connect(uri, autocommit=True) as connection,
    ):
        for text in TABLES.strip().split(";\n"):
            run(connection, text)
        yield connection
    host.close()


@pytest.fixture(autouse=True)
def forgotten(client: dbapi.Connection) -> Iterator[None]:
    """What was remembered of the tables is forgotten, and the session is as it began."""
    for table in ("letters", "parts"):
        run(client, f"DELETE FROM {table} WHERE false")
    yield
    run(client, "RESET ai_anchor")
    run(client, "RESET ai_on_overflow")


def explained(client: dbapi.Connection, sql: str, options: str = "ANALYZE, FORMAT json") -> Any:
    ((_, text),) = rows(client, f"EXPLAIN ({options}) {sql}")
    return json.loads(text)


def pairs_step(report: Any) -> Any:
    (step,) = [step for step in report["steps"] if step["partners"]]
    return step


def test_the_side_that_is_left_with_the_longer_texts_becomes_the_anchor(client: dbapi.Connection) -> None:
    planned, ran = pairs_step(explained(client, JOIN, "FORMAT json")), pairs_step(explained(client, JOIN))
    assert (planned["anchors"], planned["partners"]) == (["p.name"], ["l.body"])
    assert (ran["anchors"], ran["partners"]) == (["l.body"], ["p.name"])
    assert ran["anchor_exchanged"]
    assert ran["anchor_weighed"]["other"] < 0.7 * ran["anchor_weighed"]["planned"]
    assert ran["actual"]["anchors"] == len(rows(client, "SELECT id FROM letters WHERE id >= 1000"))
    assert ran["actual"]["partners"] == 20
    assert ran["estimate"]["partners"] == pytest.approx(20)


def test_it_costs_fewer_tokens_than_the_planned_side(client: dbapi.Connection) -> None:
    run(client, "SET ai_anchor = 'first'")
    first = pairs_step(explained(client, JOIN))
    assert first["anchors"] == ["p.name"]
    run(client, "RESET ai_anchor")
    assert (
        pairs_step(explained(client, JOIN))["actual"]["fresh_tokens"] < 0.6 * first["actual"]["fresh_tokens"]
    )


def test_analyzed_text_says_what_was_chosen(client: dbapi.Connection) -> None:
    ((_, text),) = rows(client, f"EXPLAIN ANALYZE {JOIN}")
    assert "step 2: every pair of l.body (anchor), p.name" in text
    assert re.search(r"anchor: chosen by cost +once both sides were counted: \d+\.\d% less than ", text)
    every = JOIN.replace(f"{LATE_LETTER} AND ", "")
    ((_, text),) = rows(client, f"EXPLAIN ANALYZE {every}")
    assert "step 1: every pair of p.name (anchor), l.body" in text
    assert re.search(r"anchor: chosen by cost +kept once both sides were counted: \d+\.\d% more from ", text)
    ((_, text),) = rows(client, f"EXPLAIN {JOIN}")
    assert "step 2: every pair of p.name (anchor), l.body" in text
    assert "    anchor: chosen by cost\n" in text
    assert "counted: " not in text


@pytest.mark.parametrize("name", STATEMENTS)
def test_rows_are_those_of_the_planned_side(client: dbapi.Connection, name: str) -> None:
    sql = STATEMENTS[name]
    steps = explained(client, sql)["steps"]
    assert any(step.get("anchor_exchanged") for step in steps)
    found = sorted(rows(client, sql), key=repr)
    run(client, "SET ai_anchor = 'first'")
    assert not any(step.get("anchor_exchanged") for step in explained(client, sql)["steps"])
    assert found == sorted(rows(client, sql), key=repr)
    assert found


def test_an_option_pins_the_anchor(client: dbapi.Connection) -> None:
    step = pairs_step(explained(client, JOIN.replace(pair(), pair(option=", {'anchor': 'p'}"))))
    assert step["anchors"] == ["p.name"]
    assert (step["anchor_exchanged"], step["anchor_weighed"]) == (False, None)


def test_texts_that_may_be_cut_stay_where_they_are(client: dbapi.Connection) -> None:
    run(client, "SET ai_on_overflow = 'truncate'")
    step = pairs_step(explained(client, JOIN))
    assert (step["anchors"], step["anchor_weighed"]) == (["p.name"], None)


def test_nobody_is_left(client: dbapi.Connection) -> None:
    step = pairs_step(explained(client, f"{JOIN} AND l.id < 0"))
    assert (step["actual"]["rows"], step["anchor_weighed"]) == (0, None)
