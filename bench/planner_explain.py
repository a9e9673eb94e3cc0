"""How long EXPLAIN takes on tables of a million rows, nothing being cached and no model running.

    python bench/planner_explain.py [--rows 1000000] [--repeats 5]

Prints the median milliseconds of planning with estimates and of planning alone, a line a statement.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from covey_planner.cost.stored import StoredStatistics
from covey_planner.plan import PlanOptions, plan
from covey_planner.profiles import load_profile
from covey_storage.catalog import Database
from covey_storage.library import TokenLibrary
from covey_storage.model_files import resolve_model
from covey_storage.tokenizer import load_tokenizer

OLD = "AI_FILTER('Is the customer angry?', body)"
STATEMENTS = {
    "filter": f"SELECT id FROM tickets WHERE {OLD}",
    "filter, cheap predicate": f"SELECT id FROM tickets WHERE part = 3 AND {OLD}",
    "filter, predicate on text": f"SELECT id FROM tickets WHERE body LIKE '%99%' AND {OLD}",
    "two filters": f"SELECT id FROM tickets WHERE {OLD} AND AI_FILTER('Is it about money?', body)",
    "equi-join, then filter": f"SELECT t.id FROM tickets t JOIN parts p ON t.part = p.id WHERE p.id < 50 AND {OLD}",
    "pairs": "SELECT count(*) FROM tickets t JOIN parts p ON AI_FILTER(PROMPT('Is {0} about {1}?', body, name))",
    "linked pairs": "SELECT count(*) FROM tickets t JOIN parts p ON t.part = p.id"
    " AND AI_FILTER(PROMPT('Is {0} about {1}?', body, name))",
    "computed text": "SELECT id FROM tickets WHERE AI_FILTER('Is it angry?', upper(body))",
    "groups": "SELECT part FROM tickets GROUP BY part HAVING AI_FILTER('Is it prime?', CAST(part AS VARCHAR))",
}


def main() -> None:
    """Make the tables, explain each statement, print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    database = Database.open(None)
    cursor = database.cursor()
    cursor.execute(
        f"CREATE TABLE tickets AS SELECT i AS id, i % 1000 AS part, 'Ticket ' || (i % {given.rows * 2 // 3})"
        f" || repeat(' the box is late', 15) AS body FROM range({given.rows}) r(i)"
    )
    cursor.execute("CREATE TABLE parts AS SELECT i AS id, 'part ' || i AS name FROM range(1000) r(i)")
    tokenizer = load_tokenizer(resolve_model(None))
    options = PlanOptions(load_profile("smollm2_question_first"), encode=tokenizer.encode)
    with tempfile.TemporaryDirectory() as folder:
        library = TokenLibrary(Path(folder), tokenizer, database)
        print(f"{'statement':<28}{'explain ms':>12}{'plan ms':>10}{'rows':>14}  counted")
        for name, sql in STATEMENTS.items():

            def explain(sql: str = sql) -> object:
                return plan(f"EXPLAIN {sql}", database, options, (), StoredStatistics(cursor, library))

            found = plan(
                f"EXPLAIN {sql}", database, options, (), StoredStatistics(cursor, library)
            ).estimates[-1]
            explaining = _median_ms(explain, given.repeats)
            planning = _median_ms(lambda sql=sql: plan(sql, database, options), given.repeats)
            print(f"{name:<28}{explaining:>12.1f}{planning:>10.1f}{found.items:>14,.0f}  {found.rows_exact}")
        library.close()
    database.close()


def _median_ms(action: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        action()
        times.append(time.perf_counter() - begun)
    return 1000 * statistics.median(times)


if __name__ == "__main__":
    main()
