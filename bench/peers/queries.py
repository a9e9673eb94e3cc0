"""The six workloads as the peers are asked them, and the seconds that they took on an H200 before.

`filter_chain` stands for three questions in WHERE: the peers take none in the SELECT list. The tables are those of
bench/workloads.py.
"""

from __future__ import annotations

_FILTER = "SELECT r.id FROM {table} r WHERE {conditions}"
_HINTED = "AI.IF(PROMPT('{question}\n\n{{0}}', r.body), {{'selectivity': 0.5}})"
_PLAIN = "AI.IF(PROMPT('{question}\n\n{{0}}', r.body))"


def _filter(table: str, *questions: str) -> str:
    asked = _PLAIN if len(questions) == 1 else _HINTED
    conditions = " AND ".join(asked.format(question=question) for question in questions)
    return _FILTER.format(table=table, conditions=conditions)


QUERIES = {
    "filter": _filter("reviews", "Does this review discuss the ending?"),
    "filter_chain": _filter(
        "reviews",
        "Does this review discuss the ending?",
        "Is the review positive about the acting?",
        "Was it seen in a cinema?",
    ),
    "join_terms": "SELECT r.id, t.id FROM reports r JOIN terms t ON "
    "AI.IF(PROMPT('Does the report {0} mention the reaction {1}?', r.body, t.body))",
    "join_claims": "SELECT c.id, e.id FROM claims c JOIN evidence e ON "
    "AI.IF(PROMPT('Is the claim {0} supported by the passage {1}?', c.body, e.body))",
    "join_aspects": "SELECT r.id, a.id FROM reviews r JOIN aspects a ON "
    "AI.IF(PROMPT('Does the review {0} discuss the aspect {1}?', r.body, a.body))",
    "traces": _filter("traces", "Did the agent finish the task?"),
}

BEFORE = {
    "quail": {
        "filter": 14.05,
        "filter_chain": 14.6,
        "join_terms": 6.3,
        "join_claims": 4.6,
        "join_aspects": 22.1,
        "traces": 8.6,
    },
    "vllm": {"filter": 16.9, "join_terms": 66.0, "join_claims": 10.1, "traces": 2.1},
}
"""Seconds of each peer on an NVIDIA H200, random weights of Qwen3-4B-FP8's shapes, the same tables."""
