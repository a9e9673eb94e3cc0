"""The three dialects through `covey.connect`, the command and the shell, on the embedded model."""

from __future__ import annotations

import io

import covey
import pytest
from covey.cli import main

WHERE = "WHERE id = 4"
LABELS = "['apps', 'printers', 'payments']"
SAYS = {
    "duckdb": [
        f"SELECT id FROM tickets {WHERE} AND AI_FILTER(PROMPT('Is this about a printer? {{0}}', body)) ORDER BY id",
        f"SELECT id, AI_CLASSIFY(body, {LABELS}) AS label FROM tickets {WHERE} ORDER BY id",
        f"SELECT id, AI_SCORE(PROMPT('Is this about a printer? {{0}}', body)) AS s FROM tickets {WHERE} ORDER BY id",
    ],
    "snowflake": [
        f"SELECT id FROM tickets {WHERE} AND AI_FILTER(PROMPT('Is this about a printer? {{0}}', body)) ORDER BY id",
        f"SELECT id, AI_CLASSIFY(body, {LABELS}):labels[0]::STRING AS label FROM tickets {WHERE} ORDER BY id",
        f"SELECT id, AI_SCORE(PROMPT($$Is this about a printer? {{0}}$$, body)) AS s FROM tickets {WHERE} ORDER BY id",
    ],
    "bigquery": [
        f"SELECT id FROM `tickets` {WHERE} AND AI.IF(('Is this about a printer? ', body)) ORDER BY id",
        f"SELECT id, AI.CLASSIFY(body, categories => {LABELS}) AS label FROM tickets {WHERE} ORDER BY id",
        f'SELECT id, AI.SCORE(prompt => ("Is this about a printer? ", body)) AS s FROM tickets {WHERE} ORDER BY id',
    ],
}


def answers(connection: covey.Connection, dialect: str) -> list[list[tuple[object, ...]]]:
    with connection.cursor() as cursor:
        return [cursor.execute(sql).fetchall() for sql in SAYS[dialect]]


def test_the_same_answers_in_all_three(uri: str, connection: covey.Connection) -> None:
    expected = answers(connection, "duckdb")
    assert {label for _, label in expected[1]} <= {"apps", "printers", "payments"}
    for dialect in ("snowflake", "bigquery"):
        with covey.connect(uri, dialect=dialect) as other:
            assert answers(other, dialect) == expected
            run = other.last_run()
            assert run is not None
            assert run.state == "finished"
            assert run.prompts == 1


def test_the_session_changes_its_dialect(connection: covey.Connection) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET ai_dialect = 'snowflake'")
        cursor.execute(f"SELECT AI_CLASSIFY(body, {LABELS}) AS c FROM tickets {WHERE}")
        (answer,) = cursor.fetch_arrow_table()["c"].to_pylist()
        assert answer.keys() == {"labels"}
        assert {answer["labels"][0]} < {"apps", "printers", "payments"}
        cursor.execute("SET ai_dialect = 'bigquery'")
        cursor.execute(f"SELECT AI.CLASSIFY(body, {LABELS}) AS c FROM `tickets` WHERE id = ?", (1,))
        assert cursor.fetchone()[0] in LABELS


def test_an_unknown_dialect(uri: str) -> None:
    with pytest.raises(ValueError, match="'oracle' is not a dialect: there is duckdb, snowflake, bigquery"):
        covey.connect(uri, dialect="oracle")


def test_the_command_takes_it(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    sql = "SELECT IFF(id > 1, 'yes', 'no') AS x FROM tickets WHERE id = 2"
    assert main(["sql", "--uri", uri, "--dialect", "snowflake", "--format", "csv", sql]) == 0
    assert "yes" in capsys.readouterr().out
    assert main(["sql", "--uri", uri, "--format", "csv", sql]) == 1


def test_the_shell_takes_it(
    uri: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO('SELECT "yes" AS x FROM `tickets` WHERE id = 2;'))
    assert main(["shell", "--uri", uri, "--dialect", "bigquery"]) == 0
    assert "yes" in capsys.readouterr().out
