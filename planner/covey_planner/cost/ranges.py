"""What DuckDB keeps of two columns in, how far their ranges of numbers overlap out; runs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast


def inside(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> float:
    """The part of a column's range of numbers that lies in another's; 1 where they are no numbers."""
    bounds = [stats.get(end) for stats in (ours, theirs) for end in ("min", "max")]
    if not all(isinstance(bound, int | float) for bound in bounds):
        return 1.0
    low, high, their_low, their_high = (float(cast("float", bound)) for bound in bounds)
    width = high - low
    overlap = min(high, their_high) - max(low, their_low)
    if width <= 0:
        return 1.0 if overlap >= 0 else 0.0
    return max(0.0, min(1.0, overlap / width))
