"""AI_CLASSIFY with many labels of which several may fit, through the client: one look-up a list, wherever it stands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from covey_planner.lowering import label_lists
from support.asked import Counted, counted
from support.sql import rows

TABLES = (
    "CREATE TABLE texts AS SELECT i AS id, CASE WHEN i % 7 <> 3 THEN 'text ' || i % 11 END AS body, 'q' || i AS other "
    "FROM range(30) r(i)",
)
LABELS = "AI_CLASSIFY({}, ['a', 'it''s b', 'c', 'd'], {{'output_mode': 'multi'}})"
BODY = LABELS.format("body")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counted]:
    with counted(tmp_path_factory.mktemp("tokens"), TABLES) as found:
        yield found


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT id, {BODY} FROM texts ORDER BY id",
        f"SELECT id FROM texts WHERE list_contains({BODY}, 'it''s b') ORDER BY id",
        f"SELECT id FROM texts WHERE len({BODY}) > 1 OR AI_FILTER('x', other) ORDER BY id",
        f"SELECT id FROM texts WHERE {BODY} IS NULL ORDER BY id",
        f"SELECT id, {BODY} AS l FROM texts WHERE list_contains({BODY}, 'a') ORDER BY id LIMIT 4",
        f"SELECT {BODY} AS l, count(*) FROM texts GROUP BY l ORDER BY 2, 1",
        f"SELECT id FROM texts ORDER BY len({BODY}) DESC NULLS LAST, id LIMIT 5",
        f"SELECT id, CASE WHEN id > 9 THEN {BODY} END AS l FROM texts ORDER BY id",
        f"SELECT unnest({BODY}) AS l, count(*) FROM texts GROUP BY 1 ORDER BY 1",
        f"SELECT t.id FROM texts t WHERE EXISTS (SELECT 1 FROM texts u WHERE u.id = t.id + 1 AND "
        f"list_contains({LABELS.format('u.body')}, 'c')) ORDER BY t.id",
        f"SELECT t.id, u.id FROM texts t LEFT JOIN texts u ON u.id = t.id AND list_contains({LABELS.format('u.body')},"
        " 'd') ORDER BY t.id",
        f"SELECT t.id, u.id FROM texts t FULL JOIN texts u ON u.id = t.id + 1 AND "
        f"list_contains({LABELS.format('u.body')}, 'd') ORDER BY t.id, u.id",
        f"SELECT max(id), {LABELS.format('max(body)')} FROM texts GROUP BY id % 5 ORDER BY 1",
        f"SELECT id, row_number() OVER (PARTITION BY {BODY} ORDER BY id) FROM texts ORDER BY id",
    ],
)
def test_a_list_looked_up_is_the_list_written_out(
    server: Counted, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    server.engine.asked.clear()
    written = rows(server.client, sql)
    asked = server.engine.asked.total()
    monkeypatch.setattr(label_lists, "FEW", 1)
    assert rows(server.client, sql) == written
    assert written
    assert server.engine.asked.total() == 2 * asked


def test_many_labels(server: Counted) -> None:
    labels = ", ".join(f"'label {n}'" for n in range(120))
    call = f"AI_CLASSIFY(body, [{labels}], {{'output_mode': 'multi'}})"
    found = rows(
        server.client, f"SELECT id, {call} FROM texts WHERE list_contains({call}, 'label 7') AND id < 9"
    )
    assert {row[0] for row in found} <= {0, 1, 2, 4, 5, 6, 7, 8}
    assert found
    for _, chosen in found:
        assert "label 7" in chosen
        assert chosen == sorted(chosen, key=lambda label: int(label.split()[1]))
        assert 20 < len(chosen) < 100
