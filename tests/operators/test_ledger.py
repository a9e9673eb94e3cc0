"""A query's progress is that of its work orders together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from covey_engine.operators.asking import Ledger
from covey_engine.prefill.api import Progress


@pytest.mark.parametrize(
    ("parts", "together"),
    [
        ([], Progress(0, 0, 0)),
        ([Progress(10, 0, 0.0), Progress(5, 20, 1.5)], Progress(15, 20, 1.5)),
        ([Progress(10, 0, 0.0), Progress(0, 0)], Progress(10, 0, None)),
    ],
)
def test_orders_add_up(parts: list[Progress], together: Progress) -> None:
    running: list[Any] = [SimpleNamespace(progress=lambda part=part: part) for part in parts]
    assert Ledger(running).progress() == together
