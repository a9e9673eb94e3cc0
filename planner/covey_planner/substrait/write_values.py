"""What the writers of expressions share: references to columns, the forms of numbers and intervals; no SQL of ours."""

from __future__ import annotations

import re

from sqlglot import exp
from substrait.algebra_pb2 import Expression

from covey_planner.substrait import literals
from covey_planner.substrait.scope import NULL, Typed, unsupported
from covey_planner.substrait.types import is_decimal, short, to_substrait

DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19, "HUGEINT": 38}
"""How many digits a whole number of each type has at most."""

_INTERVAL = re.compile(r"\s*([+-]?\d+)\s*([a-z]+?)s?\s*", re.IGNORECASE)
_SECONDS = {"hour": 3600, "minute": 60, "second": 1}


def reference(at: int, kind: str, steps: int = 0) -> Typed:
    """The column at a place of the relation, or of that of a query so many steps out."""
    made = Expression.FieldReference()
    made.direct_reference.struct_field.field = at
    if steps:
        made.outer_reference.steps_out = steps
    else:
        made.root_reference.SetInParent()
    return Typed(Expression(selection=made), kind)


def short_of(value: Typed) -> str:
    """The short type of an argument; a literal interval's is its own."""
    if value.kind == "INTERVAL" and value.node.WhichOneof("rex_type") == "literal":
        field = value.node.literal.WhichOneof("literal_type")
        return {"interval_year_to_month": "iyear", "interval_day_to_second": "iday"}.get(field, "icompound")
    return short(to_substrait("INTEGER" if value.kind == NULL else value.kind))


def fits(text: str, kind: str) -> bool:
    """Whether a number can be written as a type without loss."""
    whole, _, rest = text.lstrip("-").partition(".")
    if not (whole + rest).isdigit():
        return False
    if kind in DIGITS:
        return not rest and len(whole) < DIGITS[kind]
    if is_decimal(kind):
        width, scale = map(int, kind[8:-1].split(","))
        return len(rest) <= scale and len(whole.lstrip("0")) <= width - scale
    return kind in ("DOUBLE", "FLOAT") and len(whole + rest) < (16 if kind == "DOUBLE" else 7)


def interval(node: exp.Interval) -> Typed:
    """INTERVAL '3' month, INTERVAL 3 months, INTERVAL '3 months'."""
    text = f"{node.name} {node.args['unit'].name if node.args.get('unit') is not None else ''}"
    found = _INTERVAL.fullmatch(text)
    per = {"year": (12, 0, 0), "quarter": (3, 0, 0), "month": (1, 0, 0), "week": (0, 7, 0), "day": (0, 1, 0)}
    unit = found[2].lower() if found is not None else ""
    if found is None or unit not in {*per, *_SECONDS}:
        raise unsupported(f"the interval {text.strip()}", node)
    micros = _SECONDS.get(unit, 0) * 1_000_000
    made = literals.interval(*(int(found[1]) * part for part in per.get(unit, (0, 0, micros))))
    return Typed(Expression(literal=made), "INTERVAL")
