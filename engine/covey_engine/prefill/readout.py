"""Readouts go in, what the head is cut to comes out; never touches a device."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from covey_engine.prefill.api import Labels, Readout, YesNo


class Head(NamedTuple):
    """What a runner's head is cut to: token ids, and whether the log-sum-exp over all tokens is one more column."""

    tokens: tuple[int, ...] = ()
    normalizer: bool = False


def head_of(readouts: Iterable[Readout]) -> Head:
    """What the readouts look at; margins need no normalizer, the log-probabilities of labels do."""
    tokens, normalizer = set[int](), False
    for readout in readouts:
        match readout:
            case YesNo(yes, no):
                tokens.update(yes, no)
            case Labels(labels):
                tokens.update(token for label in labels for token in label)
                normalizer = True
    return Head(tuple(sorted(tokens)), normalizer)


def answer_tokens(readouts: Iterable[Readout]) -> tuple[int, ...]:
    """Token ids that the readouts look at, each once, ascending."""
    return head_of(readouts).tokens
