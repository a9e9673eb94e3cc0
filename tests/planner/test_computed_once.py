"""What computes the texts of a question runs once: into a table, from which a step takes keys and texts."""

from __future__ import annotations

import duckdb
import pytest
from covey_planner.plan import PlanOptions, plan
from support.plan_reference import DOCUMENT_FIRST, MemoryCatalog, Reference, install_oracle


@pytest.mark.parametrize(
    "condition",
    [
        "AI_FILTER('a?', slow(x.t))",
        "AI_FILTER('a?', slow(x.t) || y.t) AND x.id = y.id",
        "AI_FILTER(PROMPT('{0} and {1}', slow(x.t), y.t))",
        "IF(x.id > 2, AI_FILTER('a?', slow(x.t)), AI_FILTER('b?', slow(x.t))) AND x.id = y.id",
    ],
)
def test_steps_read_what_was_computed(condition: str) -> None:
    computed: list[str] = []

    def slow(text: str) -> str:
        computed.append(text)
        return text.upper()

    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE x AS SELECT i AS id, 'text ' || i % 4 AS t FROM range(6) r(i)")
        connection.execute("CREATE TABLE y AS FROM x")
        connection.create_function("slow", slow, ["VARCHAR"], "VARCHAR")
        install_oracle(connection)
        sql = f"SELECT x.id, y.id FROM x, y WHERE {condition} ORDER BY ALL"
        physical = plan(sql, MemoryCatalog(connection), PlanOptions(DOCUMENT_FIRST)).physical
        (step,) = physical.steps
        for table, query in step.before:
            connection.execute(f"CREATE TEMP TABLE {table} AS {query}")
        assert computed
        before = len(computed)
        for side in [step.anchors, *([step.partners] if step.partners is not None else [])]:
            found = connection.execute(side.sql).fetchall()
            for argument in side.arguments:
                texts = connection.execute(argument.texts).fetchall()
                assert {key for key, _ in texts} >= {row[0] for row in found} or len(side.arguments) > 1
        assert len(computed) == before
        for table, _ in step.before:
            connection.execute(f"DROP TABLE {table}")
        _, rows = Reference(connection).run(physical)
        assert rows == connection.execute(sql).fetchall()
