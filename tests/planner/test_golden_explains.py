"""EXPLAIN of many shapes of statements under statistics that are written down, on the devices whose peaks are known.

`python tests/planner/test_golden_explains.py` writes the texts anew; read the difference before you keep it.
"""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest
from covey_planner.cost.devices import DATASHEETS, datasheet
from covey_planner.cost.roofline import Pricing, Rates, Roofline
from covey_planner.cost.shape import ModelShape
from covey_planner.cost.statistics import CallKey, Pinned, Selectivity, TokenCount
from covey_planner.plan import PlanOptions, plan
from support.plan_reference import DOCUMENT_FIRST, SHORT, MemoryCatalog
from support.small_tables import build

GOLDENS = Path(__file__).with_name("golden_explains.txt")

QWEN3_4B = ModelShape(36, 2560, 32, 8, 128, 9728, linear="fp8")
MEASURED = Rates(7e-6, 2e-11, 2e-8, 1e-3, 16_384)
"""Of an H200, roughly."""

ROWS = {"tickets": 50_000, "products": 400, "defects": 3_000, "open_tickets": 25_000}
SHARES = {"product = 3": 0.1, "id < 100": 0.002, "cat = 'a'": 0.25, "note LIKE": 0.05, "ticket > 9": 0.9}
"""The share of rows for which a predicate holds, by what its text contains."""


class Counts(dict[str, float]):
    """Rows of an AI-free query by its text: those of its largest table that its predicates and a LIMIT leave."""

    def __contains__(self, sql: object) -> bool:
        return True

    def get(self, sql: str, default: object = None) -> float:  # type: ignore[override]
        read = [ROWS.get(name, 1) for name in re.findall(r"(?:FROM|JOIN) \(*(\w+)", sql)]
        share = 1.0
        for text, part in SHARES.items():
            share *= part if text in sql else 1.0
        found = max(read, default=1) * share
        limit = re.search(r"LIMIT (\d+)", sql)
        return found if limit is None else min(found, float(limit[1]))


def texts(rows: int, distinct: int, mean: int, exact: bool = True) -> TokenCount:
    return TokenCount(rows, distinct, rows * mean, distinct * mean, mean, exact)


STATISTICS = Pinned(
    tables={name: float(rows) for name, rows in ROWS.items()},
    columns={
        ("tickets", "id"): 50_000,
        ("tickets", "product"): 400,
        ("products", "id"): 400,
        ("products", "cat"): 4,
        ("defects", "id"): 3_000,
        ("defects", "product"): 400,
    },
    texts={
        ("tickets", "body"): texts(48_000, 40_000, 300),
        ("tickets", "note"): texts(50_000, 12_000, 20, exact=False),
        ("products", "name"): texts(400, 380, 6),
        ("products", "description"): texts(400, 400, 60),
        ("defects", "title"): texts(3_000, 2_900, 12),
    },
    queries=Counts(),
    answers={
        CallKey("Is it late?\n{0}", ("tickets.body",)): Selectivity(0.2, 0.15, 0.25, "remembered"),
        CallKey("Is it rude?\n{0}", ("tickets.body",)): Selectivity(0.03, 0.01, 0.06, "sample"),
    },
)


def cases() -> list[tuple[str, str, str, str]]:
    """Device, name, statement and text of each golden."""
    found = []
    for part in GOLDENS.read_text("utf-8").split("## ")[1:]:
        head, _, rest = part.partition("\n")
        device, _, name = head.partition(": ")
        sql, _, text = rest.partition("\n=>\n")
        found.append((device, name, sql.strip(), text.rstrip("\n")))
    return found


def explained(catalog: MemoryCatalog, device: str, sql: str) -> str:
    """What EXPLAIN says. device: a datasheet's, `measured` for an H200 that was calibrated, `none` for no device."""
    profile = datasheet("H200" if device == "measured" else device)
    limit = None if profile is None else Roofline(QWEN3_4B, profile, 16_384)
    pricing = Pricing(limit, MEASURED if device == "measured" else None, 3.6 if profile is not None else 0.0)
    options = PlanOptions(
        SHORT if "short" in sql else DOCUMENT_FIRST,
        encode=lambda text, _: tuple(map(ord, text)),
        pricing=pricing,
    )
    found = plan(sql, catalog, options, (), STATISTICS)
    assert found.explain is not None
    return found.text


@pytest.mark.parametrize(
    ("device", "sql", "text"), [(d, sql, text) for d, _, sql, text in cases()], ids=[c[1] for c in cases()]
)
def test_text(catalog: MemoryCatalog, device: str, sql: str, text: str) -> None:
    assert explained(catalog, device, sql) == text


def test_there_are_enough_goldens_and_each_known_device_shows() -> None:
    assert len(cases()) >= 30
    assert len({name for _, name, _, _ in cases()}) == len(cases())
    for device in DATASHEETS:
        assert any(f"limit: {device.name}, datasheet" in text for _, _, _, text in cases()), device.name


def refresh() -> None:
    """Write what EXPLAIN says now into the file."""
    with duckdb.connect() as connection:
        build(connection)
        catalog = MemoryCatalog(connection)
        parts = [
            f"## {device}: {name}\n{sql}\n=>\n{explained(catalog, device, sql)}\n"
            for device, name, sql, _ in cases()
        ]
    GOLDENS.write_text("\n".join(parts), "utf-8")


if __name__ == "__main__":
    refresh()
