"""How long things live: sessions, transactions, prepared statements, results, records; without a network."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest
from covey_server.core import Core
from covey_server.errors import BadRequest, NoSuchThing, Stopped
from covey_server.lanes import Lane
from covey_server.lifecycle import History, Record
from covey_server.query import Query
from covey_server.registry import Prepared, Registry
from covey_server.results import Rows
from covey_server.sessions import Sessions
from covey_server.statements import EMPTY, Outline

BATCH = pa.record_batch({"n": [1, 2, 3]})


def planned(core: Core, sql: str) -> Query:
    query = Query(core, core.guard.check(sql), Lane(core.database, lambda: None))
    query.plan()
    return query


def states(core: Core) -> list[str]:
    return core.history.table()["state"].to_pylist()


def test_a_prepared_statement_nobody_uses_is_closed(core: Core) -> None:
    for ttl, there in ((60.0, True), (-1.0, False)):
        registry = Registry(ttl, 60)
        checked = core.guard.check("SELECT 1")
        outline = Outline(EMPTY, EMPTY, update=False, counts=False, eager=False)
        handle = registry.prepare(Prepared(checked, outline, "session", None))
        registry.reap()
        if there:
            assert registry.prepared(handle).checked is checked
        else:
            with pytest.raises(NoSuchThing, match="has expired"):
                registry.prepared(handle)


def test_a_session_takes_its_prepared_statements_along(core: Core) -> None:
    registry = Registry(60, 60)
    outline = Outline(EMPTY, EMPTY, update=False, counts=False, eager=False)
    ours, theirs = (
        registry.prepare(Prepared(core.guard.check("SELECT 1"), outline, session, None))
        for session in ("ours", "theirs")
    )
    registry.close_session("ours")
    registry.prepared(theirs)
    with pytest.raises(NoSuchThing):
        registry.prepared(ours)


def test_a_result_nobody_fetches_expires_and_one_being_fetched_does_not(core: Core) -> None:
    registry = Registry(60, -1)
    forgotten, fetched = planned(core, "SELECT 1"), planned(core, "SELECT 2")
    registry.add(forgotten)
    registry.add(fetched)
    registry.fetch(fetched.id)
    with pytest.raises(NoSuchThing, match="fetched already"):
        registry.fetch(fetched.id)
    registry.reap()
    assert [query.id for query in registry.live()] == [fetched.id]
    assert states(core) == ["expired", "planned"]
    fetched.close()


def test_an_idle_transaction_is_rolled_back(core: Core) -> None:
    sessions = Sessions(core.database, 60, -1)
    session = sessions.find(None, None, "peer")
    transaction = sessions.begin(session)
    with transaction.statement() as cursor:
        cursor.execute("CREATE TABLE never (n INTEGER)")
        # Held by a statement, it is not idle, whatever the clock says.
        other = threading.Thread(target=sessions.reap)
        other.start()
        other.join()
        assert sessions.transaction(transaction.id) is transaction
    sessions.reap()
    with pytest.raises(NoSuchThing, match="has expired"):
        sessions.transaction(transaction.id)
    assert core.database.columns() == {}  # type: ignore[attr-defined]


def test_an_unused_session_is_forgotten_but_not_its_transaction(core: Core) -> None:
    sessions = Sessions(core.database, -1, 60)
    idle, busy = sessions.find(None, None, "one"), sessions.find(None, None, "two")
    transaction = sessions.begin(busy)
    sessions.reap()
    assert sessions.find(None, None, "one") is not idle
    assert sessions.find(None, None, "two") is busy
    sessions.end(transaction, commit=False)


def test_a_token_goes_before_a_cookie_before_a_connection(core: Core) -> None:
    sessions = Sessions(core.database, 60, 60)
    by_token = sessions.issue()
    by_peer = sessions.find(None, None, "peer")
    assert sessions.find(None, None, "peer") is by_peer
    assert sessions.find(by_token.id, by_peer.id, "peer") is by_token
    assert sessions.find("None", by_peer.id, "elsewhere") is by_peer
    assert sessions.find(None, None, "peer") is not by_peer


def test_the_history_forgets_the_oldest() -> None:
    history = History(2)
    for name in "abc":
        history.add(Record(name, f"SELECT '{name}'"))
    assert history.table()["query_id"].to_pylist() == ["b", "c"]


def test_a_record_ends_once() -> None:
    record = Record("a", "SELECT 1")
    record.end("failed", "it broke")
    seconds = record.seconds
    time.sleep(0.01)
    record.end("finished")
    assert (record.state, record.error, record.seconds) == ("failed", "it broke", seconds)


def test_spooled_rows_come_before_what_went_wrong() -> None:
    closed: list[bool] = []

    def source() -> Iterator[pa.RecordBatch]:
        yield BATCH
        yield BATCH
        raise duckdb.ConversionException("row 7 is no number")

    rows = Rows(BATCH.schema, source(), lambda: closed.append(True))
    assert rows.next() == BATCH
    assert rows.spool() == 3
    assert closed == [True]
    assert rows.next() == BATCH
    with pytest.raises(duckdb.ConversionException, match="row 7"):
        rows.next()
    assert rows.next() is None
    rows.close()
    assert closed == [True]


def test_a_result_larger_than_memory_allows_is_spooled_to_a_file(core: Core) -> None:
    query = planned(core, "SELECT range AS n, repeat('x', 100) AS s FROM range(500000)")
    assert query.spool() == 500_000
    count = 0
    while (frames := query.next()) is not None:
        count += sum(map(len, frames))
    assert count > 50_000_000
    assert states(core) == ["finished"]


def test_a_table_that_changed_in_between_asks_to_run_again(core: Core) -> None:
    planned(core, "CREATE TABLE t AS SELECT 1 AS n")
    query = planned(core, "SELECT * FROM t")
    planned(core, "CREATE OR REPLACE TABLE t AS SELECT 'one' AS n")
    with pytest.raises(BadRequest, match="run it again"):
        query.start()
    assert states(core) == ["finished", "failed", "finished"]


def test_an_interruption_that_comes_before_duckdb_begins_is_repeated(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = planned(core, "SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b")
    interrupt, calls = Lane.interrupt, iter(range(100))

    def late(lane: Lane) -> None:
        # DuckDB forgets what comes before a statement has begun: so does this, twice.
        if next(calls) >= 2:
            interrupt(lane)

    monkeypatch.setattr(Lane, "interrupt", late)
    threading.Timer(0.1, query.cancel).start()
    with pytest.raises(Stopped, match="cancelled"):
        query.spool()
    assert states(core) == ["cancelled"]


def test_cancelling_before_the_start_is_enough(core: Core) -> None:
    query = planned(core, "SELECT 1")
    query.cancel()
    with pytest.raises(Stopped):
        query.start()
    assert states(core) == ["cancelled"]
