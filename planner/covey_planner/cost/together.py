"""Counts of small tables, each a query of one row, in; their figures out, found by one query and kept."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

from covey_planner.cost.duck_figures import DuckFigures


@dataclass(frozen=True)
class Wanted:
    """A figure by the key that it is kept under. tables: that it is of; sql: one row; read: the figure of that row."""

    key: Hashable
    tables: Mapping[str, float]
    sql: str
    columns: int
    read: Callable[[Sequence[float]], object]


def find(wanted: Sequence[Wanted], duck: DuckFigures) -> None:
    """Find figures, none of which is known."""
    width = max((each.columns for each in wanted), default=0)
    asked = [
        f"SELECT {at}, *{', 0' * (width - each.columns)} FROM ({each.sql}) AS __covey_w"
        for at, each in enumerate(wanted)
    ]
    for at, *row in (duck.ask(" UNION ALL ".join(asked), sure=True) or ()) if asked else ():
        duck.settle(wanted[at].key, wanted[at].tables, wanted[at].read(list(map(float, row))))
