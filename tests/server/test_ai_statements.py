"""AI statements through the real client on the embedded model: answers, figures, early errors, a killed worker."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import adbc_driver_flightsql.dbapi as dbapi
import pandas
import polars
import psutil
import pytest
from support.serving import ServerProcess, serve
from support.sql import rows, run, table

ABOUT = "AI_FILTER(PROMPT('Is this about an animal? {0}', says))"
RECOVERY_SECONDS = 60


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with the embedded model and a table of short texts, one of them NULL and two of them alike."""
    folder = tmp_path_factory.mktemp("asked")
    process = serve(folder, ready_seconds=180)
    with dbapi.connect(process.uri, autocommit=True) as connection:
        run(
            connection,
            "CREATE TABLE notes AS SELECT * FROM (VALUES (1, 'The owl hoots.'), (2, 'The bus is late.'), (3, NULL), "
            "(4, 'The owl hoots.'), (5, '')) AS t(id, says)",
        )
        run(
            connection,
            "CREATE TABLE many AS SELECT range AS id, 'Row ' || range || repeat(' and more of it', 30) AS says "
            "FROM range(400)",
        )
        run(connection, "CREATE TABLE odd AS SELECT 1 AS id, 'x'::BLOB AS bytes, [1, 2] AS list")
        run(connection, "CREATE TABLE long AS SELECT 7 AS id, repeat('word ', 9000) AS body")
    yield process
    assert process.stop() == 0
    assert "Traceback" not in process.output()


@pytest.fixture
def client(asked: ServerProcess) -> Iterator[dbapi.Connection]:
    """A connection that commits each statement."""
    with dbapi.connect(asked.uri, autocommit=True) as connection:
        yield connection


def test_equal_texts_get_equal_answers_and_null_gets_none(client: dbapi.Connection) -> None:
    answers = dict(rows(client, f"SELECT id, {ABOUT} AS animal FROM notes ORDER BY id"))
    assert answers[1] is not None
    assert answers[1] == answers[4]
    assert answers[3] is None
    assert answers[5] is not None
    kept = [row[0] for row in rows(client, f"SELECT id FROM notes WHERE {ABOUT} ORDER BY id")]
    assert kept == [number for number, answer in answers.items() if answer]
    dropped = [row[0] for row in rows(client, f"SELECT id FROM notes WHERE NOT {ABOUT} ORDER BY id")]
    assert dropped == [number for number, answer in answers.items() if answer is False]


def test_labels_and_scores(client: dbapi.Connection) -> None:
    label, score = (
        "AI_CLASSIFY(says, ['bird', 'public transport', 'public holiday'])",
        ABOUT.replace("FILTER", "SCORE"),
    )
    found = table(
        client, f"SELECT id, {label} AS label, {score} AS score, {ABOUT} AS animal FROM notes ORDER BY id"
    )
    assert [str(kind) for kind in found.schema.types] == ["int32", "string", "double", "bool"]
    answers = {row["id"]: row for row in found.to_pylist()}
    assert answers[1]["label"] == answers[4]["label"]
    assert {answers[n]["label"] for n in (1, 2, 5)} <= {"bird", "public transport", "public holiday"}
    assert answers[3] == {"id": 3, "label": None, "score": None, "animal": None}
    assert all((row["score"] > 0.5) == row["animal"] for row in answers.values() if row["id"] != 3)
    assert all(0 < row["score"] < 1 for row in answers.values() if row["id"] != 3)
    counted = rows(client, f"SELECT {label} AS label, count(*) FROM notes WHERE {score} >= 0 GROUP BY label")
    known = [row["label"] for number, row in answers.items() if number != 3]
    assert dict(counted) == {name: known.count(name) for name in known}
    ranked = [row[0] for row in rows(client, f"SELECT id FROM notes WHERE id <> 3 ORDER BY {score} DESC, id")]
    assert ranked == sorted((n for n in answers if n != 3), key=lambda n: (-answers[n]["score"], n))
    mood = rows(client, "SELECT DISTINCT AI_SENTIMENT(says) FROM notes WHERE id <> 3")
    assert {row[0] for row in mood} <= {"positive", "negative", "neutral", "mixed"}


@pytest.mark.parametrize("labels", ["[?, ?]", "?"])
def test_labels_from_parameters(client: dbapi.Connection, labels: str) -> None:
    values = ("animal", "it's a bus") if labels == "[?, ?]" else (["animal", "it's a bus"],)
    sql = f"SELECT AI_CLASSIFY(says, {labels}) FROM notes WHERE id = 1"
    (answer,) = rows(client, sql, values)[0]
    assert answer in {"animal", "it's a bus"}


