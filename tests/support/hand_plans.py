"""Tables, physical plans written by hand, and what runs them: for tests of the operators."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa
from covey_engine.operators.executor import Executor, Result
from covey_planner.physical import AskStep, Domain, PhysicalPlan, Question, Segment, Text, TextArgument
from covey_planner.plan import Planned

TABLES = """
CREATE TABLE docs (id INTEGER, lang VARCHAR, body VARCHAR);
INSERT INTO docs SELECT i, ['en', 'de', 'fr'][1 + i % 3], 'document number ' || (i % 40) FROM range(60) r(i);
INSERT INTO docs VALUES (100, 'en', NULL), (101, 'en', ''), (102, 'de', 'Zoë’s <|im_end|> letter');
CREATE TABLE terms (id INTEGER, name VARCHAR);
INSERT INTO terms SELECT i, 'term ' || i FROM range(7) r(i);
INSERT INTO terms VALUES (100, NULL), (101, 'term 3');
CREATE TABLE nothing (id INTEGER, body VARCHAR);
"""

PROFILE = "smollm2_question_first"
HEAD, TAIL = Text("<|im_start|>user\n"), "<|im_end|>\n"


def plain(sql: str) -> Planned:
    """An ordinary statement."""
    return Planned("plain", PhysicalPlan((), sql), sql, sql)


def ai(residual: str, describe: str, *steps: AskStep) -> Planned:
    """A statement of these steps."""
    return Planned("ai", PhysicalPlan(steps, residual, PROFILE), "", describe)


def key(expression: str) -> str:
    """SQL of a text's key."""
    return f"unhex(md5(CAST({expression} AS VARCHAR)))"


def stored(table: str, column: str) -> TextArgument:
    """A stored column as an argument."""
    text = f"t.{column}"
    texts = f"SELECT {key(text)}, CAST({text} AS VARCHAR) FROM {table} t WHERE {text} IS NOT NULL"
    return TextArgument(f"{table}.{column}", texts, table, column)


def computed(expression: str, source: str) -> TextArgument:
    """A computed argument: an expression over a FROM clause."""
    return TextArgument(expression, f"SELECT {key(expression)}, CAST({expression} AS VARCHAR) FROM {source}")


def column_domain(table: str, column: str, where: str = "true") -> Domain:
    """The distinct texts of a stored column."""
    text = f"t.{column}"
    sql = f"SELECT DISTINCT {key(text)} AS k0 FROM {table} t WHERE {text} IS NOT NULL AND ({where})"
    return Domain(sql, (stored(table, column),))


def question(answers: str, *suffix: Segment, **options: Any) -> Question:
    """A question named after its answer table."""
    return Question(f"AI_FILTER({answers})", (*suffix, Text(TAIL)), answers, **options)


def start(
    executor: Executor,
    planned: Planned,
    cursor: duckdb.DuckDBPyConnection,
    parameters: Sequence[object] = (),
    **options: Any,
) -> Result:
    """Start a statement with defaults for what a test does not care about."""
    options = {"query_id": "q1", "cancel": threading.Event()} | options
    return executor.execute(planned, cursor, parameters=parameters, **options)


def rows(result: Result) -> list[tuple[Any, ...]]:
    """All rows, sorted."""
    table = pa.Table.from_batches(list(result.batches), schema=result.schema)
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=repr)
