"""Comparisons that all answers pass, or none: what they are of NULL, and that nothing is asked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from covey_server.estimating import Prices
from support.asked import TABLES, Counted, counted
from support.sql import rows

WITH_NULLS = (
    *TABLES,
    "CREATE TABLE notes AS SELECT i AS id, CASE WHEN i % 3 > 0 THEN 'note ' || i END AS body, "
    "CASE WHEN i % 4 > 0 THEN 'more ' || i END AS more FROM range(24) r(i)",
)
SCORE, BOTH = "AI_SCORE('new', n.body)", "AI_SCORE(PROMPT('{0} and {1}: alike', n.body, n.more))"
LABEL = "AI_CLASSIFY(n.body, ['a', 'b'])"
PAIR = "AI_SCORE(PROMPT('{0} and {1}: fits', n.body, p.name))"


@pytest.fixture(scope="module", params=[None, Prices()], ids=["as written", "by cost"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counted]:
    with counted(tmp_path_factory.mktemp("tokens"), WITH_NULLS, request.param) as found:
        yield found


@pytest.mark.parametrize(
    "condition",
    [
        f"{SCORE} >= 0",
        f"{SCORE} > -1",
        f"0 <= {SCORE}",
        f"{SCORE} > 1",
        f"{SCORE} <= 1.0",
        f"{SCORE} < 0",
        f"NOT {SCORE} < 0",
        f"{SCORE} >= 2 OR n.id < 5",
        f"NOT ({SCORE} > 1 AND n.id < 5)",
        f"NOT ({SCORE} <= 1 OR n.id < 5)",
        f"{BOTH} >= 0",
        f"NOT {BOTH} > 1",
        f"{LABEL} = 'c'",
        f"{LABEL} <> 'c'",
        f"{LABEL} NOT IN ('c', 'd')",
        f"{LABEL} IN ('b', 'a', 'c')",
        f"AI_SENTIMENT(n.body) = 'furious' OR {SCORE} < 2",
        f"EXISTS (SELECT 1 FROM products p WHERE {PAIR} >= 0 AND p.id = n.id)",
        f"NOT EXISTS (SELECT 1 FROM products p WHERE {PAIR} > 1 AND p.id = n.id)",
        f"n.id IN (SELECT p.id FROM products p WHERE {PAIR} <= 1)",
    ],
)
def test_nothing_is_asked(server: Counted, condition: str) -> None:
    assert not server.check(f"SELECT n.id FROM notes n WHERE {condition} ORDER BY n.id")


@pytest.mark.parametrize("kind", ["", "LEFT ", "RIGHT ", "FULL ", "SEMI ", "ANTI "])
@pytest.mark.parametrize("test", [">= 0", "> 1"])
def test_nothing_is_asked_in_a_joins_condition(server: Counted, kind: str, test: str) -> None:
    columns = "n.id" if kind in ("SEMI ", "ANTI ") else "n.id, p.id"
    sql = f"SELECT {columns} FROM notes n {kind}JOIN products p ON {PAIR} {test} AND p.id < 5"
    assert not server.check(f"{sql} ORDER BY ALL")


@pytest.mark.parametrize(
    ("condition", "asked"),
    [
        (f"{SCORE} > 0", 16),  # a probability may be as good as 0
        (f"{SCORE} >= 1", 16),
        (f"{SCORE} > 1 OR AI_FILTER('old', n.body)", 16),
        (f"{SCORE} <= 1 AND AI_FILTER('old', n.more)", 12),  # of those with a body only
        (f"{LABEL} IN ('a', 'c')", 16),
    ],
)
def test_what_is_left_open_is_asked(server: Counted, condition: str, asked: int) -> None:
    found = server.check(f"SELECT n.id FROM notes n WHERE {condition} ORDER BY n.id")
    assert found.total() == asked


def test_explain_has_no_step(server: Counted) -> None:
    found = rows(server.client, f"EXPLAIN SELECT n.id FROM notes n WHERE {SCORE} >= 0")
    assert "step 1" not in str(found)
    assert "result" in str(found)
