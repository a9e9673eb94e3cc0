"""Answers as numpy states go in, answer tables on the cursor come out; never touches texts or margins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
from covey_planner.physical import AskStep
from numpy.typing import NDArray

from covey_engine.operators.domains import KEY
from covey_engine.operators.streaming import Statements, quoted
from covey_engine.operators.subjects import Subjects

NOT_ASKED, FALSE, TRUE, NULL = np.int8(0), np.int8(1), np.int8(2), np.int8(3)
"""What is known of one question about one item; a question's states are int8 [items]."""

States = NDArray[np.int8]
BLOCK = 1 << 20
"""Items written together; bounds the keys that are in memory at once."""


def write_answers(
    statements: Statements, step: AskStep, subjects: Subjects | None, states: Sequence[States]
) -> None:
    """Create the temporary answer table of each question: keys k0, k1, … and `answer`.

    A question keeps its true answers or all. Without subjects nobody was asked, and the tables are empty.
    """
    width = len(step.anchors.arguments) + (len(step.partners.arguments) if step.partners else 0)
    schema = pa.schema([*((f"k{i}", KEY) for i in range(width)), ("answer", pa.bool_())])
    for index, question in enumerate(step.questions):
        batches = _batches(schema, question.keep, subjects, states[index]) if subjects else iter(())
        with statements.registered("covey_new_answers", pa.RecordBatchReader.from_batches(schema, batches)):
            statements.run(f"CREATE TEMP TABLE {quoted(question.answers)} AS SELECT * FROM covey_new_answers")


def _batches(
    schema: pa.Schema, keep: Literal["true", "all"], subjects: Subjects, states: States
) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(states), BLOCK):
        block = states[start : start + BLOCK]
        chosen = np.flatnonzero(block == TRUE if keep == "true" else block != NOT_ASKED)
        if len(chosen) == 0:
            continue
        items, answers = start + chosen, block[chosen]
        columns = subjects.anchors.keys.take(subjects.anchor_rows(items)).arrays()
        if subjects.partners is not None:
            columns += subjects.partners.keys.take(subjects.partner_rows(items)).arrays()
        yield pa.record_batch([*columns, pa.array(answers == TRUE, mask=answers == NULL)], schema=schema)
