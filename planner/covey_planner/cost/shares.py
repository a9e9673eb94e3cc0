"""Counts of answers in, the share of true ones with its uncertainty out; keeps nothing."""

from __future__ import annotations

from typing import Literal

from covey_planner.cost.statistics import Selectivity

_Z = 1.96
"""Standard deviations on either side that hold 95 % of a normal distribution."""


def share_of(
    asked: int, true: int, source: Literal["remembered", "sample"], alike: float = 1.0
) -> Selectivity:
    """The share of true answers of which `true` of `asked` (at least 1) are a sample.

    Between low and high with 95 % certainty (the interval of Wilson, 1927); the value is Laplace's, so that it is never
    0 or 1. alike: how many answers are worth one, because some of them tend to be equal.
    """
    count, rate = asked / alike, true / asked
    middle = rate * count + _Z**2 / 2
    spread = _Z * (count * rate * (1 - rate) + _Z**2 / 4) ** 0.5
    low, high = ((middle + side) / (count + _Z**2) for side in (-spread, spread))
    value = (rate * count + 1) / (count + 2)
    return Selectivity(value, max(0.0, low), min(1.0, high), source, asked)
