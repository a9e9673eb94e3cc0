"""How long EXPLAIN takes on tables of a million rows, no model running: the first time and when it is repeated.

    python bench/planner_explain.py [--rows 1000000] [--repeats 5] [--only PART-OF-A-NAME]

The tables lie in a file, as a server's do, and the garbage collector passes over what was loaded, as in a server.
Prints milliseconds by the clock and of CPU time in all threads, a line a statement, and the rows that were estimated:
`first`, where nothing has been counted yet, the least of three and the most; `again`, where figures are kept as in a
server, and `plan` alone without figures, the least of the repeats.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
from covey_planner.cost.kept import KeptFigures
from covey_planner.cost.stored import StoredStatistics
from covey_planner.plan import Planned, PlanOptions, plan
from covey_planner.profiles import load_profile
from covey_server import long_lived
from covey_storage.catalog import Database
from covey_storage.library import TokenLibrary
from covey_storage.model_files import resolve_model
from covey_storage.tokenizer import load_tokenizer

OLD = "AI_FILTER('Is the customer angry?', body)"
PAIR = "AI_FILTER(PROMPT('Is {0} about {1}?', body, name))"
LINKED = f"SELECT count(*) FROM tickets t JOIN parts p ON t.part = p.id AND {PAIR}"
TABLES = {
    "tickets": "SELECT i AS id, i % 1000 AS part, i % 20000 AS place, i % 5000 AS day, i % 300 AS owner, 'Ticket ' ||"
    " (i % ({rows} * 2 // 3)) || repeat(' the box is late', 15) AS body FROM range({rows}) r(i)",
    "letters": "SELECT i AS id, 'Letter ' || i || repeat(' the box is late, again', 60 + (i * 7 % 30)::INT) AS body"
    " FROM range({rows}) r(i)",
    "parts": "SELECT i AS id, 'part ' || i AS name FROM range(1000) r(i)",
    "places": "SELECT i AS id, 'place ' || i || repeat(' by the sea', 20) AS about FROM range(20000) r(i)",
    "days": "SELECT i AS id, 'day ' || i || repeat(' of rain', 20) AS weather FROM range(5000) r(i)",
    "owners": "SELECT i AS id, 'owner ' || i || repeat(' of a house', 20) AS notes FROM range(300) r(i)",
}
VIEWS = (
    "CREATE VIEW early AS SELECT * FROM tickets WHERE part < 500",
    "CREATE VIEW early_named AS SELECT e.id, e.body, p.name FROM early e JOIN parts p ON e.part = p.id",
)


def several(count: int, column: str) -> str:
    """So many questions about a column."""
    return " AND ".join(f"AI_FILTER('Is it number {number}?', {column})" for number in range(count))


STATEMENTS = {
    "filter": f"SELECT id FROM tickets WHERE {OLD}",
    "filter, cheap predicate": f"SELECT id FROM tickets WHERE part = 3 AND {OLD}",
    "filter, predicate on text": f"SELECT id FROM tickets WHERE body LIKE '%99%' AND {OLD}",
    "two filters": f"SELECT id FROM tickets WHERE {several(2, 'body')}",
    "six filters": f"SELECT id FROM tickets WHERE {several(6, 'body')}",
    "eight filters": f"SELECT id FROM tickets WHERE {several(8, 'body')}",
    "one of six filters": f"SELECT id FROM tickets WHERE {several(6, 'body').replace('AND', 'OR')}",
    "equi-join, then filter": f"SELECT t.id FROM tickets t JOIN parts p ON t.part = p.id WHERE p.id < 50 AND {OLD}",
    "pairs": f"SELECT count(*) FROM tickets t JOIN parts p ON {PAIR}",
    "linked pairs": LINKED,
    "six over a join": f"{LINKED} AND {several(3, 'body')} AND {several(2, 'name')}",
    "eight over a join": f"{LINKED} AND {several(4, 'body')} AND {several(3, 'name')}",
    "star of five": "SELECT t.id FROM tickets t JOIN parts p ON t.part = p.id JOIN places l ON t.place = l.id"
    " JOIN days d ON t.day = d.id JOIN owners o ON t.owner = o.id"
    f" WHERE {several(1, 'body')} AND {several(1, 'name')} AND {several(1, 'about')} AND {several(1, 'weather')}"
    f" AND {several(1, 'notes')}",
    "star of five, pairs": "SELECT t.id FROM tickets t JOIN parts p ON t.part = p.id JOIN places l ON t.place = l.id"
    " JOIN days d ON t.day = d.id JOIN owners o ON t.owner = o.id"
    " WHERE AI_FILTER(PROMPT('{0} in {1}?', body, about)) AND AI_FILTER(PROMPT('{0} on {1}?', body, weather))"
    f" AND AI_FILTER(PROMPT('{{0}} by {{1}}?', body, notes)) AND {PAIR}",
    "computed text": "SELECT id FROM tickets WHERE AI_FILTER('Is it angry?', upper(body))",
    "groups": "SELECT part FROM tickets GROUP BY part HAVING AI_FILTER('Is it prime?', CAST(part AS VARCHAR))",
    "exists, correlated": "SELECT id FROM parts p WHERE EXISTS (SELECT 1 FROM tickets t WHERE t.part = p.id AND"
    " AI_FILTER(PROMPT('Is {0} about {1}?', t.body, p.name)))",
    "grouped by a label": "SELECT AI_CLASSIFY(body, ['good', 'bad', 'ugly']) AS k, count(*) FROM tickets GROUP BY k",
    "view on a view": "SELECT id FROM early_named WHERE AI_FILTER('Is it angry?', body) AND"
    " AI_FILTER('Is it metal?', name)",
    "large CTE": "WITH last AS (SELECT part, body, row_number() OVER (PARTITION BY part, day ORDER BY id) AS place"
    f" FROM tickets) SELECT body FROM last WHERE place = 1 AND {several(2, 'body')}",
    "aggregating CTE": "WITH often AS (SELECT body, count(*) AS n FROM tickets GROUP BY body)"
    f" SELECT body FROM often WHERE n > 1 AND {several(2, 'body')}",
    "long texts": f"SELECT id FROM letters WHERE {several(2, 'body')}",
    "long texts, predicate": f"SELECT id FROM letters WHERE body LIKE '%99 the%' AND {several(2, 'body')}",
    "after an insert": f"SELECT id FROM tickets WHERE part = 3 AND {several(2, 'body')}",
    "as JSON": LINKED,
    "verbose": LINKED,
}
FORMS = {"as JSON": "(FORMAT json) ", "verbose": "VERBOSE "}
INSERTS = {
    "after an insert": "INSERT INTO tickets SELECT * REPLACE ('new ' || body AS body) FROM tickets LIMIT 1000"
}
"""What runs before each explanation."""


def main() -> None:
    """Make the tables, explain each statement, print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        database = Database.open(Path(folder) / "explain.duckdb")
        cursor = database.cursor()
        _create(cursor, given.rows)
        tokenizer = load_tokenizer(resolve_model(None))
        options = PlanOptions(load_profile("smollm2_question_first"), encode=tokenizer.encode, sampling=True)
        library = TokenLibrary(Path(folder) / "tokens", tokenizer, database)
        long_lived.set_apart()
        print(
            f"{'statement':<27}{'first ms':>10}{'most':>8}{'CPU ms':>8}{'again ms':>10}{'CPU ms':>8}{'plan ms':>9}"
            f"{'CPU ms':>8}{'rows':>15}{'again':>15}  counted"
        )
        for name, sql in STATEMENTS.items():
            if given.only not in name:
                continue
            kept = KeptFigures(database.cursor)

            def explain(sql: str = sql, kept: KeptFigures | None = None, name: str = name) -> Planned:
                found = StoredStatistics(cursor, library, kept=kept)
                planned = plan(f"EXPLAIN {FORMS.get(name, '')}{sql}", database, options, (), found)
                assert planned.text
                return planned

            def before(name: str = name) -> None:
                if name in INSERTS:
                    cursor.execute(INSERTS[name])

            first = _measured(explain, 3, before)
            first_found = explain(kept=kept).estimates[-1]
            kept.settle()
            found = explain(kept=kept).estimates[-1]
            again = _measured(lambda explain=explain, kept=kept: explain(kept=kept), given.repeats, before)
            alone = _measured(lambda sql=sql: plan(sql, database, options), given.repeats)
            print(
                f"{name:<27}{min(first[0]):>10.1f}{max(first[0]):>8.1f}{min(first[1]):>8.1f}{min(again[0]):>10.1f}"
                f"{min(again[1]):>8.1f}{min(alone[0]):>9.1f}{min(alone[1]):>8.1f}{first_found.items:>15,.0f}"
                f"{found.items:>15,.0f}"
                f"  {found.rows_exact}",
                flush=True,
            )
        library.close()
        database.close()


def _create(cursor: duckdb.DuckDBPyConnection, rows: int) -> None:
    for name, query in TABLES.items():
        cursor.execute(f"CREATE TABLE {name} AS {query.format(rows=rows)}")
    for view in VIEWS:
        cursor.execute(view)
    cursor.execute("CHECKPOINT")


def _measured(
    action: Callable[[], object], repeats: int, before: Callable[[], None] = lambda: None
) -> tuple[list[float], list[float]]:
    """Milliseconds by the clock, and of CPU time in all threads."""
    walls, cpus = [], []
    for _ in range(repeats):
        before()
        begun, used = time.perf_counter(), time.process_time()
        action()
        walls.append(1000 * (time.perf_counter() - begun))
        cpus.append(1000 * (time.process_time() - used))
    return walls, cpus


if __name__ == "__main__":
    main()
