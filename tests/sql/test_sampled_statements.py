"""Every statement of the .slt files and random ones, with samples asked first wherever they can be, however few rows
there are, and the plan made again after each: the rows are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import adbc_driver_flightsql.dbapi as dbapi
import pytest
from covey_engine.operators import sampled
from covey_planner.lowering import sampling
from covey_planner.ordering import doubt
from covey_server.estimating import Prices
from support.hash_server import Host, client, run_all
from support.slt import complaint, first_of_each_label, parse

FILES = sorted(Path(__file__).parent.glob("*.slt"))


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever may be sampled is, a little, and always matters."""
    for name, value in (("LEAST_ITEMS", 1), ("MATTERS", -1.0), ("_SURPLUS", -1e9)):
        monkeypatch.setattr(doubt, name, value)
    for name, value in (("TEXTS", 2), ("PAIRS", 4), ("PARTNERS", 2)):
        monkeypatch.setattr(sampling, name, value)
    monkeypatch.setattr(sampled, "LEAST", 1)


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    host = Host()
    yield host
    host.close()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_statements(path: Path, host: Host, tmp_path: Path) -> None:
    records = parse(path.read_text("utf-8"))
    with host.serve(tmp_path, prices=Prices()) as uri, dbapi.connect(uri, autocommit=True) as connection:
        names, labelled = frozenset({"covey", "duckdb", "optimizer-on"}), first_of_each_label(records)
        wrong = [
            complaint(record, outcome, labelled)
            for record, outcome in run_all(records, names, client(connection))
        ]
    found = [text for text in wrong if text is not None]
    assert not found, "\n\n".join(found)
