"""SQL through planner, operators and storage; the oracle: plain DuckDB, calls as functions of tokens."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from covey_engine.operators.executor import Executor
from covey_planner.physical import AnchorText, PartnerText, Text
from covey_planner.plan import Planned
from covey_planner.profiles import PromptProfile, load_profile
from covey_planner.prompts import filter_prompt, join_prompt, parse_template
from covey_storage.catalog import Database
from covey_storage.tokenizer import Tokenizer
from support.fake_engine import FakeEngine, Faults, truth
from support.hand_plans import TABLES, rows, start

pytestmark = pytest.mark.usefixtures("leftovers")

Run = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture(params=["smollm2_question_first", "smollm2_document_first", "smollm2_short"])
def profile(request: pytest.FixtureRequest) -> PromptProfile:
    return load_profile(request.param)


@pytest.fixture
def covey(executor: Executor, planned: Callable[..., Planned], cursor: duckdb.DuckDBPyConnection) -> Run:
    return lambda sql, *parameters: rows(start(executor, planned(sql, parameters), cursor))


@pytest.fixture
def oracle(tokenizer: Tokenizer, profile: PromptProfile) -> Run:
    """The same statements over functions; two arguments make a join unless `one_relation` is set."""
    connection = duckdb.connect()
    connection.execute(TABLES)
    joins = True

    def answer(parts: Sequence[str | None]) -> bool | None:
        template, *documents = parts
        if any(document is None for document in documents):
            return None
        parsed = parse_template(template or "", len(documents))
        join = joins and len(documents) == 2
        prompt = join_prompt(parsed, profile, (0,), (1,)) if join else filter_prompt(parsed, profile)
        tokens: list[int] = []
        for segment in (*prompt.prefix, *prompt.suffix):
            match segment:
                case Text(text):
                    tokens += tokenizer.encode(text, special=True)
                case AnchorText(argument):
                    tokens += tokenizer.encode(documents[argument] or "")
                case PartnerText(argument):
                    tokens += tokenizer.encode(documents[argument + 1] or "")
        return truth(tokens)

    connection.create_function("ai_filter", answer, ["VARCHAR[]"], "BOOLEAN", null_handling="special")
    connection.execute(
        "CREATE MACRO prompt (t, a) AS [t, CAST(a AS VARCHAR)],"
        " (t, a, b) AS [t, CAST(a AS VARCHAR), CAST(b AS VARCHAR)]"
    )

    def run(sql: str, *parameters: object, one_relation: bool = False) -> list[tuple[Any, ...]]:
        nonlocal joins
        joins = not one_relation
        return sorted(connection.execute(sql, parameters).fetchall(), key=repr)

    return run


STATEMENTS = {
    title: sql
    for title, _, sql in (
        part.partition("\n")
        for part in (Path(__file__).parent / "queries.sql").read_text("utf-8").split("\n-- ")[1:]
    )
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_same_rows_as_the_oracle(name: str, covey: Run, oracle: Run, engine: FakeEngine) -> None:
    sql = STATEMENTS[name]
    assert covey(sql) == oracle(sql, one_relation=name == "two arguments")
    prompts = sum(order.items for order in engine.orders)
    if name in ("empty table", "join with an empty table", "no survivors"):
        assert prompts == 0


def test_parameters(covey: Run, oracle: Run) -> None:
    sql = "SELECT id FROM docs WHERE lang = ? AND AI_FILTER(PROMPT('Is {0} long?', body || ?)) AND id < ?"
    values = ("de", "'; --", 40)
    assert covey(sql, *values) == oracle(sql, *values)


@pytest.mark.parametrize("profile", ["smollm2_document_first"], indirect=True)
def test_announced_schema(
    executor: Executor, planned: Callable[..., Planned], cursor: duckdb.DuckDBPyConnection
) -> None:
    """Names and types of a result are those announced, equal names and odd types included."""
    sql = (
        "SELECT id, id, lang AS \"a b\", count(*) AS n, sum(id), [1, 2] AS l, DATE '2024-01-01' d, 1.50 AS m,"
        " {'x': 1} AS s FROM docs WHERE AI_FILTER('Is it long?', body) GROUP BY ALL"
    )
    result = start(executor, planned(sql), cursor)
    assert result.schema.names == ["id", "id", "a b", "n", "sum(id)", "l", "d", "m", "s"]
    batches = list(result.batches)
    assert batches
    assert all(batch.schema == result.schema for batch in batches)
    assert pa.types.is_decimal(result.schema.field("m").type)


@pytest.mark.parametrize("profile", ["smollm2_document_first"], indirect=True)
def test_queries_at_once(
    executor: Executor, database: Database, planned: Callable[..., Planned], oracle: Run, engine: FakeEngine
) -> None:
    """Threads with statements of their own, some of which crash, on one database and one engine."""
    wanted = {name: oracle(STATEMENTS[name]) for name in ("two filters", "join", "computed")}
    wrong: list[object] = []

    def query(thread: int, name: str, turns: int) -> None:
        try:
            for turn in range(turns):
                found = rows(
                    start(
                        executor,
                        planned(STATEMENTS[name]),
                        database.cursor(),
                        query_id=f"{thread}.{turn}",
                    )
                )
                if found != wanted[name]:
                    wrong.append((name, found))
        except Exception as error:
            wrong.append(error)

    names = (*wanted, *wanted)
    threads = [threading.Thread(target=query, args=(n, name, 3)) for n, name in enumerate(names)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    engine.faults = Faults(crash_after=3)
    query(9, "computed", 1)
    assert len(wrong) == 1
    assert "worker process ended" in str(wrong[0])
