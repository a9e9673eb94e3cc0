"""A query's progress and its user, between the server and the operators; without a network or a model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa
import pytest
from covey_engine.prefill.api import Figures, Progress
from covey_server.core import Core
from covey_server.execution import AiPlan, AiResult, ExecutionContext
from covey_server.guard import Checked
from covey_server.lanes import Lane
from covey_server.query import Query
from covey_server.sessions import Sessions
from covey_server.statements import EMPTY, Outline, Parameters

BATCH = pa.record_batch({"n": [1, 2, 3]})


@dataclass
class Model:
    """A planner, a plan and its result in one: two batches; `now` is what the model says of itself."""

    schema: pa.Schema = BATCH.schema
    outline: Outline = field(default_factory=lambda: Outline(BATCH.schema, EMPTY, False, False, False))
    users: list[str] = field(default_factory=list)
    now: Progress = field(default_factory=lambda: Progress(0, 0))

    def plan(
        self,
        _checked: Checked,
        _cursor: duckdb.DuckDBPyConnection,
        _parameters: Parameters | None,
    ) -> AiPlan | None:
        return self

    def changed(self, _names: frozenset[str]) -> None:
        pass

    def concerns(self, _names: frozenset[str]) -> bool:
        return False

    def execute(self, context: ExecutionContext) -> AiResult:
        self.users.append(context.user)
        self.batches: Iterator[pa.RecordBatch] = iter([BATCH, BATCH])
        return self

    def figures(self) -> Figures:
        return Figures(fresh_tokens=self.now.fresh_tokens)

    def progress(self) -> Progress:
        return self.now

    def close(self) -> None:
        """Nothing is held."""


@pytest.fixture
def model() -> Model:
    return Model()


def test_progress_reaches_polls_and_the_system_table(core: Core, model: Model) -> None:
    checked = core.guard.check("SELECT n FROM t WHERE AI_FILTER('Is it?', n)")
    query = Query(core, checked, Lane(core.database, lambda: None), user="ann")
    query.plan()

    def seen() -> tuple[object, ...]:
        (row,) = core.history.table().to_pylist()
        return row["fresh_tokens"], row["tokens_to_come"], row["seconds_to_come"]

    assert query.progress is None
    assert seen() == (0, 0, None)
    query.start()
    assert model.users == ["ann"]
    assert query.progress is None
    model.now = Progress(300, 900, 4.5)
    assert query.progress == 0.25
    assert seen() == (300, 900, 4.5)
    assert query.next()
    model.now = Progress(1_000, 200, 1.0)
    assert query.progress == pytest.approx(1_000 / 1_200)
    query.close("cancelled")
    assert seen() == (1_000, 0, 0.0)


def test_sessions_of_one_host_are_one_user(core: Core) -> None:
    sessions = Sessions(core.database, 60, 60)
    first, second = (sessions.find(None, None, f"ipv4:10.0.0.1:{port}") for port in (4711, 4712))
    other = sessions.find(None, None, "ipv6:%5B::1%5D:4711")
    issued = sessions.issue()
    assert sessions.find(issued.id, None, "ipv4:10.0.0.2:5000") is issued
    assert first is not second
    assert [s.user for s in (first, second, other, issued)] == [
        "ipv4:10.0.0.1",
        "ipv4:10.0.0.1",
        "ipv6:%5B::1%5D",
        "ipv4:10.0.0.2",
    ]
