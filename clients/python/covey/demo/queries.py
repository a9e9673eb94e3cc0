"""The demo's five queries, each with the sentence that introduces it; text only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Query:
    """A query of the demo; `asks` says whether it puts questions to the model."""

    title: str
    sql: str
    asks: bool = True


QUERIES = (
    Query(
        "A filter: which of the 150 tickets come from customers who may leave?",
        """\
SELECT id, customer, priority, body
FROM tickets
WHERE AI_FILTER(PROMPT('Is this customer about to cancel, to leave or to ask for the money back? {0}', body))
ORDER BY id""",
    ),
    Query(
        "Two filters in one WHERE, on the pressing tickets only: ordinary predicates run first",
        """\
SELECT id, customer, opened, body
FROM tickets
WHERE priority IN ('high', 'urgent')
  AND AI_FILTER(PROMPT('Is the writer of this message upset, angry or disappointed? {0}', body))
  AND NOT AI_FILTER(PROMPT('Is the writer of this message pleased, amused or grateful? {0}', body))
ORDER BY opened, id""",
    ),
    Query(
        "An AI join: which known defect is behind which urgent ticket?",
        """\
SELECT t.id, t.customer, d.description AS defect, t.body
FROM tickets t
JOIN defects d ON AI_FILTER(
  PROMPT('Is the customer who writes {0} upset, angry or disappointed because of this: {1}', t.body, d.description),
  {'anchor': 'd'})
WHERE t.priority = 'urgent'
ORDER BY t.id, d.id""",
    ),
    Query(
        "A filter beside an ordinary join and GROUP BY: which equipment upsets people lately?",
        """\
SELECT p.category, count(*) AS tickets, count(DISTINCT t.customer) AS customers
FROM tickets t
JOIN products p ON p.id = t.product_id
WHERE t.opened >= DATE '2026-09-15'
  AND p.category NOT IN ('apps', 'platform')
  AND AI_FILTER(PROMPT('Is the writer of this message upset, angry or disappointed? {0}', t.body))
GROUP BY p.category
ORDER BY tickets DESC, p.category""",
    ),
    Query(
        "An ordinary query: no question, no token",
        """\
SELECT p.name, count(*) AS tickets, count(*) FILTER (WHERE t.priority IN ('high', 'urgent')) AS pressing
FROM tickets t
JOIN products p ON p.id = t.product_id
GROUP BY p.name
HAVING count(*) >= 9
ORDER BY pressing DESC, tickets DESC, p.name""",
        asks=False,
    ),
)
