"""Samples that are asked before a statement's steps, through the client: what they cost, change, and leave alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import adbc_driver_flightsql.dbapi as dbapi
import pytest
from covey_engine.prefill import api
from covey_server.estimating import Prices
from support.fake_engine import FakeRunning, Path
from support.hash_model import HashEngine
from support.hash_server import Host
from support.sql import rows, run

TEXTS = 2_400
TABLES = f"""
CREATE TABLE docs AS SELECT i AS id, i % 12 AS topic, 'a text of some length, number ' || i AS body
FROM range({TEXTS}) r(i);
CREATE TABLE topics AS SELECT i AS id, 'the name of topic ' || i AS name FROM range(12) r(i);
CREATE TABLE few AS SELECT * FROM docs WHERE id < 900
"""


class CountingEngine(HashEngine):
    """Counts how often each prompt is computed."""

    def __init__(self) -> None:
        super().__init__()
        self.prompts: Counter[bytes] = Counter()

    def start(self, order: api.WorkOrder) -> FakeRunning:
        running, value = super().start(order), type(super().start(order)).value

        def counted(path: Path, readout: api.YesNo) -> float:
            self.prompts[path.data] += 1
            return value(running, path, readout)

        running.value = counted  # type: ignore[method-assign]
        return running


@pytest.fixture(scope="module")
def engine() -> CountingEngine:
    return CountingEngine()


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory, engine: CountingEngine) -> Iterator[str]:
    host = Host()
    with host.serve(tmp_path_factory.mktemp("tokens"), engine, Prices()) as uri:
        with dbapi.connect(uri, autocommit=True) as connection:
            for text in TABLES.strip().split(";\n"):
                run(connection, text)
        yield uri
    host.close()


@pytest.fixture
def client(uri: str, engine: CountingEngine) -> Iterator[dbapi.Connection]:
    with dbapi.connect(uri, autocommit=True) as connection:
        for table in ("docs", "topics", "few"):
            run(connection, f"DELETE FROM {table} WHERE false")  # what was remembered of it is forgotten
        engine.prompts.clear()
        yield connection


def ask(word: str, column: str = "body", hint: float | None = None) -> str:
    option = "" if hint is None else f", {{'selectivity': {hint}}}"
    return f"AI_FILTER('Is it {word} so?', {column}{option})"


def pair(word: str, one: str, other: str) -> str:
    return f"AI_FILTER(PROMPT('Is it {word} so? {{0}} {{1}}', {one}, {other}))"


def explained(client: dbapi.Connection, sql: str, options: str = "FORMAT json") -> Any:
    ((_, text),) = rows(client, f"EXPLAIN ({options}) {sql}")
    return json.loads(text)


def prompts(client: dbapi.Connection, engine: CountingEngine, sql: str, sampling: str) -> tuple[int, object]:
    """How many prompts a statement takes, and its rows; each prompt once."""
    run(client, f"SET ai_sampling = '{sampling}'")
    run(client, "DELETE FROM docs WHERE false")
    engine.prompts.clear()
    found = sorted(rows(client, sql))
    assert max(engine.prompts.values()) == 1, "a prompt was computed twice"
    return engine.prompts.total(), found


TWO = f"SELECT id FROM docs WHERE {ask('often')} AND {ask('seldom')}"
WRONG = f"SELECT id FROM docs WHERE {ask('often', hint=0.09)} AND {ask('seldom', hint=0.95)}"
TREE = f"SELECT id FROM docs WHERE {ask('seldom')} OR {ask('rather')} OR {ask('very often indeed')}"
ACROSS = (
    f"SELECT d.id FROM docs d JOIN topics t ON d.topic = t.id AND {pair('often', 'd.body', 't.name')} "
    f"WHERE {ask('seldom', 'd.body')}"
)
LATER = TWO.replace("id", f"id, {ask('rather')}, AI_SCORE('Is it truly so?', body)")
SAMPLED = {"default": TWO, "wrong hints": WRONG, "either": TREE, "values too": LATER}


@pytest.mark.parametrize("name", SAMPLED)
def test_a_sample_saves_prompts_and_changes_no_row(
    client: dbapi.Connection, engine: CountingEngine, name: str
) -> None:
    (without, given), (with_, found) = (
        prompts(client, engine, SAMPLED[name], sampling) for sampling in ("off", "on")
    )
    assert found == given
    assert with_ < 0.85 * without


def test_analyze_says_what_the_sample_found_and_that_the_plan_was_revised(client: dbapi.Connection) -> None:
    report = explained(client, WRONG, "ANALYZE, FORMAT json")
    (sample,) = report["sampling"]["samples"]
    often, seldom = sample["questions"]
    assert (often["assumed"]["source"], often["assumed"]["value"]) == ("hint", 0.09)
    assert (often["found"]["source"], often["found"]["answers"]) == ("sample", 128)
    assert often["found"]["low"] < 0.9 < often["found"]["high"]
    assert seldom["found"]["low"] < 0.1 < seldom["found"]["high"]
    assert report["sampling"]["revised"]
    assert report["sampling"]["verdict"]["best"] < 0.9 * report["sampling"]["verdict"]["given"]
    (step,) = report["steps"]
    assert ["seldom" in question["call"] for question in step["questions"]] == [True, False]
    assert [question["selectivity"]["source"] for question in step["questions"]] == ["sample", "sample"]
    total, parts = report["total"]["actual"], [sample["actual"], step["actual"]]
    assert total["fresh_tokens"] == sum(part["fresh_tokens"] for part in parts)


def test_analyzed_text_says_so_too(client: dbapi.Connection) -> None:
    ((_, text),) = rows(client, f"EXPLAIN ANALYZE {WRONG}")
    assert "└ sample: up to 128 of body" in text
    assert "assumed 9% true (hint, " in text
    assert "; found 87% true (sampled 128 answers, " in text
    assert "the plan was revised after the sample: by it, this order costs " in text


def test_a_plan_that_is_right_is_kept(client: dbapi.Connection) -> None:
    sql = f"SELECT id FROM docs WHERE {ask('seldom', hint=0.15)} AND {ask('often', hint=0.85)}"
    ((_, text),) = rows(client, f"EXPLAIN ANALYZE {sql}")
    assert "the plan was kept after the sample: by it, another order costs 0.0% less at most" in text
    (step,) = explained(client, sql)["steps"]
    assert ["seldom" in question["call"] for question in step["questions"]] == [True, False]


def test_explain_says_that_a_sample_will_be_asked_and_asks_none(
    client: dbapi.Connection, engine: CountingEngine
) -> None:
    ((_, text),) = rows(client, f"EXPLAIN {TWO}")
    assert "└ sample: up to 128 of body" in text
    assert text.splitlines()[-1] == (
        "a sample is asked first, as the order of the steps depends on it: the plan may be revised"
    )
    assert not engine.prompts


def test_what_a_sample_found_is_remembered_with_the_rest(client: dbapi.Connection) -> None:
    rows(client, TWO)
    report = explained(client, TWO)
    assert "sampling" not in report
    (step,) = report["steps"]
    assert [question["selectivity"]["source"] for question in step["questions"]] == [
        "remembered",
        "remembered",
    ]
    assert step["questions"][0]["selectivity"]["answers"] == TEXTS


UNSAMPLED = {
    "one question": f"SELECT id FROM docs WHERE {ask('often')}",
    "few rows": TWO.replace("docs", "few"),
    "few rows left": f"{TWO} AND id < 900",
    "an early end": f"{TWO} LIMIT 5",
    "computed texts": TWO.replace("body", "upper(body)"),
    "an order that costs the same": f"SELECT id, {ask('often')}, {ask('seldom')} FROM docs",
}


@pytest.mark.parametrize("name", UNSAMPLED)
def test_no_sample_where_it_cannot_pay(client: dbapi.Connection, name: str) -> None:
    assert "sampling" not in explained(client, UNSAMPLED[name])


def test_no_sample_where_the_session_says_so(client: dbapi.Connection) -> None:
    run(client, "SET ai_sampling = 'off'")
    assert "sampling" not in explained(client, TWO)
    run(client, "RESET ai_sampling")
    assert "sampling" in explained(client, TWO)
    run(client, "SET ai_optimizer = 'off'")
    assert "sampling" not in explained(client, TWO)


def test_no_sample_in_a_transaction_that_has_written(uri: str, client: dbapi.Connection) -> None:
    with dbapi.connect(uri) as other:
        assert "sampling" in explained(other, TWO)
        run(other, "INSERT INTO docs VALUES (9999, 1, 'new')")
        assert "sampling" not in explained(other, TWO)
        other.rollback()
        assert "sampling" in explained(other, TWO)
        found = sorted(rows(other, TWO))
        other.rollback()
    assert found == sorted(rows(client, TWO))


def test_a_sorted_table_is_sampled_all_over(client: dbapi.Connection) -> None:
    """The first rows of the table are those for which one question is false, the last those for which it is true."""
    run(client, f"CREATE TABLE ordered AS SELECT id, body FROM docs ORDER BY {ask('rather')}, id")
    sql = f"SELECT id FROM ordered WHERE {ask('often')} AND {ask('rather')}"
    report = explained(client, sql, "ANALYZE, FORMAT json")
    rather = report["sampling"]["samples"][0]["questions"][1]["found"]
    assert 0.3 < rather["value"] < 0.7
    assert 0.1 < rather["high"] - rather["low"] < 0.2
    run(client, "DROP TABLE ordered")


def test_a_statement_that_writes_samples_what_it_reads(
    client: dbapi.Connection, engine: CountingEngine
) -> None:
    for sampling in ("off", "on"):
        run(client, f"SET ai_sampling = '{sampling}'")
        run(client, f"CREATE TABLE kept_{sampling} AS SELECT * FROM docs")
        engine.prompts.clear()
        run(client, f"DELETE FROM kept_{sampling} WHERE {ask('often')} AND {ask('seldom')}")
        assert max(engine.prompts.values()) == 1
    left = [rows(client, f"SELECT * FROM kept_{sampling} ORDER BY id") for sampling in ("off", "on")]
    assert left[0] == left[1]
    for sampling in ("off", "on"):
        run(client, f"DROP TABLE kept_{sampling}")


def test_filters_and_joins_change_places(client: dbapi.Connection, engine: CountingEngine) -> None:
    """Pairs and a filter: whichever lets fewer rows pass comes first."""
    (without, given), (with_, found) = (
        prompts(client, engine, ACROSS, sampling) for sampling in ("off", "on")
    )
    assert found == given
    assert with_ <= 1.1 * without
