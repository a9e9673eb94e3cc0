"""Readouts go in, what the head is cut to comes out; its logits go in, margins come out; never touches a device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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


class MarginReader:
    """Turns logits over one fixed tuple of answer tokens into margins.

    tokens: the ids given to `Runner.set_answer_tokens`, in that order. Raises ValueError for a readout
    without yes or no tokens, or with a token that the head was not cut to.
    """

    def __init__(self, tokens: Sequence[int]) -> None:
        self._columns = {token: column for column, token in enumerate(tokens)}
        self._known: dict[YesNo, tuple[list[int], list[int]]] = {}

    def margins(
        self, logits: NDArray[np.float32], readouts: Sequence[YesNo], which: NDArray[np.integer]
    ) -> NDArray[np.float32]:
        """Margins [A] of logits [A, n]: `readouts[which[a]]` reads row a; NaN where it is not finite."""
        if len(readouts) == 1 and len(which):
            return self._read(logits, readouts[0])
        margins = np.full(len(logits), np.nan, np.float32)
        for index in np.unique(which):
            rows = np.flatnonzero(which == index)
            margins[rows] = self._read(logits[rows], readouts[index])
        return margins

    def _read(self, logits: NDArray[np.float32], readout: YesNo) -> NDArray[np.float32]:
        yes, no = self._columns_of(readout)
        with np.errstate(invalid="ignore"):
            margins = (_log_sum(logits, yes) - _log_sum(logits, no)).astype(np.float32)
        margins[~np.isfinite(margins)] = np.nan
        return margins

    def _columns_of(self, readout: YesNo) -> tuple[list[int], list[int]]:
        known = self._known.get(readout)
        if known is None:
            known = self._lookup(readout.yes, "yes"), self._lookup(readout.no, "no")
            self._known[readout] = known
        return known

    def _lookup(self, tokens: tuple[int, ...], side: str) -> list[int]:
        if not tokens:
            raise ValueError(f"a readout needs at least one {side} token")
        absent = [token for token in tokens if token not in self._columns]
        if absent:
            raise ValueError(f"the head was not cut to the {side} tokens {absent}")
        return [self._columns[token] for token in tokens]


def _log_sum(logits: NDArray[np.float32], columns: list[int]) -> NDArray[np.float64]:
    # float64: a margin is a difference of two nearly equal numbers where the answer is close.
    if len(columns) == 1:
        return logits[:, columns[0]].astype(np.float64)
    total: NDArray[np.float64] = np.logaddexp.reduce(logits[:, columns].astype(np.float64), axis=1)
    return total
