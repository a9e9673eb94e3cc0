"""ORDER BY's keys in, Substrait's sort fields out; and which output a bare number in ORDER BY or GROUP BY means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp
from substrait.algebra_pb2 import SortField

from covey_planner.binding.scope import position_of
from covey_planner.errors import BindError
from covey_planner.substrait.scope import Typed


def sort_field(key: exp.Expr, value: Typed) -> Any:
    """A sort field. key: as parsed; value: what it sorts by."""
    descending = bool(key.args.get("desc"))
    first = bool(key.args.get("nulls_first"))
    return SortField(expr=value.node, direction=(3 if first else 4) if descending else (1 if first else 2))


def sort_keys(node: exp.Expr) -> list[exp.Expr]:
    """What stands in the ORDER BY of a query."""
    order = node.args.get("order")
    return list(order.expressions) if order is not None else []


def ordinal(node: exp.Expr, items: Sequence[Any]) -> int:
    """The place, from 0, of what a number from 1 means among the items of a SELECT list. Raises BindError."""
    number = int(node.name)
    if not 1 <= number <= len(items):
        raise BindError(f"there is no column {number} in the SELECT list", position_of(node))
    return number - 1
