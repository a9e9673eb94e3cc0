"""Margins go in, probabilities and what counts as true come out; never asks anything."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from covey_planner.physical import Above, Question
from numpy.typing import NDArray

from covey_engine.prefill import api


def probability(margins: NDArray[np.float32], zero_point: float) -> NDArray[np.float64]:
    """P(yes) of margins: 0.5 at the zero point, above which an answer is true."""
    # The tangent does not overflow, however large a margin is.
    return 0.5 + 0.5 * np.tanh((margins.astype(np.float64) - zero_point) / 2)


def zero_point(question: Question, readout: api.YesNo) -> float:
    """The margin above which the answer to a yes/no question counts as true. readout: the model's."""
    return readout.zero_point if question.above is None else _margin(question.above, readout.zero_point)


@lru_cache(256)
def _margin(above: Above, zero_point: float) -> float:
    """The greatest margin whose probability does not count as true, so that no rounding parts the two; infinite where
    there is none, or where all are.

    Margins are float32, whose bits, read as whole numbers, are in the order of the numbers on either side of 0.
    """
    low, high = -_FINITE - 1, _FINITE + 1
    while high - low > 1:
        middle = (low + high) // 2
        if _counts(above, float(probability(np.array([_number(middle)]), zero_point)[0])):
            high = middle
        else:
            low = middle
    return float("-inf") if low < -_FINITE else float("inf") if high > _FINITE else float(_number(low))


def _counts(above: Above, value: float) -> bool:
    return value >= above.bound if above.least else value > above.bound


def _number(place: int) -> np.float32:
    """The float32 at a place in the order of all; 0 at 0."""
    number = np.array([abs(place)], np.int32).view(np.float32)[0]
    return np.float32(-number if place < 0 else number)


_FINITE = int(np.array([np.finfo(np.float32).max]).view(np.int32)[0])
"""The place of the greatest finite float32."""
