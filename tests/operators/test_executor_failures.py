"""What goes wrong and what it leaves behind: nothing on the cursor, nothing on the disk, one clear line."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import duckdb
import pytest
from covey_engine.operators.errors import OperatorError, QueryCancelled, RowFailed, StatementFailed
from covey_engine.operators.executor import Executor, Result
from covey_engine.prefill.errors import EngineError, WorkerCrashed
from covey_planner.physical import AnchorText, AskStep, Domain, Text
from covey_storage.catalog import Database
from covey_storage.library import TokenLibrary
from covey_storage.tokenizer import Tokenizer
from support.fake_engine import FakeEngine, Faults, set_once_asked
from support.hand_plans import HEAD, ai, column_domain, computed, key, plain, question, rows, start

pytestmark = pytest.mark.usefixtures("leftovers")
DESCRIBE = "SELECT id FROM docs"
TEXT = "upper(d.body)"
RESIDUAL = f"SELECT d.id FROM docs d JOIN a0 ON a0.k0 = {key(TEXT)}"


def step(**options: object) -> AskStep:
    """A filter over a computed text, so that a scratch column is made."""
    sql = f"SELECT DISTINCT {key(TEXT)} AS k0 FROM docs d WHERE d.body IS NOT NULL"
    domain = Domain(sql, (computed(TEXT, "docs d WHERE d.body IS NOT NULL"),))
    return AskStep((HEAD, AnchorText()), (question("a0", Text("?"), **options),), domain)


PLAN = ai(RESIDUAL, DESCRIBE, step())


def good_rows(executor: Executor, cursor: duckdb.DuckDBPyConnection) -> list[tuple[int, ...]]:
    """The same query once more: the cursor is usable again."""
    return rows(start(executor, PLAN, cursor, query_id="again"))


def test_crash(executor: Executor, engine: FakeEngine, cursor: duckdb.DuckDBPyConnection) -> None:
    engine.faults = Faults(crash_after=10)
    result = start(executor, PLAN, cursor)
    with pytest.raises(WorkerCrashed, match="worker process ended"):
        rows(result)
    assert result.figures().prompts == 10
    engine.faults = Faults()
    assert good_rows(executor, cursor)


def test_refused_order(executor: Executor, engine: FakeEngine, cursor: duckdb.DuckDBPyConnection) -> None:
    engine.faults = Faults(refuse="the model is not loaded")
    with pytest.raises(EngineError, match="not loaded"):
        rows(start(executor, PLAN, cursor))


def test_failure_of_a_later_step(
    executor: Executor, engine: FakeEngine, cursor: duckdb.DuckDBPyConnection
) -> None:
    second = AskStep((HEAD, AnchorText()), (question("a1", Text("!")),), column_domain("docs", "no_such"))
    with pytest.raises(duckdb.BinderException):
        rows(start(executor, ai(RESIDUAL, DESCRIBE, step(), second), cursor))
    assert good_rows(executor, cursor)


def test_failure_of_the_residual(executor: Executor, cursor: duckdb.DuckDBPyConnection) -> None:
    residual = RESIDUAL.replace("SELECT d.id", "SELECT CAST(d.body AS INTEGER) AS id")
    with pytest.raises((duckdb.ConversionException, StatementFailed), match="Could not convert"):
        rows(start(executor, ai(residual, DESCRIBE, step()), cursor))
    assert good_rows(executor, cursor)


def test_row_without_an_answer(
    executor: Executor, engine: FakeEngine, tokenizer: Tokenizer, cursor: duckdb.DuckDBPyConnection
) -> None:
    marker = bytes(memoryview(tokenizer.encode_batch(["NUMBER 17"])[1]))
    engine.faults = Faults(poison=lambda data: marker in data)
    planned = ai(
        f"SELECT d.body FROM docs d JOIN a0 ON a0.answer IS NULL AND a0.k0 = {key(TEXT)}",
        "SELECT body FROM docs",
        step(keep="all"),
    )
    with pytest.raises(RowFailed, match=r"^upper\(d.body\) 'DOCUMENT NUMBER 17': no answer: .*not finite"):
        rows(start(executor, planned, cursor))
    assert engine.running[-1].cancelled
    assert rows(start(executor, planned, cursor, overflow="null")) == [("document number 17",)] * 2


def test_cancel_while_the_engine_is_silent(
    executor: Executor, engine: FakeEngine, cursor: duckdb.DuckDBPyConnection
) -> None:
    engine.faults = Faults(gate=threading.Event())
    cancel = threading.Event()
    result = start(executor, PLAN, cursor, cancel=cancel)
    set_once_asked(cancel, engine)
    with pytest.raises(QueryCancelled):
        rows(result)
    assert engine.running[-1].cancelled
    engine.faults = Faults()
    assert good_rows(executor, cursor)


def test_cancel_inside_duckdb(executor: Executor, cursor: duckdb.DuckDBPyConnection) -> None:
    cancel = threading.Event()
    slow = "SELECT sum(a.range * b.range % 7) AS id FROM range(10_000_000) a, range(1_000_000) b"
    threading.Timer(0.1, cancel.set).start()
    with pytest.raises(QueryCancelled):
        rows(start(executor, plain(slow), cursor, cancel=cancel))
    assert good_rows(executor, cursor)


def test_cancel_while_texts_are_tokenized(
    executor: Executor, engine: FakeEngine, cursor: duckdb.DuckDBPyConnection
) -> None:
    cursor.execute(
        "CREATE TABLE many AS SELECT i AS id, repeat('word ' || i, 200) AS body FROM range(20000) r(i)"
    )
    cancel = threading.Event()
    step = AskStep((HEAD, AnchorText()), (question("a0", Text("?")),), column_domain("many", "body"))
    result = start(executor, ai("SELECT 1 AS n FROM a0", "SELECT 1 AS n", step), cursor, cancel=cancel)
    threading.Timer(0.2, cancel.set).start()
    with pytest.raises(QueryCancelled):
        rows(result)
    assert engine.orders == []


def test_cancel_between_batches(executor: Executor, cursor: duckdb.DuckDBPyConnection) -> None:
    cancel = threading.Event()
    result = start(executor, plain("SELECT range AS id FROM range(10_000_000)"), cursor, cancel=cancel)
    next(result.batches)
    cancel.set()
    with pytest.raises(QueryCancelled):
        next(result.batches)
    assert good_rows(executor, cursor)


def test_cancelled_before_it_began(executor: Executor, cursor: duckdb.DuckDBPyConnection) -> None:
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(QueryCancelled):
        start(executor, PLAN, cursor, cancel=cancel)


@pytest.mark.parametrize("drop", [Result.close, lambda result: setattr(result, "batches", iter(()))])
def test_result_dropped_half_way(
    drop: Callable[[Result], None], executor: Executor, cursor: duckdb.DuckDBPyConnection
) -> None:
    residual = RESIDUAL + " JOIN range(1_000_000) ON true"
    result = start(executor, ai(residual, DESCRIBE, step()), cursor)
    assert next(result.batches).num_rows
    drop(result)
    assert good_rows(executor, cursor)


def test_result_never_read(executor: Executor, engine: FakeEngine, cursor: duckdb.DuckDBPyConnection) -> None:
    start(executor, PLAN, cursor).close()
    assert engine.orders == []


def test_the_callers_transaction_is_used_and_left_open(
    executor: Executor, database: Database, cursor: duckdb.DuckDBPyConnection
) -> None:
    cursor.begin()
    cursor.execute("INSERT INTO docs VALUES (500, 'en', 'only in this transaction')")
    planned = ai(f"SELECT d.id FROM docs d JOIN a0 ON a0.k0 = {key(TEXT)}", DESCRIBE, step(keep="all"))
    assert (500,) in rows(start(executor, planned, cursor))
    assert (500,) not in rows(start(executor, planned, database.cursor(), query_id="other"))
    cursor.rollback()
    assert (500,) not in rows(start(executor, planned, cursor))


def test_a_query_sees_one_snapshot(
    executor: Executor, engine: FakeEngine, database: Database, cursor: duckdb.DuckDBPyConnection
) -> None:
    """What others commit while the model works is not in the result."""
    engine.faults = Faults(gate=threading.Event())
    planned = ai(f"SELECT d.id FROM docs d JOIN a0 ON a0.k0 = {key(TEXT)}", DESCRIBE, step(keep="all"))
    result = start(executor, planned, cursor)
    found: list[tuple[int, ...]] = []
    reading = threading.Thread(target=lambda: found.extend(rows(result)))
    reading.start()
    while not engine.orders:
        time.sleep(0.01)
    other = database.cursor()
    other.execute("DELETE FROM docs WHERE id < 10")
    other.execute("INSERT INTO docs SELECT 600, 'en', body FROM docs WHERE id = 20")
    engine.faults.gate.set()
    reading.join()
    assert len(found) == 62
    assert (600,) not in found


def test_plain_results_stream(executor: Executor, cursor: duckdb.DuckDBPyConnection) -> None:
    """The first batch of an endless statement comes at once, parameters or not."""
    endless = "SELECT a.range AS id FROM range(?) a, range(1_000_000) b"
    begun = time.monotonic()
    result = start(executor, plain(endless), cursor, (1_000_000,))
    assert next(result.batches).num_rows == 16_384
    assert time.monotonic() - begun < 5
    result.close()


def test_statements_without_rows(executor: Executor, cursor: duckdb.DuckDBPyConnection) -> None:
    assert rows(start(executor, plain("CREATE TABLE made (a INTEGER)"), cursor)) == []
    assert rows(start(executor, plain("INSERT INTO made VALUES (1), (2)"), cursor)) == [(2,)]
    assert rows(start(executor, plain("SELECT a FROM made"), cursor)) == [(1,), (2,)]


def test_many_queries_at_once(
    executor: Executor, library: TokenLibrary, database: Database, cursor: duckdb.DuckDBPyConnection
) -> None:
    expected = good_rows(executor, cursor)
    found: list[object] = []

    def query(number: int) -> None:
        own = database.cursor()
        try:
            for turn in range(3):
                found.append(rows(start(executor, PLAN, own, query_id=f"{number}.{turn}")))
        except Exception as error:
            found.append(error)

    threads = [threading.Thread(target=query, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 18


def test_profile_whose_answers_are_not_tokens(
    database: Database, library: TokenLibrary, tokenizer: Tokenizer, cursor: duckdb.DuckDBPyConnection
) -> None:
    from dataclasses import replace

    from covey_planner.profiles import load_profile

    wrong = replace(load_profile("smollm2_question_first"), name="wrong", yes=("Certainly",))
    executor = Executor(database, library, tokenizer, FakeEngine(), profiles=lambda name: wrong)
    with pytest.raises(OperatorError, match="profile wrong: the answer 'Certainly' is not one token"):
        start(executor, PLAN, cursor)
