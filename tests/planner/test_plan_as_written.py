"""Without the optimizer a plan asks in the order of the text, of all rows, and gives the same rows."""

from __future__ import annotations

import duckdb
import pytest
from covey_planner.plan import PlanOptions, plan
from support.plan_reference import DOCUMENT_FIRST, MemoryCatalog, Reference

ASKED = {
    "SELECT t.id FROM tickets t, products p"
    " WHERE AI_FILTER(PROMPT('{0} fits {1}', t.body, p.name)) AND AI_FILTER('a?', t.body)": 2,
    "SELECT id FROM tickets t WHERE AI_FILTER('a?', t.body) AND AI_FILTER('b?', t.body) AND t.id < 20": 2,
    "SELECT id FROM tickets t WHERE EXISTS (SELECT 1 FROM products p WHERE"
    " AI_FILTER(PROMPT('{0} fits {1}', t.body, p.name)))": 1,
}


@pytest.mark.parametrize("sql", ASKED)
def test_as_written(database: duckdb.DuckDBPyConnection, sql: str) -> None:
    catalog = MemoryCatalog(database)
    found, asked = [], []
    for optimize in (True, False):
        planned = plan(sql, catalog, PlanOptions(DOCUMENT_FIRST, optimize=optimize))
        reference = Reference(database)
        found.append(sorted(reference.run(planned.physical)[1]))
        asked.append(len(reference.asked))
    assert found[0] == found[1]
    assert asked[0] < asked[1]
    calls = [question.call for step in planned.physical.steps for question in step.questions]
    assert len(calls) == ASKED[sql]
    assert calls == sorted(calls, key=sql.index)
    assert not any(step.exists or step.enough for step in planned.physical.steps)
