"""Keys go in, the beginnings of their texts come out, for messages; never shows more than a line."""

from __future__ import annotations

import numpy as np
from covey_planner.physical import TextArgument

from covey_engine.operators.domains import Side, fetch_texts
from covey_engine.operators.streaming import Statements
from covey_engine.operators.subjects import Subjects

SHOWN = 60
"""Characters of a text that a message shows."""


def describe_item(statements: Statements, subjects: Subjects, item: int) -> str:
    """An item by the beginnings of its texts: `tickets.body 'Dear …' and products.name 'Kettle'`."""
    parts = _describe_row(statements, subjects.anchors, int(subjects.anchor_rows(np.array([item]))[0]))
    if subjects.partners is not None:
        parts += _describe_row(statements, subjects.partners, int(subjects.partner_rows(np.array([item]))[0]))
    return " and ".join(parts) or "the question"


def place(argument: TextArgument) -> str:
    """Where an argument's texts come from, for a user."""
    return argument.expression if argument.table is None else f"{argument.table}.{argument.column}"


def _describe_row(statements: Statements, side: Side, row: int) -> list[str]:
    described = []
    for argument, keys in zip(side.domain.arguments, side.keys.columns, strict=True):
        texts = [
            text for _, found in fetch_texts(statements, argument, keys[row : row + 1]) for text in found
        ]
        described.append(f"{place(argument)} {beginning(texts[0])}")
    return described


def beginning(text: str) -> str:
    """A text's beginning in quotes and on one line."""
    line = " ".join(text[: 4 * SHOWN].split())
    return repr(line if len(line) <= SHOWN else line[:SHOWN] + "…")
