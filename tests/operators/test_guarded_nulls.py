"""Where an answer is missing, questions that another one guards are asked as NULL demands, in one step or several."""

from __future__ import annotations

import duckdb
import pytest
from covey_engine.operators.executor import Executor
from covey_planner.plan import PlanOptions, plan
from covey_planner.profiles import load_profile
from covey_storage.catalog import Database
from covey_storage.library import TokenLibrary
from covey_storage.tokenizer import Tokenizer
from support.fake_engine import FakeEngine, Faults
from support.hand_plans import rows, start

pytestmark = pytest.mark.usefixtures("leftovers")
LONG = "Is it so, as far as can be told from what stands there, which may be little or much, all in all?"
FORMS = (
    "IF({a}, {b}, {c})",
    "CASE WHEN {a} THEN 1 WHEN {b} THEN 2 WHEN {c} THEN 3 END",
    "CASE WHEN {b} THEN {a} WHEN n > 2 AND {a} THEN {c} END",
    "{a} AND {b} OR {c}",
    "({a} OR {b}) AND {c}",
    "coalesce({a}, {b}, {c})",
    "coalesce({b} AND {a}, {c})",
    "IF({a} IS NULL, {b}, {c})",
    "IF({b}, {a}, {c}), {a}",
)


@pytest.fixture
def cursor(database: Database) -> duckdb.DuckDBPyConnection:
    cursor = database.cursor()
    cursor.execute(
        "CREATE TABLE long (id INTEGER, body VARCHAR, n INTEGER);"
        "INSERT INTO long SELECT i, repeat(chr(CAST(97 + i // 2 AS INTEGER)), 1 + 11 * (i // 2)),"
        " CASE WHEN i % 5 <> 4 THEN i % 5 END FROM range(50) r(i)"
    )
    return cursor


@pytest.mark.parametrize(
    "statement",
    [f"SELECT id, {form} FROM long" for form in FORMS]
    + [
        "SELECT id, {c} FROM long WHERE {a} AND {b}",
        "SELECT id FROM long WHERE {a} OR NOT {b}",
        "SELECT id, IF({b}, 1, IF({c}, 2, 3)) FROM long WHERE NOT {a}",
        "SELECT id FROM long WHERE (n > 1 AND {a}) OR {b}",
        "SELECT id FROM long WHERE IF({a}, {b}, {c})",
    ],
)
@pytest.mark.parametrize("fault", ["too long", "not finite"])
def test_as_in_steps_of_their_own(
    database: Database,
    library: TokenLibrary,
    tokenizer: Tokenizer,
    cursor: duckdb.DuckDBPyConnection,
    statement: str,
    fault: str,
) -> None:
    questions = (LONG, "Is it red?", "Is it blue, or rather green?")
    asked = (f"AI_FILTER('{question}', body)" for question in questions)
    sql = statement.format(**dict(zip("abc", asked, strict=True)))
    engine = FakeEngine(context_length=480 if fault == "too long" else 8192)
    if fault == "not finite":
        engine.faults = Faults(poison=lambda data: sum(data) % 3 == 0)
    executor = Executor(database, library, tokenizer, engine)
    profile = load_profile("smollm2_document_first")
    found = []
    for optimize in (True, False):
        planned = plan(sql, database, PlanOptions(profile, optimize=optimize))
        result = start(executor, planned, cursor, overflow="null")
        found.append(rows(result))
        if optimize:
            assert len(result.steps()) == 1
    assert [row for row in found[0] if row not in found[1]] == []
    assert [row for row in found[1] if row not in found[0]] == []
    assert found[0] == found[1]
