"""Subqueries and joins that need not be asked in full, through the client: its rows, for how many prompts."""

from __future__ import annotations

from collections.abc import Iterator

import adbc_driver_flightsql.dbapi as dbapi
import pytest
from covey_server.estimating import Prices
from support.asked import TABLES, Counted, counted
from support.sql import rows

pytestmark = pytest.mark.usefixtures("small_waves")
FITS, WANTS = (f"AI_FILTER(PROMPT('{{0}} and {{1}}: {word}', p.name, t.body))" for word in ("fits", "wants"))
SELDOM = FITS.replace("fits", "seldom")
PAIRS, LINKED, BOTH = 60 * 20, 400, f"{FITS} AND {WANTS}"


@pytest.fixture(scope="module", params=[None, Prices()], ids=["as written", "by cost"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counted]:
    with counted(tmp_path_factory.mktemp("tokens"), TABLES, request.param) as found:
        yield found


@pytest.mark.parametrize(
    ("condition", "most"),
    [
        # The question is about one side alone: it is asked where the rest leaves rows, and until it is settled.
        ("EXISTS (SELECT 1 FROM products p WHERE p.kind = 'z' AND AI_FILTER('o', t.body))", 0),
        (
            "EXISTS (SELECT 1 FROM products p WHERE p.kind = t.kind AND p.id < 1 AND AI_FILTER('o', t.body))",
            20,
        ),
        ("t.id < 7 AND EXISTS (SELECT 1 FROM products p WHERE AI_FILTER('o', t.body))", 7),
        ("t.id < 0 AND EXISTS (SELECT 1 FROM products p WHERE AI_FILTER('i', p.name))", 0),
        ("EXISTS (SELECT 1 FROM products p WHERE AI_FILTER('i', p.name))", 8),
        ("NOT EXISTS (SELECT 1 FROM products p WHERE AI_FILTER('i', p.name) ORDER BY p.id LIMIT 1)", 8),
        (
            "EXISTS (SELECT 1 FROM products p LEFT JOIN tickets u ON u.id = p.id WHERE AI_FILTER('i', p.name))",
            8,
        ),
        (
            "EXISTS (SELECT 1 FROM products p SEMI JOIN tickets u ON u.id = p.id WHERE AI_FILTER('i', p.name))",
            8,
        ),
        ("EXISTS (SELECT 1 FROM products p WHERE AI_FILTER('i', p.name) LIMIT 0)", 20),
        ("t.id IN (SELECT p.id FROM products p WHERE AI_FILTER('i', p.name) ORDER BY p.id LIMIT 3)", 20),
        (
            "EXISTS (SELECT 1 FROM products p LEFT JOIN tickets u ON u.id = t.id WHERE AI_FILTER('i', p.name))",
            20,
        ),
    ],
)
def test_questions_about_one_side(server: Counted, condition: str, most: int) -> None:
    assert server.check(f"SELECT t.id FROM tickets t WHERE {condition} ORDER BY t.id").total() <= most


@pytest.mark.parametrize("inner", [f"p.kind = t.kind AND {BOTH}", f"p.kind = t.kind AND ({FITS} OR {WANTS})"])
def test_two_questions_of_a_pair_cost_exists_what_they_cost_a_count(server: Counted, inner: str) -> None:
    word = "SELECT t.id FROM tickets t WHERE {} ORDER BY t.id"
    exists = server.check(word.format(f"EXISTS (SELECT 1 FROM products p WHERE {inner})"))
    count = server.check(word.format(f"(SELECT count(*) FROM products p WHERE {inner}) > 0"))
    # By cost, the second statement knows how often each question was true in the first.
    assert abs(exists.total() - count.total()) <= 0.1 * count.total()
    assert exists.total() < 0.8 * 1.5 * LINKED


@pytest.mark.parametrize(
    ("joins", "most"),
    [
        (f"SEMI JOIN products p ON p.kind = t.kind AND {FITS} WHERE t.id > 3 ORDER BY t.id", 0.6 * LINKED),
        (f"SEMI JOIN products p ON p.kind = t.kind AND {FITS} ORDER BY t.id LIMIT 3", 50),
        (f"ANTI JOIN products p ON p.kind = t.kind AND {SELDOM} ORDER BY t.id DESC LIMIT 3", 60),
        (
            f"LEFT JOIN products q ON q.id = t.id ANTI JOIN products p ON p.kind = t.kind AND {FITS} "
            "WHERE AI_FILTER('w', t.body) OR t.id < 9 ORDER BY t.id",
            0.8 * LINKED,
        ),
        # This one stays as it is written.
        (
            f"SEMI JOIN products p ON p.kind = t.kind AND {FITS} RIGHT JOIN products q ON q.id = t.id ORDER BY q.id",
            LINKED,
        ),
    ],
)
def test_semi_and_anti_joins(server: Counted, joins: str, most: float) -> None:
    assert server.check(f"SELECT t.id FROM tickets t {joins}").total() <= most


def test_an_ambiguous_column_stays_an_error(server: Counted) -> None:
    with pytest.raises(dbapi.ProgrammingError, match="ambiguous"):
        rows(server.client, "SELECT t.id FROM tickets t SEMI JOIN products p ON AI_FILTER('w', kind)")
