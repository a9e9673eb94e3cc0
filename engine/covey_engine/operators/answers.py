"""Answers as numpy arrays go in, answer tables on the cursor come out; never touches texts or margins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
from covey_planner.physical import AskStep, Kind, Question
from numpy.typing import NDArray

from covey_engine.operators.domains import KEY
from covey_engine.operators.streaming import Statements, quoted
from covey_engine.operators.subjects import Subjects

NOT_ASKED, FALSE, TRUE, NULL = np.int8(0), np.int8(1), np.int8(2), np.int8(3)
"""What is known of one question about one item; a score or a label that is known as a value is TRUE."""

TYPES: Mapping[Kind, pa.DataType] = {
    "boolean": pa.bool_(),
    "score": pa.float64(),
    "label": pa.string(),
    "count": pa.int64(),
}
"""The type of answers by kind."""
BLOCK = 1 << 20
"""Items written together; bounds the keys that are in memory at once."""


@dataclass(frozen=True)
class Found:
    """What is known of one question.

    states: int8 [items]; values: float64 [items], the probability of yes (score), the number of the label, or
    the tokens (count); empty for a boolean. accepted: by label, whether it counts as true; None where the label itself
    is the answer.
    """

    kind: Kind
    labels: tuple[str, ...]
    states: NDArray[np.int8]
    values: NDArray[np.float64]
    accepted: NDArray[np.bool_] | None = None

    @staticmethod
    def of(question: Question, items: int) -> Found:
        """Nothing, yet."""
        labels = tuple(label for label, _ in question.labels)
        states = np.full(items, NOT_ASKED)
        accepted = None
        if question.accepted is not None:
            accepted = np.array([label in question.accepted for label in labels], np.bool_)
        values = np.zeros(0 if question.kind == "boolean" else items)
        return Found(question.kind, labels, states, values, accepted)

    @staticmethod
    def counted(question: Question, subjects: Subjects) -> Found:
        """The tokens of each subject's text."""
        (lengths,) = subjects.anchors.lengths
        return Found(question.kind, (), np.full(subjects.items, TRUE), lengths.astype(np.float64))

    def chosen(self) -> dict[str, int]:
        """How often each label is the answer; empty for another kind."""
        known = (self.states == TRUE) | (self.states == FALSE)
        numbers = self.values[known].astype(np.int64) if self.labels else np.zeros(0, np.int64)
        counts = np.bincount(numbers, minlength=len(self.labels))
        return dict(zip(self.labels, counts.tolist(), strict=True))

    def answers(self, items: NDArray[np.int64]) -> pa.Array:
        """The answers of some items, NULL where the state says so."""
        states = self.states[items]
        missing = states == NULL
        if self.kind == "boolean" or self.accepted is not None:
            return pa.array(states == TRUE, mask=missing)
        match self.kind:
            case "score":
                return pa.array(self.values[items], mask=missing)
            case "count":
                return pa.array(self.values[items].astype(np.int64), mask=missing)
            case "label":
                return pa.array(self.labels).take(pa.array(self.values[items].astype(np.int64), mask=missing))
        raise AssertionError(f"there are no answers of kind {self.kind}")


def write_answers(
    statements: Statements, step: AskStep, subjects: Subjects | None, found: Sequence[Found]
) -> None:
    """Create the temporary answer table of each question: keys k0, k1, … and `answer`. The keys stand in the order in
    which the plan has the sides, exchanged or not.

    A question keeps its true answers or all. Without subjects nobody was asked, and the tables are empty.
    """
    width = len(step.anchors.arguments) + (len(step.partners.arguments) if step.partners else 0)
    for index, question in enumerate(step.questions):
        kind: Kind = "boolean" if question.is_condition else question.kind
        schema = pa.schema([*((f"k{i}", KEY) for i in range(width)), ("answer", TYPES[kind])])
        batches: Iterator[pa.RecordBatch] = iter(())
        if subjects is not None:
            batches = _batches(schema, question.keep, subjects, found[index], step.exchanged)
        with statements.registered("covey_new_answers", pa.RecordBatchReader.from_batches(schema, batches)):
            statements.run(f"CREATE TEMP TABLE {quoted(question.answers)} AS SELECT * FROM covey_new_answers")


def _batches(
    schema: pa.Schema, keep: Literal["true", "all"], subjects: Subjects, found: Found, exchanged: bool
) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(found.states), BLOCK):
        block = found.states[start : start + BLOCK]
        chosen = np.flatnonzero(block == TRUE if keep == "true" else block != NOT_ASKED)
        if len(chosen) == 0:
            continue
        items = start + chosen
        columns = subjects.anchors.keys.take(subjects.anchor_rows(items)).arrays()
        if subjects.partners is not None:
            theirs = subjects.partners.keys.take(subjects.partner_rows(items)).arrays()
            columns = [*theirs, *columns] if exchanged else [*columns, *theirs]
        yield pa.record_batch([*columns, found.answers(items)], schema=schema)
