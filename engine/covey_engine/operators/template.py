"""A step's segments go in, tokens and prompt lengths come out; never looks at a text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from covey_planner.physical import AnchorText, AskStep, PartnerText, Question, Segment, Text
from numpy.typing import NDArray

from covey_engine.operators.domains import Side
from covey_engine.operators.subjects import Subjects
from covey_engine.prefill import api

Encode = Callable[[str], tuple[int, ...]]
"""Template text to tokens, special tokens recognized."""


@dataclass(frozen=True)
class Template:
    """The prompts of a step with their fixed text tokenized: a prefix, then one suffix a question.

    labels: of each question the labels that it chooses from, none where it asks for yes or no.
    """

    prefix: tuple[api.Part, ...]
    suffixes: tuple[tuple[api.Part, ...], ...]
    labels: tuple[tuple[tuple[int, ...], ...], ...]

    def fixed(self, question: int) -> int:
        """Tokens of the question's prompt that belong to no row, those of the longest label but its last included."""
        text = sum(len(part.tokens) for part in self.parts(question) if isinstance(part, api.Literal))
        return text + max((len(label) - 1 for label in self.labels[question]), default=0)

    def parts(self, question: int) -> Iterator[api.Part]:
        """The segments of the question's prompt."""
        yield from self.prefix
        yield from self.suffixes[question]

    def anchor_tokens(self, question: int, anchors: Side) -> NDArray[np.int64]:
        """Tokens that each anchor row contributes to the question's prompt."""
        return _contributed(anchors, [p.argument for p in self.parts(question) if isinstance(p, api.Anchor)])

    def partner_tokens(self, question: int, partners: Side) -> NDArray[np.int64]:
        """Tokens that each partner row contributes to the question's prompt."""
        return _contributed(
            partners, [p.argument for p in self.parts(question) if isinstance(p, api.Partner)]
        )

    def prompt_tokens(self, question: int, subjects: Subjects, items: NDArray[np.int64]) -> NDArray[np.int64]:
        """Length of the question's prompt for each of these items."""
        tokens = (
            self.fixed(question) + self.anchor_tokens(question, subjects.anchors)[subjects.anchor_rows(items)]
        )
        if subjects.partners is not None:
            tokens += self.partner_tokens(question, subjects.partners)[subjects.partner_rows(items)]
        return tokens


def tokenize(step: AskStep, encode: Encode, encode_label: Encode) -> Template:
    """Tokenize the literal segments of a step, each once, and its labels, in which nothing is special."""
    known: dict[str, tuple[int, ...]] = {}

    def part(segment: Segment) -> api.Part:
        match segment:
            case Text(text):
                if text not in known:
                    known[text] = encode(text)
                return api.Literal(known[text])
            case AnchorText(argument):
                return api.Anchor(argument)
            case PartnerText(argument):
                return api.Partner(argument)

    def parts(segments: tuple[Segment, ...]) -> tuple[api.Part, ...]:
        return tuple(part(segment) for segment in segments if segment != Text(""))

    def labels(question: Question) -> tuple[tuple[int, ...], ...]:
        end = encode(question.end) if question.labels else ()
        return tuple(encode_label(text) + end for _, text in question.labels)

    return Template(
        parts(step.prefix),
        tuple(parts(question.suffix) for question in step.questions),
        tuple(map(labels, step.questions)),
    )


def _contributed(side: Side, arguments: list[int]) -> NDArray[np.int64]:
    total = np.zeros(len(side), dtype=np.int64)
    for argument in arguments:
        total += side.lengths[argument]
    return total
