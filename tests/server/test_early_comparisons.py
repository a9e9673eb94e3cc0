"""Scores compared with numbers and labels with labels, where not all need be asked: rows and prompts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from covey_server.estimating import Prices
from support.asked import TABLES, Counted, counted

pytestmark = pytest.mark.usefixtures("small_waves")
SOLD, LABEL = "AI_SCORE('sold', p.name) > 0.7", "AI_CLASSIFY(p.name, ['a', 'b']) = 'a'"
FITS = "AI_SCORE(PROMPT('{0} and {1}: fits', t.body, p.name)) > 0.7"
CHOICE = "AI_CLASSIFY(PROMPT('{0} and {1}', p.name, t.body), ['a', 'b']) = 'a'"
PAIRS, LINKED = 60 * 20, 400


@pytest.fixture(scope="module", params=[None, Prices()], ids=["as written", "by cost"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counted]:
    with counted(tmp_path_factory.mktemp("tokens"), TABLES, request.param) as found:
        yield found


@pytest.mark.parametrize(
    ("condition", "most"),
    [
        (f"EXISTS (SELECT 1 FROM products p WHERE p.kind = t.kind AND {SOLD})", 12),
        (f"NOT EXISTS (SELECT 1 FROM products p WHERE {SOLD})", 8),
        (f"EXISTS (SELECT 1 FROM products p WHERE p.kind = t.kind AND {LABEL})", 12),
        (f"t.kind IN (SELECT p.kind FROM products p WHERE {SOLD})", 12),
        (f"t.kind NOT IN (SELECT p.kind FROM products p WHERE {LABEL})", 12),
        (f"EXISTS (SELECT 1 FROM products p WHERE p.kind = t.kind AND {FITS})", 0.6 * LINKED),
        (f"EXISTS (SELECT 1 FROM products p WHERE {FITS})", 0.2 * PAIRS),
        (f"(SELECT count(*) FROM products p WHERE {FITS}) >= 2", 0.4 * PAIRS),
        (f"EXISTS (SELECT 1 FROM products p WHERE p.kind = t.kind AND {CHOICE})", 0.6 * LINKED),
        (f"EXISTS (SELECT 1 FROM products p WHERE {CHOICE})", PAIRS),
        (
            f"EXISTS (SELECT 1 FROM products p WHERE p.kind = t.kind AND AI_FILTER('old', p.name) AND {SOLD})",
            30,
        ),
    ],
)
def test_subqueries(server: Counted, condition: str, most: float) -> None:
    assert server.check(f"SELECT t.id FROM tickets t WHERE {condition} ORDER BY t.id").total() <= most


@pytest.mark.parametrize(
    ("sql", "most"),
    [
        ("SELECT id FROM tickets WHERE AI_SCORE('new', body) > 0.5 ORDER BY id LIMIT 5", 20),
        ("SELECT id FROM tickets WHERE AI_SCORE('new', body) <= 0.5 ORDER BY id DESC LIMIT 5", 40),
        ("SELECT id FROM tickets WHERE AI_CLASSIFY(body, ['a', 'b']) = 'a' ORDER BY id LIMIT 5", 40),
        ("SELECT id FROM tickets WHERE AI_CLASSIFY(body, ['a', 'b']) <> 'a' ORDER BY id LIMIT 5", 40),
    ],
)
def test_limits(server: Counted, sql: str, most: int) -> None:
    assert server.check(sql).total() <= most


def test_any_rows_below_a_limit_will_do(server: Counted) -> None:
    for condition in ("AI_SCORE('new', body) > 0.5", "AI_CLASSIFY(body, ['a', 'b']) = 'a'"):
        everything = server.oracle.execute(f"SELECT id FROM tickets WHERE {condition}").fetchall()
        server.engine.asked.clear()
        with server.client.cursor() as cursor:
            cursor.execute(f"SELECT id FROM tickets WHERE {condition} LIMIT 3")
            found = cursor.fetchall()
        assert len(found) == 3
        assert set(found) <= set(everything)
        assert server.engine.asked.total() <= 16


def test_a_score_shown_below_the_limit_is_asked_again_for_its_rows_alone(server: Counted) -> None:
    sql = "SELECT id, AI_SCORE('new', body) AS s FROM tickets WHERE AI_SCORE('new', body) > 0.5 LIMIT 4"
    server.engine.asked.clear()
    with server.client.cursor() as cursor:
        cursor.execute(sql)
        assert all(score > 0.5 for _, score in cursor.fetchall())
    assert server.engine.asked.total() <= 24
