"""What DuckDB keeps of columns in, what their ranges say of their values out; runs nothing."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, cast

_DENSE = 0.8
"""The part of a range from which a column is taken to have all of its values."""


def dense(stats: Mapping[str, Any]) -> int | None:
    """Different values of a column of integers or dates that has nearly all of its range, by a sketch of a sample; None
    of any other one.
    """
    low, high, sketched = (stats.get(name) for name in ("min", "max", "approx_unique"))
    if isinstance(low, int) and isinstance(high, int):
        values = high - low + 1
    elif type(low) is type(high) is datetime.date:
        values = (high - low).days + 1
    else:
        return None
    return values if sketched is not None and sketched >= _DENSE * values else None


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
