"""How long EXPLAIN takes on tables of a million rows, nothing being cached and no model running.

    python bench/planner_explain.py [--rows 1000000] [--repeats 5]

Prints the least milliseconds of planning with estimates and of planning alone, by the clock and of CPU time, a line a
statement and the rows that were estimated. As in a server, sketches of columns outlive a statement;
`first` is the first time that a statement is explained.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from covey_planner.cost.stored import StoredStatistics
from covey_planner.plan import Planned, PlanOptions, plan
from covey_planner.profiles import load_profile
from covey_storage.catalog import Database
from covey_storage.library import TokenLibrary
from covey_storage.model_files import resolve_model
from covey_storage.tokenizer import load_tokenizer

Sketches = dict[tuple[str, str], tuple[str, float]]

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
        sketches: Sketches = {}
        print(
            f"{'statement':<28}{'first ms':>10}{'explain ms':>12}{'CPU ms':>8}{'plan ms':>9}{'CPU ms':>8}"
            f"{'rows':>14}  counted"
        )
        for name, sql in STATEMENTS.items():

            def explain(sql: str = sql, kept: Sketches | None = None) -> Planned:
                found = StoredStatistics(cursor, library, sketches=sketches if kept is None else kept)
                return plan(f"EXPLAIN {sql}", database, options, (), found)

            first, _ = _least_ms(lambda explain=explain: explain(kept={}), 1)
            found = explain().estimates[-1]
            wall, cpu = _least_ms(explain, given.repeats)
            alone, alone_cpu = _least_ms(lambda sql=sql: plan(sql, database, options), given.repeats)
            print(
                f"{name:<28}{first:>10.1f}{wall:>12.1f}{cpu:>8.1f}{alone:>9.1f}{alone_cpu:>8.1f}{found.items:>14,.0f}"
                f"  {found.rows_exact}"
            )
        library.close()
    database.close()


def _least_ms(action: Callable[[], object], repeats: int) -> tuple[float, float]:
    """By the clock, and of CPU time in all threads."""
    walls, cpus = [], []
    for _ in range(repeats):
        begun, used = time.perf_counter(), time.process_time()
        action()
        walls.append(time.perf_counter() - begun)
        cpus.append(time.process_time() - used)
    return 1000 * min(walls), 1000 * min(cpus)


if __name__ == "__main__":
    main()
