"""`ai_optimizer` through the client: the same rows, for more prompts."""

from __future__ import annotations

from pathlib import Path

from support.hash_server import Host
from support.sql import rows, run

SQL = "SELECT id FROM t WHERE AI_FILTER('Is it seldom so?', body) LIMIT 1"


def test_off_asks_everything(tmp_path: Path) -> None:
    host = Host()
    with host.connect(tmp_path, "duckdb", "on") as client:
        run(client, "CREATE TABLE t AS SELECT i AS id, 'text ' || i AS body FROM range(1000) r(i)")
        found = [rows(client, SQL)]
        run(client, "SET ai_optimizer = 'off'")
        found.append(rows(client, SQL))
        asked = [
            n for (n,) in rows(client, "SELECT prompts FROM covey_queries WHERE prompts > 0 ORDER BY started")
        ]
    host.close()
    assert len(found[0]) == len(found[1]) == 1
    assert asked[0] < asked[1] == 1000
