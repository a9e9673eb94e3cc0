"""Every statement of the .slt files and random ones, with samples asked first wherever they can be, however few rows
there are, the plan made again after each, and the sides of every other step exchanged that allows it: the rows are the
same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import adbc_driver_flightsql.dbapi as dbapi
import pytest
from covey_engine.operators import exchanging, sampled
from covey_engine.operators.known import Known
from covey_planner.lowering import sampling
from covey_planner.ordering import doubt
from covey_planner.ordering.anchors import Weighed
from covey_planner.physical import AskStep
from covey_server.estimating import Prices
from hypothesis import HealthCheck, given, settings
from support.hash_server import Host, Run, client, oracle, run_all
from support.random_sql import queries
from support.random_tables import TABLES
from support.slt import Record, complaint, first_of_each_label, parse

FILES = sorted(Path(__file__).parent.glob("*.slt"))
MANY = {"joins", "subqueries", "where"}
"""Files of whose statements several can be sampled."""


@pytest.fixture(scope="module", autouse=True)
def asked() -> Iterator[list[int]]:
    """Whatever may be sampled is, a little, and always matters; yields how much was, sample by sample."""
    found: list[int] = []
    add = Known.add
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("LEAST_ITEMS", 1), ("MATTERS", -1.0), ("_price", lambda *_: -1e9)):
            patch.setattr(doubt, name, value)
        for name, count in (("TEXTS", 2), ("PAIRS", 4), ("PARTNERS", 2)):
            patch.setattr(sampling, name, count)
        patch.setattr(sampled, "LEAST", 1)
        patch.setattr(
            Known,
            "add",
            lambda self, step, subjects, answers: (
                found.append(subjects.items),
                add(self, step, subjects, answers),
            ),
        )
        yield found


@pytest.fixture(scope="module", autouse=True)
def exchanged() -> Iterator[list[AskStep]]:
    """Sides are exchanged whatever they cost, about every other time; yields the steps of which they were."""
    found: list[AskStep] = []
    given = exchanging.exchanged
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Weighed, "exchanged", property(lambda weighed: int(weighed.planned) % 2 == 0))
        patch.setattr(exchanging, "exchanged", lambda step: (found.append(step), given(step))[1])
        yield found


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    host = Host()
    yield host
    host.close()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_statements(
    path: Path, host: Host, tmp_path: Path, asked: list[int], exchanged: list[AskStep]
) -> None:
    asked.clear()
    exchanged.clear()
    records = parse(path.read_text("utf-8"))
    with host.serve(tmp_path, prices=Prices()) as uri, dbapi.connect(uri, autocommit=True) as connection:
        names, labelled = frozenset({"covey", "duckdb", "optimizer-on"}), first_of_each_label(records)
        wrong = [
            complaint(record, outcome, labelled)
            for record, outcome in run_all(records, names, client(connection))
        ]
    found = [text for text in wrong if text is not None]
    assert not found, "\n\n".join(found)
    assert path.stem not in MANY or len(asked) > 5
    assert path.stem != "joins" or len(exchanged) > 10


@pytest.fixture(scope="module")
def sides(host: Host, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Run, Run]]:
    """The server and the oracle, with the tables of random queries."""
    folder = tmp_path_factory.mktemp("tokens")
    with host.serve(folder, prices=Prices()) as uri, dbapi.connect(uri, autocommit=True) as connection:
        both = client(connection), oracle()
        for text in TABLES.strip().split(";\n"):
            for run in both:
                assert run(Record(0, "ok", text.rstrip(";"))).error is None
        yield both


@settings(
    max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
@given(sql=queries())
@pytest.mark.timeout(300)
def test_random_queries(sides: tuple[Run, Run], sql: str) -> None:
    found, expected = (run(Record(0, "query", sql)) for run in sides)
    if expected.rows is None or (found.error is not None and "not supported" in found.error):
        return
    assert found.error is None, f"{sql}\n{found.error}"
    assert found.rows is not None
    assert Counter(map(repr, found.rows)) == Counter(map(repr, expected.rows)), sql
