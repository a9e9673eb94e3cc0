"""ORDER BY's keys in, Substrait's sort fields out."""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from substrait.algebra_pb2 import SortField

from covey_planner.substrait.scope import Typed


def sort_field(key: exp.Expr, value: Typed) -> Any:
    """A sort field. key: as parsed; value: what it sorts by."""
    descending = bool(key.args.get("desc"))
    first = bool(key.args.get("nulls_first"))
    return SortField(expr=value.node, direction=(3 if first else 4) if descending else (1 if first else 2))
