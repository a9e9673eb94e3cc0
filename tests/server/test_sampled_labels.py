"""A label and a score among other questions, sampled first through the client: rows, and what is known afterwards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from covey_server.estimating import Prices
from support.asked import Counted, counted
from support.sql import rows

TABLES = (
    "CREATE TABLE docs AS SELECT i AS id, i % 40 AS topic, 'a text of some length, number ' || i AS body "
    "FROM range(1600) r(i)",
    "CREATE TABLE notes AS SELECT i AS id, 'another text of the same length, ' || i AS note FROM range(1600) r(i)",
)
LABEL = "AI_CLASSIFY(d.body, ['a', 'b', 'c', 'd']) = 'a'"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counted]:
    with counted(tmp_path_factory.mktemp("tokens"), TABLES, Prices()) as found:
        yield found


@pytest.mark.parametrize("condition", [LABEL, "AI_SCORE('Is it seldom?', d.body) > 0.6"])
def test_a_sample_is_asked_and_its_answers_are_used(server: Counted, condition: str) -> None:
    sql = (
        "SELECT d.id FROM docs d JOIN notes n ON n.id = d.id "
        f"WHERE {condition} AND AI_FILTER('Is it often?', n.note) ORDER BY d.id"
    )
    said = "\n".join(str(row) for row in rows(server.client, f"EXPLAIN {sql}"))
    assert "sample" in said
    asked = server.check(sql)
    assert max(asked.values()) <= 1_600, "nothing is asked twice"
    assert sum(asked.values()) < 2 * 1_600
