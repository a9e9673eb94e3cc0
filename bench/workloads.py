"""A tokenizer goes in; the tables and the queries that AI-SQL engines are compared on come out.

Documents are random words of the tokenizer's vocabulary, drawn with a fixed seed: all engines get the same tables.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
from tokenizers import Tokenizer


@dataclass(frozen=True)
class Workload:
    """A query by its name."""

    name: str
    sql: str


WORKLOADS = (
    Workload(
        "filter", "SELECT id FROM reviews WHERE AI_FILTER('Does this review discuss the ending?', body)"
    ),
    Workload(
        "three_filters",
        "SELECT id, AI_FILTER('Does this review discuss the ending?', body) AS ending, "
        "AI_FILTER('Is the review positive about the acting?', body) AS acting, "
        "AI_FILTER('Was it seen in a cinema?', body) AS cinema FROM reviews",
    ),
    Workload(
        "filter_chain",
        "SELECT id FROM reviews WHERE AI_FILTER('Does this review discuss the ending?', body) "
        "AND AI_FILTER('Is the review positive about the acting?', body) "
        "AND AI_FILTER('Was it seen in a cinema?', body)",
    ),
    Workload(
        "join_terms",
        "SELECT r.id, t.id FROM reports r JOIN terms t ON "
        "AI_FILTER(PROMPT('Does the report {0} mention the reaction {1}?', r.body, t.body))",
    ),
    Workload(
        "join_claims",
        "SELECT c.id, e.id FROM claims c JOIN evidence e ON "
        "AI_FILTER(PROMPT('Is the claim {0} supported by the passage {1}?', c.body, e.body), {'anchor': 'e'})",
    ),
    Workload(
        "join_aspects",
        "SELECT r.id, a.id FROM reviews r JOIN aspects a ON "
        "AI_FILTER(PROMPT('Does the review {0} discuss the aspect {1}?', r.body, a.body))",
    ),
    Workload("traces", "SELECT id FROM traces WHERE AI_FILTER('Did the agent finish the task?', body)"),
)


def tables(tokenizer: Tokenizer, scale: float = 1.0) -> dict[str, pa.Table]:
    """The tables by name: columns id and body. scale: a part of the rows, for a look."""
    decoded = [tokenizer.decode([token]) for token in range(1000, 40000)]
    words = [word for word in decoded if word.startswith(" ") and word[1:].isalpha() and word.isascii()]
    draw = random.Random(7)

    def text(length: int) -> str:
        return "".join(draw.choice(words) for _ in range(length)).strip()

    def some(rows: int) -> range:
        return range(max(1, round(rows * scale)))

    texts = {
        "reviews": [text(int(draw.lognormvariate(5.6, 0.45))) for _ in some(5000)],
        "aspects": [text(3) for _ in some(12)],
        "reports": [text(int(draw.uniform(2500, 5600))) for _ in some(40)],
        "terms": [text(4) for _ in some(600)],
        "claims": [text(10) for _ in some(150)],
        "evidence": [text(int(draw.uniform(60, 400))) for _ in some(150)],
        "traces": [turn for _ in some(20) for turn in _trace(text)],
    }
    return {
        name: pa.table({"id": [f"{name}-{n}" for n in range(len(rows))], "body": rows})
        for name, rows in texts.items()
    }


def _trace(text: Callable[[int], str]) -> list[str]:
    """Ten turns of an agent, each one the turn before and 400 words more."""
    so_far, turns = text(2000), []
    for _ in range(10):
        so_far += " " + text(400)
        turns.append(so_far)
    return turns


def write(folder: Path, tokenizer_file: Path, scale: float = 1.0) -> None:
    """Write every table as a Parquet file."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables(Tokenizer.from_file(str(tokenizer_file)), scale).items():
        parquet.write_table(table, folder / f"{name}.parquet")
