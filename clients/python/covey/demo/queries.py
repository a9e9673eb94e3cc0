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
        "A filter: which of all 150 tickets come from customers who are about to leave?",
        """\
SELECT id, customer, priority, body
FROM tickets
WHERE AI_FILTER(PROMPT('Does the customer threaten to leave or ask for a refund? {0}', body))
ORDER BY id""",
    ),
    Query(
        "Two filters in one WHERE, on the pressing tickets only: the ordinary predicate runs first",
        """\
SELECT id, customer, opened, body
FROM tickets
WHERE priority IN ('high', 'urgent')
  AND AI_FILTER(PROMPT('Is the customer losing money because of this problem? {0}', body))
  AND AI_FILTER(PROMPT('Has this problem happened more than once? {0}', body))
ORDER BY opened""",
    ),
    Query(
        "An AI join: which known defect explains which urgent ticket?",
        """\
SELECT t.id, t.customer, d.description AS defect, t.body
FROM tickets t
JOIN defects d
  ON AI_FILTER(PROMPT('A customer writes: {0} Is this the reason: {1}', t.body, d.description))
WHERE t.priority = 'urgent'
ORDER BY t.id, d.id""",
    ),
    Query(
        "A filter under a join with ordinary predicates and GROUP BY: where does equipment break?",
        """\
SELECT p.category, count(*) AS tickets, count(DISTINCT t.customer) AS customers
FROM tickets t
JOIN products p ON p.id = t.product_id
WHERE t.opened >= DATE '2026-09-15'
  AND p.category NOT IN ('apps', 'platform')
  AND AI_FILTER(PROMPT('Is a device broken or dangerous? {0}', t.body))
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
