"""Parts of a statement that may yield other rows at each run are run once: some here never yield the same twice."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import duckdb
import pytest
from covey_planner.cost.statistics import Pinned
from covey_planner.physical import AskStep, PhysicalPlan
from covey_planner.plan import PlanOptions, plan
from support.plan_reference import DOCUMENT_FIRST, MemoryCatalog, Reference, install_oracle

EVER = "AI_FILTER('a?', x.b) IS NOT NULL"
"""True of every text that was asked about, and of no other one."""


def planned(connection: duckdb.DuckDBPyConnection, sql: str, optimize: bool = True) -> PhysicalPlan:
    return plan(sql, MemoryCatalog(connection), PlanOptions(DOCUMENT_FIRST, optimize=optimize)).physical


def queries(step: AskStep) -> Iterator[str]:
    """What runs for a step."""
    yield from (query for _, query in step.before)
    for side in [step.anchors, *([step.partners] if step.partners is not None else [])]:
        yield side.sql
        yield from (argument.texts for argument in side.arguments)
    yield step.pairs or ""


def runs(physical: PhysicalPlan, part: str) -> int:
    """How often the queries of a plan hold a text."""
    all_ = [physical.residual, *(query for step in physical.steps for query in queries(step))]
    return sum(query.lower().count(part) for query in all_)


@pytest.fixture
def ticking() -> Iterator[duckdb.DuckDBPyConnection]:
    """Tables, and a function `tick()` that never says the same twice."""
    ticks = count()
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.execute("CREATE TABLE t AS SELECT i AS id, i % 3 AS k, 'b' || i AS b FROM range(9) r(i)")
        connection.execute("CREATE TABLE p AS SELECT i AS id, 'n' || i AS name FROM range(4) r(i)")
        connection.create_function("tick", lambda: next(ticks), [], "BIGINT", side_effects=True)
        install_oracle(connection)
        yield connection


PARTS = {
    "derived table": f"SELECT x.b FROM (SELECT DISTINCT id, 'b' || tick() AS b FROM t LIMIT 5) x WHERE {EVER}",
    "order with ties": f"SELECT x.b FROM (SELECT 'b' || tick() AS b FROM t ORDER BY k LIMIT 5) x WHERE {EVER}",
    "offset": f"SELECT x.b FROM (SELECT t.id, 'b' || tick() AS b FROM t, p OFFSET 31) x WHERE {EVER}",
    "distinct on": f"SELECT x.b FROM (SELECT DISTINCT ON (id % 5) 'b' || tick() AS b FROM t) x WHERE {EVER}",
    "union": f"SELECT x.b FROM (SELECT 'b' || tick() AS b FROM t UNION SELECT name FROM p LIMIT 5) x WHERE {EVER}",
    "row_number": "SELECT x.b FROM (SELECT 'b' || tick() AS b, row_number() OVER (PARTITION BY k) AS n FROM t) x"
    f" WHERE {EVER} AND n < 3 AND x.b IS NOT NULL LIMIT 5",
    "any_value": "SELECT x.b FROM (SELECT 'b' || tick() || any_value(b) AS b FROM t WHERE id < 5 GROUP BY id) x"
    f" WHERE {EVER}",
    "cte": "WITH x AS (SELECT 'b' || tick() AS b FROM t JOIN p ON k = p.id LIMIT 5), y AS (SELECT * FROM x)"
    f" SELECT x.b FROM y AS x WHERE {EVER}",
    "cte of a cte": "WITH every AS (SELECT DISTINCT id, 'b' || tick() AS b FROM t), x AS (SELECT b FROM every LIMIT 3),"
    f" z AS (SELECT b FROM x UNION ALL SELECT name FROM p ORDER BY 1 LIMIT 5) SELECT x.b FROM z AS x WHERE {EVER}",
    "inside another": "SELECT x.b FROM (SELECT u.b, p.id FROM (SELECT DISTINCT id, 'b' || tick() AS b FROM t LIMIT 5)"
    f" u JOIN p ON p.id = 1) x WHERE {EVER}",
    "values in the list": "SELECT x.b FROM (SELECT DISTINCT id, 'b' || tick() AS b FROM t LIMIT 5) x"
    " GROUP BY x.b HAVING bool_and(AI_FILTER('a?', x.b) IS NOT NULL)",
    "of rows that answers leave": "WITH a AS (SELECT id FROM t WHERE AI_FILTER('a?', b) IS NOT NULL)"
    f" SELECT x.b FROM (SELECT 'b' || tick() AS b FROM a JOIN p USING (id) ORDER BY 1 LIMIT 5) x"
    f" RIGHT JOIN (SELECT 1) ON true WHERE {EVER}",
}
ROWS = {"row_number": 5, "of rows that answers leave": 4}


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("name", PARTS)
def test_what_was_asked_about_is_what_the_rows_are(
    name: str, optimize: bool, ticking: duckdb.DuckDBPyConnection
) -> None:
    physical = planned(ticking, PARTS[name], optimize)
    # The residual may name a CTE that nothing in it reads any more.
    assert runs(physical, "tick()") == 1 + (name == "cte of a cte")
    _, rows = Reference(ticking).run(physical)
    assert len(rows) == ROWS.get(name, 5)


def test_members_of_in_stay_the_same(ticking: duckdb.DuckDBPyConnection) -> None:
    part = "SELECT DISTINCT id + 0 * tick() FROM t LIMIT 4"
    for condition in (f"id IN ({part})", f"id IN ({part}) OR id IN ({part} OFFSET 1)", f"id NOT IN ({part})"):
        physical = planned(ticking, f"SELECT id FROM t x WHERE {EVER} AND ({condition})")
        assert runs(physical, "tick()") == condition.count("tick()")
        Reference(ticking).run(physical)


def test_a_scalar_subquery_stays_the_same(ticking: duckdb.DuckDBPyConnection) -> None:
    sql = f"SELECT id FROM t x WHERE {EVER} AND id >= (SELECT t.id + 0 * tick() FROM t JOIN p USING (id) LIMIT 1)"
    assert runs(planned(ticking, sql), "tick()") == 1


def test_what_changes_rows_reads_them_too(ticking: duckdb.DuckDBPyConnection) -> None:
    part = "SELECT DISTINCT k, id + 0 * tick() AS id FROM t LIMIT 4"
    sql = f"UPDATE t AS x SET k = 9 FROM ({part}) AS y WHERE x.id = y.id AND AI_FILTER('a?', x.b) IS NOT NULL"
    physical = planned(ticking, sql)
    assert runs(physical, "tick()") == 1
    assert Reference(ticking).run(physical)[1] == [(4,)]


LEFT = {
    "a plain scan": "SELECT x.b FROM (SELECT b FROM t WHERE k = 1 LIMIT 5) x WHERE {}",
    "one of a derived table": "SELECT x.b FROM (SELECT u.b FROM (SELECT b, k FROM t) u WHERE k < 2 LIMIT 5) x WHERE {}",
    "one of a CTE": "WITH c AS (SELECT b, k FROM t) SELECT x.b FROM (SELECT b FROM c LIMIT 5 OFFSET 2) x WHERE {}",
    "no limit": "SELECT x.b FROM (SELECT DISTINCT b FROM t JOIN p USING (id)) x WHERE {}",
    "ranks": "SELECT x.b FROM (SELECT b, rank() OVER (ORDER BY k) AS r FROM t) x WHERE {} AND r < 5",
    "whether there is a row": "SELECT x.b FROM t x WHERE {} AND EXISTS (SELECT 1 FROM t, p LIMIT 1)",
    "of the row around": "SELECT x.b FROM t x WHERE {} AND x.id IN (SELECT p.id FROM p, t WHERE p.id = x.id LIMIT 1)",
    "read by the end alone": "SELECT x.b FROM t x WHERE {} UNION (SELECT name FROM t, p LIMIT 3)",
    "below the limit": "SELECT AI_FILTER('a?', x.b) FROM (SELECT DISTINCT ON (k) k, b FROM t) x LIMIT 2",
    "recursive": "WITH RECURSIVE x AS (SELECT b, k FROM t WHERE k = 0 UNION ALL (SELECT b, k + 1 FROM x WHERE k < 3"
    " ORDER BY k LIMIT 2)) SELECT x.b FROM x WHERE {}",
}


@pytest.mark.parametrize("name", LEFT)
def test_other_parts_stay_where_they_are(name: str, ticking: duckdb.DuckDBPyConnection) -> None:
    physical = planned(ticking, LEFT[name].format(EVER))
    assert runs(physical, "__covey_once") == 0
    Reference(ticking).run(physical)


def test_explain_says_what_is_run_first(ticking: duckdb.DuckDBPyConnection) -> None:
    sql = f"EXPLAIN VERBOSE SELECT x.b FROM (SELECT DISTINCT b FROM t LIMIT 5) x WHERE {EVER}"
    text = plan(sql, MemoryCatalog(ticking), PlanOptions(DOCUMENT_FIRST)).text
    assert "first: __covey_once0: SELECT DISTINCT b FROM t LIMIT 5" in text
    assert ticking.execute("SELECT * FROM duckdb_tables() WHERE temporary").fetchall() == []


VIEWS = """
CREATE VIEW picked AS SELECT DISTINCT id, 'b' || tick() AS b FROM t LIMIT 5;
CREATE VIEW renamed (n, text) AS FROM picked;
CREATE VIEW plain AS SELECT id, b FROM t WHERE k = 1 LIMIT 2;
"""


class Viewing(MemoryCatalog):
    """A catalog that tells what its views are."""

    def views(self) -> dict[str, str]:
        return dict(self.connection.execute("SELECT view_name, sql FROM duckdb_views()").fetchall())


@pytest.mark.parametrize(
    ("sql", "parts"),
    [
        ("SELECT x.b, x.id FROM picked x WHERE AI_FILTER('a?', x.b || '') IS NOT NULL", 1),
        (
            "SELECT picked.* FROM p JOIN main.picked ON p.id = 1 WHERE AI_FILTER('a?', picked.b || '') IS NOT NULL",
            1,
        ),
        ("SELECT text FROM renamed WHERE AI_FILTER('a?', text || '') IS NOT NULL", 1),
        (
            f"WITH w AS (SELECT n, text FROM renamed) SELECT text AS b FROM w x WHERE {EVER.replace('b', 'text')}",
            1,
        ),
        (f"SELECT x.b FROM (SELECT id, b FROM picked LIMIT 5) x WHERE {EVER}", 1),
        ("SELECT id, AI_FILTER('a?', b) FROM (SELECT id, b FROM picked OFFSET 0) LIMIT 5", 0),
        (
            "SELECT id FROM t x WHERE AI_FILTER('a?', x.b) IS NOT NULL UNION ALL SELECT id FROM picked LIMIT 5",
            0,
        ),
        (f"WITH picked AS (FROM t WHERE id < 5) SELECT x.b FROM picked x WHERE {EVER}", 0),
    ],
)
def test_views_are_run_once(sql: str, parts: int, ticking: duckdb.DuckDBPyConnection) -> None:
    ticking.execute(VIEWS)
    physical = plan(sql, Viewing(ticking), PlanOptions(DOCUMENT_FIRST)).physical
    filled = [
        table for step in physical.steps for table, _ in step.before if table.startswith("__covey_once")
    ]
    assert len(filled) == parts
    _, rows = Reference(ticking).run(physical)
    assert len(rows) == 5


def test_plain_views_stay_where_they_are(ticking: duckdb.DuckDBPyConnection) -> None:
    ticking.execute(VIEWS)
    sql = f"SELECT x.b FROM (SELECT b FROM plain LIMIT 1) x JOIN plain USING (b) WHERE {EVER}"
    physical = plan(sql, Viewing(ticking), PlanOptions(DOCUMENT_FIRST)).physical
    assert runs(physical, "__covey_once") == 0


def test_estimates_read_no_such_table(ticking: duckdb.DuckDBPyConnection) -> None:
    sql = (
        "WITH early AS (SELECT id FROM t WHERE id < 7) SELECT x.id FROM t x, p WHERE AI_FILTER('a?', x.b)"
        " AND x.id IN (SELECT DISTINCT id FROM early LIMIT 4) AND AI_FILTER(PROMPT('{0} {1}', x.b, p.name))"
        " AND p.id = x.k"
    )
    options = PlanOptions(DOCUMENT_FIRST, encode=lambda text, _: [0] * len(text))
    physical = plan(f"EXPLAIN {sql}", MemoryCatalog(ticking), options, statistics=Pinned()).physical
    sides = [side for step in physical.steps for side in (step.anchors, step.partners) if side is not None]
    given = [
        each
        for each in [*(side.given for side in sides), *(step.pairs_given for step in physical.steps)]
        if each
    ]
    assert len(given) > 2
    for each in given:
        ticking.execute(each.rows)
        ticking.execute(each.counted)
