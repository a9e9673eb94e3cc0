"""Statements with many labels: what planning looks at grows with the labels, not with their square."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from covey_planner.binding import groups, select
from covey_planner.plan import PlanOptions, plan
from support.plan_reference import DOCUMENT_FIRST

COLUMNS = {"docs": {"id": "INTEGER", "body": "VARCHAR"}}


class Stored:
    """A catalog of one table."""

    def columns(self) -> dict[str, dict[str, str]]:
        return COLUMNS

    def describe(self, sql: str) -> list[tuple[str, str]]:
        return [("x", "VARCHAR[]"), ("n", "BIGINT")]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], int]:
    """How many nodes the binder looks at for aggregates in a statement with so many labels."""
    looked = 0
    is_aggregate = groups.is_aggregate

    def counting(node: object) -> bool:
        nonlocal looked
        looked += 1
        return is_aggregate(node)  # type: ignore[arg-type]

    def count(sql: str, labels: int) -> int:
        nonlocal looked
        looked = 0
        names = ", ".join(f"'label {n}'" for n in range(labels))
        asked = f"AI_CLASSIFY(body, [{names}], output_mode => 'multi')"
        plan(sql.format(asked), Stored(), PlanOptions(DOCUMENT_FIRST))
        return looked

    for module in (groups, select):
        monkeypatch.setattr(module, "is_aggregate", counting)
    return count


@pytest.mark.parametrize(
    "sql", ["SELECT {0} AS x, 1 AS n FROM docs", "SELECT {0} AS x, count(*) AS n FROM docs GROUP BY {0}"]
)
def test_what_is_looked_at_grows_with_the_labels(looks: Callable[[str, int], int], sql: str) -> None:
    few, many = looks(sql, 12), looks(sql, 48)
    assert 0 < few < many <= 5 * few
