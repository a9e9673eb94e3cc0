"""A connection goes in; what the server is and what it was asked lately is printed, from its system table."""

from __future__ import annotations

from covey.connection import Connection
from covey.output import make_console, print_table
from covey.results import arriving

SUMMARY = """\
SELECT state, count(*) AS statements, sum(prompts)::BIGINT AS prompts,
       sum(fresh_tokens)::BIGINT AS fresh_tokens, sum(shared_tokens)::BIGINT AS shared_tokens,
       sum(prefix_tokens_saved)::BIGINT AS prefix_tokens_saved,
       round(sum(seconds), 2) AS seconds
FROM covey_queries WHERE coalesce(tag, '') NOT LIKE '%.figures' GROUP BY state ORDER BY state"""

LATEST = """\
SELECT CAST(started AS VARCHAR)[:19] AS started, state, rows, fresh_tokens, shared_tokens,
       round(seconds, 2) AS seconds, coalesce(error, sql) AS statement
FROM covey_queries WHERE coalesce(tag, '') NOT LIKE '%.figures' ORDER BY started DESC LIMIT 10"""


def print_status(connection: Connection, uri: str) -> None:
    """Print the server's name and version, the sums over its statements, and the latest ten."""
    console = make_console()
    about = connection.adbc_get_info()
    console.print(
        f"{about.get('vendor_name', 'a Flight SQL server')} {about.get('vendor_version', '')} at {uri}"
    )
    for statement in (SUMMARY, LATEST):
        with connection.cursor() as cursor:
            cursor.execute(statement)
            print_table(arriving(cursor), console)
