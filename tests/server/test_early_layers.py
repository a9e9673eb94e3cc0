"""Questions inside derived tables, CTEs, views and UNION branches: rows, and that no more is asked than decides."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.asked import TABLES, Counted, counted
from support.sql import rows, run

pytestmark = pytest.mark.usefixtures("small_waves")
NEW = "SELECT * FROM tickets WHERE AI_FILTER('new', body)"
SOLD = "SELECT * FROM products WHERE AI_FILTER('sold', name)"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counted]:
    with counted(tmp_path_factory.mktemp("tokens"), TABLES) as found:
        run(found.client, f"CREATE VIEW fresh AS {NEW}")
        yield found


@pytest.mark.parametrize(
    ("sql", "most"),
    [
        (f"SELECT * FROM ({NEW}) d WHERE d.id < 10", 10),
        (f"SELECT * FROM ({NEW}) ORDER BY id LIMIT 3", 16),
        (f"WITH d AS ({NEW}) SELECT id FROM d WHERE kind = 'a' ORDER BY id DESC LIMIT 3", 16),
        (f"SELECT t.id FROM tickets t WHERE EXISTS (SELECT 1 FROM ({SOLD}) p WHERE p.kind = t.kind)", 12),
        (f"WITH s AS ({SOLD}) SELECT t.id FROM tickets t WHERE t.kind IN (SELECT kind FROM s)", 12),
        (
            f"WITH s AS ({SOLD}) SELECT t.id FROM tickets t WHERE t.id NOT IN (SELECT s.id FROM s) AND t.id < 5",
            5,
        ),
        (f"SELECT b.id FROM ({NEW}) b LEFT JOIN products p ON b.id = p.id WHERE b.kind = 'a'", 20),
        # All of it is wanted.
        (f"SELECT p.id, coalesce(b.id, -1) FROM products p LEFT JOIN ({NEW}) b ON b.id = p.id", 60),
    ],
)
def test_layers(server: Counted, sql: str, most: int) -> None:
    assert server.check(sql, ordered="ORDER" in sql).total() <= most


def test_a_view_below_a_limit(server: Counted) -> None:
    server.engine.asked.clear()
    found = rows(server.client, "SELECT id FROM fresh ORDER BY id LIMIT 3")
    assert found == server.oracle.execute(f"{NEW.replace('*', 'id')} ORDER BY id LIMIT 3").fetchall()
    assert server.engine.asked.total() <= 16


@pytest.mark.parametrize("word", ["EXISTS", "NOT EXISTS"])
def test_each_branch_of_a_union_until_one_has_a_row(server: Counted, word: str) -> None:
    branches = [
        f"SELECT p.id FROM products p WHERE p.kind = t.kind AND AI_FILTER('{q}', p.name)"
        for q in ("sold", "old")
    ]
    asked = server.check(
        f"SELECT t.id FROM tickets t WHERE {word} ({' UNION '.join(branches)})", ordered=False
    )
    assert asked["sold"] <= 12
    assert asked["old"] <= 12