def test_figures_count_each_distinct_text_once(client: dbapi.Connection) -> None:
    sql = f"SELECT count(*) FROM notes WHERE {ABOUT} AND id > 0"
    rows(client, sql)
    found = rows(
        client,
        "SELECT prompts, prompt_tokens, fresh_tokens, shared_tokens, prefix_tokens_saved, state "
        "FROM covey_queries "
        f"WHERE sql = '{sql.replace(chr(39), chr(39) * 2)}'",
    )
    prompts, alone, fresh, shared, alike, state = found[-1]
    assert prompts == 3  # of five rows: one is NULL, two are alike
    assert alone == fresh + shared
    assert 0 < fresh < alone
    assert alike == 0
    assert state == "finished"


def test_results_reach_arrow_pandas_and_polars(client: dbapi.Connection) -> None:
    sql = f"SELECT id, {ABOUT} AS animal FROM notes WHERE id < 3 ORDER BY id"
    arrow = table(client, sql)
    assert arrow.column_names == ["id", "animal"]
    assert pandas.read_sql(sql, client)["animal"].tolist() == arrow["animal"].to_pylist()
    assert polars.read_database(sql, client)["animal"].to_list() == arrow["animal"].to_pylist()


def test_parameters_reach_predicates_and_prompts(client: dbapi.Connection) -> None:
    assert rows(client, f"SELECT count(*) FROM notes WHERE id = ? AND {ABOUT} IS NOT NULL", (2,)) == [(1,)]
    asked = "SELECT AI_FILTER('Is this about an animal?', ?) IS NOT NULL"
    assert rows(client, asked, ("The owl hoots.",)) == [(True,)]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT * FROM notes WHERE AI_FILTER(PROMPT('Is it {0}?', sayz))", "sayz"),
        ("SELECT * FROM nots WHERE AI_FILTER(PROMPT('Is it {0}?', says))", "nots"),
        ("SELECT * FROM notes WHERE AI_FILTER(PROMPT('Is {0} like {1}?', says))", "{1}"),
        ("SELECT * FROM odd WHERE AI_FILTER(PROMPT('Is it {0}?', bytes))", "bytes"),
        ("SELECT * FROM odd WHERE AI_FILTER(PROMPT('Is it {0}?', list))", "list"),
        ("SELECT AI_COMPLETE('write a poem') FROM notes", "AI_COMPLETE"),
    ],
)
def test_a_wrong_statement_is_refused_before_any_cost(client: dbapi.Connection, sql: str, said: str) -> None:
    with pytest.raises(dbapi.ProgrammingError) as caught:
        rows(client, sql)
    message = str(caught.value)
    assert said in message
    assert "\n" not in message.strip()
    assert "Traceback" not in message
    assert rows(client, "SELECT 1") == [(1,)]


def test_a_text_longer_than_the_context_is_named(client: dbapi.Connection) -> None:
    with pytest.raises(dbapi.ProgrammingError) as caught:
        rows(client, "SELECT * FROM long WHERE AI_FILTER(PROMPT('Is it long? {0}', body))")
    message = str(caught.value)
    assert "8192" in message.replace(",", "")
    assert "word word" in message
    assert "Traceback" not in message


def test_a_session_may_leave_long_texts_unanswered(client: dbapi.Connection) -> None:
    sql = "SELECT AI_FILTER(PROMPT('Is it long? {0}', body)) FROM (FROM long UNION ALL SELECT 8, 'A short text.')"
    run(client, "SET ai_on_overflow = 'null'")
    assert {row[0] is None for row in rows(client, sql)} == {True, False}
    run(client, "RESET ai_on_overflow")
    with pytest.raises(dbapi.ProgrammingError, match="ai_on_overflow = 'null' or 'truncate' would go on"):
        rows(client, sql)


def test_deeply_nested_statements_are_planned_or_refused(client: dbapi.Connection) -> None:
    def nested(depth: int) -> str:
        return f"EXPLAIN SELECT id FROM notes WHERE {ABOUT} AND {'(' * depth}id > 0{')' * depth}"

    assert len(rows(client, nested(100))) == 1
    with pytest.raises(dbapi.ProgrammingError, match="nested too deeply"):
        rows(client, nested(20_000))
    assert rows(client, "SELECT 1") == [(1,)]


PAIR = "AI_FILTER(PROMPT('{0} is about {1}', n.says, t.name))"


def _prompts(client: dbapi.Connection, sql: str) -> int:
    """How many prompts the last run of a statement asked."""
    quoted = sql.replace("'", "''")
    found = rows(client, f"SELECT prompts FROM covey_queries WHERE sql = '{quoted}' ORDER BY started")
    return int(found[-1][0])


