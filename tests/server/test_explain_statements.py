"""EXPLAIN of statements with AI calls through the real client: figures beside plans, without a call of the model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as dbapi
import pytest
from covey_engine.prefill import api
from covey_server.estimating import Prices
from support.hash_model import HashEngine
from support.hash_server import Host
from support.sql import rows, run

SIZES = api.ModelSizes(36, 2560, 32, 8, 128, 9728, "fp8", "bfloat16")
FILTER = "SELECT id FROM docs WHERE AI_FILTER('Is it old?', body)"
TEXTS = 40


class H200Engine(HashEngine):
    """Says that it is a model of 4 B on an H200. rates: those it has measured."""

    rates: api.Rates | None = None

    def info(self) -> api.EngineInfo:
        return replace(super().info(), device="NVIDIA H200", sizes=SIZES, rates=self.rates)


@pytest.fixture(scope="module")
def engine() -> H200Engine:
    return H200Engine()


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory, engine: H200Engine) -> Iterator[str]:
    host = Host()
    prices = Prices(1.0, {"h200": 3.6})
    with host.serve(tmp_path_factory.mktemp("tokens"), engine, prices) as uri:
        with dbapi.connect(uri, autocommit=True) as connection:
            run(
                connection,
                "CREATE TABLE docs AS SELECT i AS id, 'document ' || (i % 40) AS body FROM range(60) r(i)",
            )
            run(connection, "CREATE TABLE terms AS SELECT i AS id, 'term ' || i AS name FROM range(5) r(i)")
        yield uri
    host.close()


@pytest.fixture
def client(uri: str) -> Iterator[dbapi.Connection]:
    with dbapi.connect(uri, autocommit=True) as connection:
        yield connection


def explained(client: dbapi.Connection, sql: str, options: str = "FORMAT json") -> Any:
    """The JSON of an EXPLAIN."""
    ((_, text),) = rows(client, f"EXPLAIN ({options}) {sql}")
    return json.loads(text)


def test_explain_runs_nothing_and_shows_a_line_for_each_node(
    client: dbapi.Connection, engine: H200Engine
) -> None:
    before = len(engine.orders)
    ((key, text),) = rows(client, f"EXPLAIN {FILTER}")
    assert key == "physical_plan"
    assert len(engine.orders) == before
    lines = text.splitlines()
    assert lines[:2] == [
        "profile: hash",
        "limit: H200, datasheet; seconds: by the limit, nothing being calibrated",
    ]
    headings = ["rows", "fresh", "shared", "remembered", "pairs", "KV held", "seconds", "limit", "dollars"]
    assert [word.strip() for word in lines[2].split("  ") if word] == headings
    assert [line.split("  ")[0] for line in lines[3:5]] == ["result", "└ step 1: ask about body"]
    assert f"asked of {TEXTS}, 50% true (default, 5% to 95%)" in lines[5]


def test_analyze_runs_the_statement_and_the_estimates_were_right(
    client: dbapi.Connection, engine: H200Engine
) -> None:
    found = len(rows(client, FILTER))
    before = len(engine.orders)
    report = explained(client, FILTER, "ANALYZE, FORMAT json")
    assert len(engine.orders) == before + 1
    (step,) = report["steps"]
    assert step["estimate"]["rows_exact"]
    assert step["estimate"]["tokens_exact"]
    same = ("anchors", "partners", "rows", "fresh_tokens", "shared_tokens", "attention_pairs")
    assert {name: step["estimate"][name] for name in same} == {name: step["actual"][name] for name in same}
    assert report["total"]["actual"]["rows"] == found
    (question,) = step["questions"]
    assert question["asked"] == question["actual_asked"] == TEXTS
    assert 0 < question["actual_true"] < TEXTS
    assert engine.running[-1].figures().fresh_tokens == step["actual"]["fresh_tokens"]


def test_analyzed_text_has_actual_figures_below_the_estimated_ones(client: dbapi.Connection) -> None:
    ((key, text),) = rows(client, f"EXPLAIN ANALYZE {FILTER}")
    assert key == "analyzed_plan"
    lines = [line.split() for line in text.splitlines()]
    (step,) = (n for n, line in enumerate(lines) if line[:3] == ["└", "step", "1:"])
    assert lines[step + 1][:2] == ["actual", str(TEXTS)]
    assert lines[step + 1][1:6] == [part.removeprefix("~") for part in lines[step][6:11]]
    assert lines[-1][:2] == ["ran", "in"]


def test_a_join_is_explained_with_its_sides(client: dbapi.Connection) -> None:
    call = "AI_FILTER(PROMPT('Does {0} say {1}?', body, name), {'anchor': 'docs'})"
    sql = f"SELECT count(*) FROM docs JOIN terms ON {call}"
    (step,) = explained(client, sql, "ANALYZE, FORMAT json")["steps"]
    for figures in (step["estimate"], step["actual"]):
        assert (figures["anchors"], figures["partners"], figures["rows"]) == (TEXTS, 5, 5 * TEXTS)
    assert (step["anchors"], step["partners"]) == (["body"], ["name"])


def test_figures_are_priced_by_the_device(client: dbapi.Connection) -> None:
    report = explained(client, FILTER)
    assert (report["device"], report["dollars_per_hour"], report["calibrated"]) == ("H200", 3.6, False)
    estimate = report["steps"][0]["estimate"]
    assert estimate["limit_seconds"] > estimate["fresh_tokens"] * 3.67e-6
    assert estimate["seconds"] == estimate["limit_seconds"]
    assert estimate["dollars"] == pytest.approx(estimate["seconds"] * 3.6 / 3600)
    assert report["total"]["estimate"]["dollars"] == estimate["dollars"]


def test_measured_rates_predict_seconds(tmp_path: Path) -> None:
    engine = H200Engine()
    engine.rates = api.Rates(fresh_token_s=1e-3, pair_s=1e-6, read_token_s=0.0, chunk_s=0.5)
    host = Host()
    with host.serve(tmp_path, engine, Prices()) as uri, dbapi.connect(uri, autocommit=True) as connection:
        run(connection, "CREATE TABLE docs AS SELECT i AS id, 'document ' || i AS body FROM range(20) r(i)")
        report = explained(connection, FILTER)
    host.close()
    assert report["calibrated"]
    estimate = report["steps"][0]["estimate"]
    predicted = estimate["fresh_tokens"] * 1e-3 + estimate["attention_pairs"] * 1e-6 + 0.5
    assert estimate["seconds"] == pytest.approx(predicted)
    assert estimate["limit_seconds"] < estimate["seconds"]
    assert estimate["dollars"] is None


def test_verbose_shows_what_each_rule_changed_and_the_prompts(client: dbapi.Connection) -> None:
    sql = f"{FILTER} AND id > 3"
    ((_, text),) = rows(client, f"EXPLAIN VERBOSE {sql}")
    after = text.split("after push_down_cheap:\n")[1].splitlines()
    assert after[:3] == ["  filter AI_FILTER('Is it old?', body)", "  filter docs.id > 3", "  from docs"]
    assert "after join_last:" not in text
    assert "  shared prefix: " in text
    assert text.splitlines()[-1].startswith("then: SELECT id FROM docs WHERE ")
    rules = [change["rule"] for change in explained(client, sql, "VERBOSE, FORMAT json")["rules"]]
    assert rules == ["split_conjunctions", "push_down_cheap"]


def test_other_dialects_are_explained_too(uri: str) -> None:
    options = {"adbc.flight.sql.rpc.call_header.x-covey-dialect": "bigquery"}
    with dbapi.connect(uri, db_kwargs=options, autocommit=True) as connection:
        ((_, text),) = rows(connection, "EXPLAIN SELECT id FROM docs WHERE AI.IF(('Is it old? ', body))")
    assert "step 1: ask about body" in text


def test_explain_sees_a_transactions_rows_and_leaves_it_open(uri: str) -> None:
    with dbapi.connect(uri) as connection:
        run(connection, "INSERT INTO docs VALUES (1000, 'one more')")
        (step,) = explained(connection, FILTER)["steps"]
        assert (step["estimate"]["rows"], step["estimate"]["rows_exact"]) == (TEXTS + 1, True)
        assert rows(connection, "SELECT count(*) FROM docs") == [(61,)]
        connection.rollback()


def test_parameters_are_bound_before_a_plan_is_explained(client: dbapi.Connection) -> None:
    with client.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT json) {FILTER} AND id < ?", [10])
        report = json.loads(cursor.fetchall()[0][1])
    assert report["steps"][0]["estimate"]["rows"] == 10


def test_a_statement_without_ai_calls_is_explained_by_duckdb(client: dbapi.Connection) -> None:
    ((key, text),) = rows(client, "EXPLAIN SELECT id FROM docs WHERE id > 3")
    assert key == "physical_plan"
    assert "Seq Scan" in text
    assert "profile" not in text


@pytest.mark.parametrize("dialect", ["duckdb", "snowflake", "bigquery"])
@pytest.mark.parametrize(
    ("explain", "key"),
    [
        ("EXPLAIN VERBOSE", "physical_plan"),
        ("explain /* all */ analyze verbose", "analyzed_plan"),
        ("EXPLAIN (VERBOSE)", "physical_plan"),
        ("EXPLAIN (VERBOSE true, FORMAT json)", "physical_plan"),
        ("EXPLAIN (FORMAT json)", "physical_plan"),
        ("EXPLAIN (ANALYZE, verbose)", "analyzed_plan"),
    ],
)
def test_duckdb_explains_more_of_a_statement_as_it_explains_less(
    client: dbapi.Connection, dialect: str, explain: str, key: str
) -> None:
    run(client, f"SET ai_dialect = '{dialect}'")
    ((found, text),) = rows(client, f"{explain} SELECT id AS verbose FROM docs WHERE id > 3")
    assert found == key
    assert ("{" in text) == ("json" in explain)


def test_what_is_explained_at_length_is_not_run(client: dbapi.Connection) -> None:
    rows(client, "EXPLAIN VERBOSE DELETE FROM docs")
    with pytest.raises(dbapi.Error, match="EXPLAIN of COPY is not available"):
        rows(client, "EXPLAIN VERBOSE COPY docs TO 'x'")
    assert rows(client, "SELECT count(*) FROM docs") == [(60,)]


def test_what_goes_wrong_while_analyzing_is_the_statements_own_error(client: dbapi.Connection) -> None:
    with pytest.raises(dbapi.Error, match="Could not convert string"):
        rows(client, f"EXPLAIN ANALYZE SELECT CAST(body AS INTEGER) FROM ({FILTER.replace('id', 'body')})")


def test_an_unknown_option_is_named(client: dbapi.Connection) -> None:
    with pytest.raises(
        dbapi.Error, match="takes ANALYZE, VERBOSE and FORMAT text or json, not 'FORMAT graphviz'"
    ):
        rows(client, f"EXPLAIN (FORMAT graphviz) {FILTER}")


def test_every_kind_of_statement_is_explained(client: dbapi.Connection) -> None:
    for sql in [
        "SELECT id, AI_FILTER('Is it old?', body) FROM docs ORDER BY id LIMIT 3",
        "SELECT id FROM docs WHERE EXISTS (SELECT 1 FROM terms WHERE AI_FILTER(PROMPT('{0} {1}', body, name)))",
        "SELECT docs.id FROM docs LEFT JOIN terms ON docs.id = terms.id AND AI_FILTER('Is it old?', name)",
        "CREATE TABLE made AS SELECT id FROM docs WHERE AI_FILTER('Is it old?', body)",
        "INSERT INTO docs SELECT id, body FROM docs WHERE AI_FILTER('Is it old?', body)",
        "UPDATE docs SET body = 'old' WHERE AI_FILTER('Is it old?', body)",
        "DELETE FROM docs WHERE AI_FILTER('Is it old?', body)",
        "SELECT body FROM docs GROUP BY body HAVING AI_FILTER('Is it old?', body)",
        "WITH o AS (SELECT * FROM docs WHERE AI_FILTER('Is it old?', body)) SELECT AI_SCORE('Is it new?', body) FROM o",
        "SELECT AI_CLASSIFY(body, ['a', 'b']), AI_COUNT_TOKENS(body) FROM docs",
    ]:
        assert explained(client, sql)["steps"], sql
    assert rows(client, "SELECT count(*) FROM docs") == [(60,)]


def test_a_statement_that_writes_is_not_analyzed(client: dbapi.Connection) -> None:
    with pytest.raises(dbapi.Error, match="EXPLAIN ANALYZE would run a statement that writes: use EXPLAIN"):
        rows(client, "EXPLAIN ANALYZE DELETE FROM docs WHERE AI_FILTER('Is it old?', body)")
    assert rows(client, "SELECT count(*) FROM docs") == [(60,)]
