"""Statements of which the first rows alone come out, through the client: the rows of DuckDB, from few questions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.asked import Counted, counted

pytestmark = pytest.mark.usefixtures("small_waves")

TABLES = (
    "CREATE TABLE tickets AS SELECT i AS id, 'ticket ' || i AS body, 'note ' || i % 5 AS note, i % 4 AS prio, "
    "CASE WHEN i % 10 <> 3 THEN 'part ' || i END AS part, substr('abc', 1 + i % 3, 1) AS kind FROM range(120) r(i)",
    "CREATE TABLE products AS SELECT i AS id, 'product ' || i AS name, substr('abc', 1 + i % 3, 1) AS kind "
    "FROM range(9) r(i)",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counted]:
    with counted(tmp_path_factory.mktemp("tokens"), TABLES) as found:
        yield found


S, T, U = (f"AI_SCORE('{word}', body)" for word in "stu")
F, G, W = (f"AI_FILTER('{word}', body)" for word in "fgw")
N, P = "AI_SCORE('n', note)", "AI_FILTER('p', part)"
LABEL, MOOD = "AI_CLASSIFY(note, ['x', 'y', 'z'])", "AI_SENTIMENT(note)"
FITS = "AI_FILTER(PROMPT('{0} and {1}: fits', t.body, p.name))"

CASES: list[tuple[str, dict[str, int]]] = [
    # The score of what the filters leave, and what else the list shows of the rows that come out.
    (f"SELECT id FROM tickets WHERE {W} AND id < 60 ORDER BY {S} DESC, id LIMIT 3", {"w": 60, "s": 35}),
    (f"SELECT id, {F} AS f, {T} AS t FROM tickets ORDER BY {S}, id LIMIT 3", {"s": 120, "f": 3, "t": 3}),
    (f"SELECT id FROM tickets WHERE {S} > 0.5 ORDER BY {S} DESC, id LIMIT 3", {"s": 120}),
    # Keys before the score: whole ties of the first rows.
    (f"SELECT id FROM tickets ORDER BY prio, {S} DESC, id LIMIT 3", {"s": 30}),
    (f"SELECT id AS i, {S} AS s FROM tickets ORDER BY prio DESC, s, i LIMIT 3 OFFSET 28", {"s": 60}),
    (f"SELECT prio, {S} AS s FROM tickets WHERE {W} ORDER BY 1, 2 LIMIT 3", {"w": 120, "s": 20}),
    (f"SELECT id FROM tickets ORDER BY id % 10 = 3 DESC, part, {S}, id LIMIT 4", {"s": 12}),
    (f"SELECT id FROM tickets ORDER BY part NULLS FIRST, {S}, id LIMIT 4", {"s": 12}),
    (
        f"SELECT t.id FROM tickets t JOIN products p ON p.id = t.prio ORDER BY p.name, {S}, t.id LIMIT 2",
        {"s": 30},
    ),
    # The filter, too, ends with whole ties.
    (f"SELECT id FROM tickets WHERE {W} ORDER BY prio, {S}, id LIMIT 3", {"w": 30, "s": 20}),
    (f"SELECT id FROM tickets WHERE {W} ORDER BY prio, {S}, id LIMIT 25", {"w": 60, "s": 40}),
    (
        f"SELECT id, {T} AS t FROM tickets WHERE {W} AND {G} ORDER BY kind DESC, {S} DESC, id LIMIT 2 OFFSET 1",
        {"w": 40},
    ),
    # Pairs that nothing but the question links, in the order of the keys of either side.
    (f"SELECT t.id, p.id FROM tickets t, products p WHERE {FITS} ORDER BY t.id, p.id LIMIT 3", {"fits": 27}),
    (
        f"SELECT t.id, p.id FROM tickets t, products p WHERE {FITS} ORDER BY t.id DESC, p.id LIMIT 30",
        {"fits": 189},
    ),
    (
        f"SELECT t.id, p.id FROM tickets t, products p WHERE {FITS} ORDER BY t.kind, p.id, t.id LIMIT 3",
        {"fits": 360},
    ),
    (
        f"SELECT t.id, p.id FROM tickets t, products p WHERE {FITS} ORDER BY t.prio, {S}, 2, 1 LIMIT 3",
        {"fits": 270},
    ),
    (
        f"SELECT t.id, p.id FROM tickets t, products p WHERE {FITS} ORDER BY p.id, t.id LIMIT 3",
        {"fits": 24},
    ),
    (
        f"SELECT t.id, p.id FROM tickets t JOIN products p ON {FITS} ORDER BY p.id DESC, t.id DESC LIMIT 2 OFFSET 9",
        {"fits": 66},
    ),
    (
        f"SELECT t.id, p.id FROM tickets t JOIN products p ON {FITS} ORDER BY p.kind, t.part NULLS FIRST, 1, 2 LIMIT 3",
        {"fits": 24},
    ),
    (
        f"SELECT t.id, p.id FROM tickets t JOIN products p ON {FITS} ORDER BY p.id, t.prio, {S}, 1 LIMIT 3",
        {"fits": 60, "s": 30},
    ),
    (
        f"SELECT t.id, p.id FROM tickets t JOIN products p ON {FITS} ORDER BY p.id, t.id LIMIT 2000",
        {"fits": 1080},
    ),
    (
        f"SELECT t.id, p.id FROM tickets t JOIN products p ON p.kind = t.kind AND {FITS} "
        "ORDER BY p.name DESC, t.id LIMIT 3",
        {"fits": 24},
    ),
    # Answers that order pairs are asked before these.
    (
        f"SELECT t.id, p.id FROM tickets t JOIN products p ON {FITS} ORDER BY {S} DESC, p.id, t.id LIMIT 3",
        {"s": 120, "fits": 24},
    ),
    (
        f"SELECT t.id, p.id, {F} AS f FROM tickets t JOIN products p ON p.kind = t.kind AND {FITS} "
        f"WHERE {W} ORDER BY AI_SCORE('q', p.name), {G} DESC, t.id LIMIT 2",
        {"w": 120, "q": 9, "g": 120, "fits": 24, "f": 2},
    ),
    (
        f"SELECT t.id, p.id FROM tickets t, products p WHERE {FITS} ORDER BY {F} DESC, t.id, p.id LIMIT 2",
        {"f": 120, "fits": 24},
    ),
    # Keys behind a score: only where the scores before tie at the border.
    (f"SELECT id FROM tickets ORDER BY {N}, {S}, id LIMIT 3", {"n": 5, "s": 24}),
    (f"SELECT id FROM tickets ORDER BY {N}, prio, {S}, {T}, id LIMIT 3", {"n": 5, "s": 6, "t": 3}),
    (f"SELECT id FROM tickets ORDER BY {LABEL}, {S}, id LIMIT 200", {"z.": 5, "s": 120}),
    (f"SELECT id FROM tickets ORDER BY prio, {MOOD}, {T}, id LIMIT 1", {}),
    # Rows that are kept once.
    (f"SELECT DISTINCT note, prio FROM tickets ORDER BY prio, {N}, note LIMIT 7", {"n": 5}),
    (f"SELECT DISTINCT kind, {S} AS s FROM tickets WHERE id < 9 ORDER BY kind, s LIMIT 1", {"s": 3}),
    # A condition as the key: until enough rows have the answer that comes first.
    (f"SELECT id FROM tickets ORDER BY {F} DESC, id LIMIT 3", {"f": 8}),
    (f"SELECT id, {F} AS f FROM tickets ORDER BY f, id DESC LIMIT 3", {"f": 8}),
    (f"SELECT id FROM tickets ORDER BY NOT {F}, id LIMIT 2 OFFSET 1", {"f": 8}),
    (f"SELECT id, {F} FROM tickets ORDER BY prio, {F} DESC, id LIMIT 3", {"f": 8}),
    (f"SELECT id, {F} FROM tickets ORDER BY prio, {F} DESC, id LIMIT 45", {}),
    (f"SELECT id FROM tickets ORDER BY {P} DESC, id LIMIT 3", {"p": 8}),
    (f"SELECT id FROM tickets ORDER BY {P} DESC NULLS FIRST, id LIMIT 14", {"p": 108}),
    (f"SELECT id FROM tickets ORDER BY {F} DESC, id LIMIT 119", {"f": 120}),
    (f"SELECT id FROM tickets WHERE {W} ORDER BY {F} DESC, id LIMIT 2", {"w": 120, "f": 8}),
    (f"SELECT id FROM tickets WHERE id < 40 ORDER BY {F} DESC, {G} DESC, id LIMIT 3", {"f": 40, "g": 40}),
    # QUALIFY.
    (
        f"SELECT id, {F} FROM tickets QUALIFY row_number() OVER (ORDER BY {S}, id) <= 3 ORDER BY id",
        {"s": 120, "f": 3},
    ),
    (f"SELECT id FROM tickets QUALIFY row_number() OVER (ORDER BY prio, {S}, id) < 3 ORDER BY id", {"s": 30}),
    (
        f"SELECT id, {F} AS f FROM tickets QUALIFY rank() OVER (PARTITION BY kind ORDER BY prio, {S}) = 1 ORDER BY 1",
        {"s": 30, "f": 3},
    ),
    (
        f"SELECT id, row_number() OVER (PARTITION BY kind ORDER BY id DESC) AS n, {F} AS f FROM tickets "
        "QUALIFY n <= 2 ORDER BY f, id LIMIT 4",
        {"f": 6},
    ),
    (
        f"SELECT id, {F} AS f FROM tickets QUALIFY dense_rank() OVER (ORDER BY note) <= 1 AND f ORDER BY id",
        {"f": 120},
    ),
    # Where the first rows are those of a subquery.
    (
        f"SELECT x.id, x.f FROM (SELECT id, {F} AS f FROM tickets ORDER BY prio, {S}, id LIMIT 2) x ORDER BY 1",
        {"s": 30, "f": 2},
    ),
    (f"WITH c AS (SELECT id FROM tickets ORDER BY {F} DESC, id LIMIT 4) SELECT max(id) FROM c", {"f": 24}),
    (f"SELECT x.id FROM (SELECT id FROM tickets WHERE {W} ORDER BY id DESC LIMIT 3) x ORDER BY 1", {"w": 24}),
    (
        f"WITH c AS (SELECT id, body FROM tickets WHERE {W} ORDER BY prio, id LIMIT 3) SELECT id FROM c WHERE {G} "
        "UNION ALL SELECT max(id) FROM c ORDER BY 1",
        {"w": 8, "g": 3},
    ),
    (
        f"(SELECT id FROM tickets WHERE {W} ORDER BY id LIMIT 2) UNION ALL "
        f"(SELECT id FROM tickets WHERE {G} ORDER BY id DESC LIMIT 1) ORDER BY 1",
        {"w": 8, "g": 8},
    ),
    # The first rows for each row around: a third of the tickets is of each kind.
    (
        f"SELECT p.id, (SELECT t.id FROM tickets t WHERE t.kind = p.kind AND {W} ORDER BY t.id DESC LIMIT 1) AS l "
        "FROM products p ORDER BY 1",
        {"w": 24},
    ),
    (
        f"SELECT p.id, x.id FROM products p, LATERAL (SELECT t.id FROM tickets t WHERE t.kind = p.kind AND {W} "
        "ORDER BY t.prio, t.id DESC LIMIT 2) x ORDER BY 1, 2",
        {"w": 36},
    ),
    (
        f"SELECT p.id, x.d FROM products p CROSS JOIN LATERAL (SELECT abs(t.id - p.id) AS d FROM tickets t "
        f"WHERE {W} ORDER BY abs(t.id - p.id * 12), t.id LIMIT 1) x ORDER BY 1",
        {"w": 60},
    ),
    (
        f"SELECT p.id, x.id FROM products p, LATERAL (SELECT t.id FROM tickets t WHERE {FITS} "
        "ORDER BY t.id DESC NULLS FIRST LIMIT 1) x ORDER BY 1",
        {"fits": 70},
    ),
    (
        f"SELECT p.id FROM products p WHERE p.id * 9 IN (SELECT t.id FROM tickets t WHERE t.kind <> p.kind AND {W} "
        "ORDER BY t.id LIMIT 4) ORDER BY 1",
        {"w": 40},
    ),
    (
        f"SELECT p.id FROM products p WHERE EXISTS (SELECT 1 FROM tickets t WHERE t.kind = p.kind AND {W} "
        "ORDER BY t.id LIMIT 1 OFFSET 3) ORDER BY 1",
        {"w": 50},
    ),
    (
        f"SELECT p.id, (SELECT t.id FROM tickets t WHERE t.kind = p.kind AND {W} ORDER BY t.id LIMIT 1000) AS l "
        "FROM products p WHERE p.id < 0",
        {"w": 0},
    ),
    (
        f"SELECT p.id, (SELECT {F} FROM tickets t WHERE t.kind = p.kind AND {W} ORDER BY t.id LIMIT 1) AS f "
        "FROM products p ORDER BY 1",
        {"w": 24, "f": 18},
    ),
    # All rows are asked about.
    (
        f"SELECT p.id, (SELECT t.id FROM tickets t WHERE t.kind = p.kind AND {W} ORDER BY {S}, t.id LIMIT 1) AS l "
        "FROM products p ORDER BY 1",
        {"w": 120},
    ),
    (f"SELECT id FROM tickets WHERE id < 30 ORDER BY (SELECT 1), prio, {S}, id LIMIT 2", {"s": 30}),
    (
        f"SELECT prio, max({S}) AS s FROM tickets WHERE id < 30 GROUP BY prio ORDER BY prio, s LIMIT 2",
        {"s": 30},
    ),
    (f"SELECT id, sum({S}) OVER () AS s FROM tickets WHERE id < 30 ORDER BY prio, id LIMIT 2", {"s": 30}),
    (f"SELECT id FROM tickets WHERE id < 30 ORDER BY prio, {S}, id LIMIT 10%", {"s": 30}),
]


@pytest.mark.parametrize(("sql", "most"), CASES)
def test_the_rows_of_all_answers_from_few(server: Counted, sql: str, most: dict[str, int]) -> None:
    asked = server.check(sql)
    assert {word: asked[word] for word, count in most.items() if asked[word] > count} == {}