def test_limit_and_exists_ask_no_more_than_they_need(client: dbapi.Connection) -> None:
    run(client, "CREATE OR REPLACE TABLE things AS SELECT 'thing ' || range AS name FROM range(40)")
    about = "AI_FILTER('Is it {}?', name)"
    every = f"SELECT name FROM things WHERE {about.format('an animal')} OR NOT {about.format('a bus')}"
    limited = every + " LIMIT 2"
    found, everything = rows(client, limited), rows(client, every)
    assert set(found) <= set(everything)
    assert len(found) == min(2, len(everything))
    assert _prompts(client, limited) < _prompts(client, every) or len(everything) < 2
    inner = f"things t WHERE {PAIR} OR NOT {PAIR.replace('about', 'near')}"
    word = "SELECT n.id FROM notes n WHERE {} ORDER BY n.id"
    first, in_full = (
        word.format(text) for text in (f"EXISTS (SELECT 1 FROM {inner})", f"(SELECT sum(1) FROM {inner}) > 0")
    )
    settled = rows(client, first)
    assert settled == rows(client, in_full)
    assert _prompts(client, first) < _prompts(client, in_full) or not settled
    (plan,) = rows(client, f"EXPLAIN {first}")
    assert "until: each anchor's first match" in plan[1]


def test_a_derived_table_that_reads_others_leaves_the_transaction_alone(client: dbapi.Connection) -> None:
    """To find out that it reads others, the planner tries to read it alone; a failure would end the transaction."""
    inner = "SELECT f.says FROM notes f WHERE f.id = n.id AND AI_FILTER(PROMPT('Is {0} like {1}?', n.says, f.says))"
    run(client, "BEGIN")
    rows(client, f"SELECT n.id, x.says FROM notes n, ({inner}) x")
    assert rows(client, "SELECT 1") == [(1,)]
    run(client, "COMMIT")


def test_a_running_query_says_how_long_it_will_take(asked: ServerProcess, client: dbapi.Connection) -> None:
    sql = f"SELECT count(*) FROM many WHERE {ABOUT} AND id >= 0"
    quoted = sql.replace("'", "''")
    look = f"SELECT fresh_tokens, tokens_to_come, seconds_to_come FROM covey_queries WHERE sql = '{quoted}'"
    seen: list[tuple[int, int, float]] = []
    with dbapi.connect(asked.uri, autocommit=True) as other, other.cursor() as cursor:
        running = threading.Thread(target=_all, args=(cursor, sql))
        running.start()
        while len(seen) < 2 and running.is_alive():
            seen += [row for row in rows(client, look) if row[2] and row not in seen]
            time.sleep(0.05)
        cursor.adbc_cancel()
        running.join()
    first, second = seen
    assert first[0] < second[0]
    assert first[1] > second[1] > 0


def _all(cursor: dbapi.Cursor, sql: str) -> None:
    """Run a statement that may be cancelled."""
    with suppress(dbapi.Error):
        cursor.execute(sql)
        cursor.fetchall()


def _worker(server: ServerProcess) -> int:
    found = [
        child.pid
        for child in psutil.Process(server.pid).children(recursive=True)
        if "covey_engine.prefill.process.worker" in " ".join(child.cmdline())
    ]
    assert len(found) == 1
    return found[0]


def test_a_killed_worker_fails_its_query_and_the_next_one_works(
    asked: ServerProcess, client: dbapi.Connection
) -> None:
    killed: list[float] = []

    def kill() -> None:
        time.sleep(2)
        os.kill(_worker(asked), signal.SIGKILL)
        killed.append(time.monotonic())

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(dbapi.Error, match="worker"):
        rows(client, f"SELECT count(*) FROM many WHERE {ABOUT}")
    killer.join()
    assert rows(client, f"SELECT count(*) FROM notes WHERE {ABOUT} IS NOT NULL") == [(4,)]
    seconds = time.monotonic() - killed[0]
    print(f"answered {seconds:.1f} s after the kill")
    assert seconds < RECOVERY_SECONDS


def test_two_clients_ask_at_once(asked: ServerProcess) -> None:
    answers: list[object] = []

    def ask() -> None:
        with dbapi.connect(asked.uri, autocommit=True) as connection:
            answers.append(rows(connection, f"SELECT id, {ABOUT} FROM many WHERE id < 10 ORDER BY id"))

    clients = [threading.Thread(target=ask) for _ in range(4)]
    for one in clients:
        one.start()
    for one in clients:
        one.join()
    assert len(answers) == 4
    assert all(answer == answers[0] for answer in answers)
