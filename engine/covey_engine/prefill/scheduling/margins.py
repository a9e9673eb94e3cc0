"""Logits go in, the margins of yes/no questions come out; knows neither items nor orders."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.api import YesNo
from covey_engine.prefill.scheduling.compiled import FloatsOut, FloatTable, Ints, kernel


class MarginReader:
    """Turns logits over one fixed tuple of answer tokens into margins.

    tokens: the ids that the head was cut to, in that order.
    """

    def __init__(self, tokens: Sequence[int]) -> None:
        self._columns = {token: column for column, token in enumerate(tokens)}
        self._known: dict[YesNo, tuple[Ints, Ints]] = {}

    def margins(self, logits: NDArray[np.float32], readout: YesNo, rows: Ints) -> NDArray[np.float32]:
        """Margins [A] of some rows (int64 [A]) of logits [n, tokens]; NaN where one is not finite.

        Raises ValueError for a readout without yes or no tokens, or with a token that the head was not cut to.
        """
        return self.read(logits, readout, rows)[0]

    def read(
        self, logits: NDArray[np.float32], readout: YesNo, rows: Ints
    ) -> tuple[NDArray[np.float32], bool]:
        """The margins, and whether all are finite."""
        known = self._known.get(readout)
        if known is None:
            known = self._lookup(readout.yes, "yes"), self._lookup(readout.no, "no")
            self._known[readout] = known
        margins = np.empty(len(rows), np.float32)
        finite = _read(logits, rows, *known, margins)
        return margins, finite

    def _lookup(self, tokens: tuple[int, ...], side: str) -> Ints:
        if not tokens:
            raise ValueError(f"a readout needs at least one {side} token")
        absent = [token for token in tokens if token not in self._columns]
        if absent:
            raise ValueError(f"the head was not cut to the {side} tokens {absent}")
        return np.array([self._columns[token] for token in tokens])


@kernel
def _read(logits: FloatTable, rows: Ints, yes: Ints, no: Ints, margins: FloatsOut) -> bool:
    """Write the margin of each row; whether all are finite."""
    # float64: a margin is a difference of two nearly equal numbers where the answer is close.
    sums = np.zeros(len(rows), np.float64)
    for sign in (1.0, -1.0):
        columns = yes if sign > 0 else no
        for n in range(len(rows)):
            log_sum = np.float64(logits[rows[n], columns[0]])
            if len(columns) > 1:
                highest, total = log_sum, 0.0
                for column in columns:
                    highest = max(highest, np.float64(logits[rows[n], column]))
                for column in columns:
                    total += np.exp(np.float64(logits[rows[n], column]) - highest)
                log_sum = highest + np.log(total)
            sums[n] += sign * log_sum
    finite = True
    for n in range(len(rows)):
        margins[n] = sums[n] if np.isfinite(sums[n]) else np.nan
        finite = finite and np.isfinite(sums[n])
    return finite
