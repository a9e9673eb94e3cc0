"""DuckDB's types in, Substrait's out, and back; knows no plan."""

from __future__ import annotations

import re
from typing import Any

from substrait.type_pb2 import Type

from covey_planner.errors import Unsupported

_NULLABLE = Type.NULLABILITY_NULLABLE
_SIMPLE = {
    "BOOLEAN": "bool",
    "TINYINT": "i8",
    "SMALLINT": "i16",
    "INTEGER": "i32",
    "BIGINT": "i64",
    "FLOAT": "fp32",
    "DOUBLE": "fp64",
    "VARCHAR": "string",
    "JSON": "string",
    "BLOB": "binary",
    "DATE": "date",
    "UUID": "uuid",
}
_PRECISE = {
    "TIME": ("precision_time", 6),
    "TIME_NS": ("precision_time", 9),
    "TIMESTAMP": ("precision_timestamp", 6),
    "TIMESTAMP_S": ("precision_timestamp", 0),
    "TIMESTAMP_MS": ("precision_timestamp", 3),
    "TIMESTAMP_NS": ("precision_timestamp", 9),
    "TIMESTAMP WITH TIME ZONE": ("precision_timestamp_tz", 6),
    "INTERVAL": ("interval_compound", 6),
}
_BACK = {kind: name for name, kind in _SIMPLE.items() if name != "JSON"} | {
    "fixed_char": "VARCHAR",
    "varchar": "VARCHAR",
    "fixed_binary": "BLOB",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamp_tz": "TIMESTAMP WITH TIME ZONE",
    "interval_year": "INTERVAL",
    "interval_day": "INTERVAL",
    "interval_compound": "INTERVAL",
    "precision_timestamp_tz": "TIMESTAMP WITH TIME ZONE",
}
_SHORT = {
    "string": "str",
    "varchar": "vchar",
    "fixed_char": "fchar",
    "fixed_binary": "fbin",
    "binary": "vbin",
    "timestamp": "ts",
    "timestamp_tz": "tstz",
    "interval_year": "iyear",
    "interval_day": "iday",
    "interval_compound": "icompound",
    "decimal": "dec",
    "precision_time": "pt",
    "precision_timestamp": "pts",
    "precision_timestamp_tz": "ptstz",
}
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")

INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
"""The whole numbers that Substrait has, the smallest first."""


def to_substrait(kind: str) -> Any:
    """The Substrait type of a DuckDB type, nullable. Raises Unsupported with the type's name."""
    if kind in _SIMPLE:
        return _of(_SIMPLE[kind])
    if kind in _PRECISE:
        field, digits = _PRECISE[kind]
        return _of(field, precision=digits)
    if kind == "HUGEINT":
        return _of("decimal", precision=38, scale=0)
    found = _DECIMAL.fullmatch(kind)
    if found is not None:
        return _of("decimal", precision=int(found[1]), scale=int(found[2]))
    if kind.endswith("[]"):
        return _of("list", type=to_substrait(kind[:-2]))
    raise Unsupported(f"the type {kind} has no counterpart in a Substrait plan")


def to_duckdb(kind: Any) -> str:
    """The DuckDB type of a Substrait type. Raises Unsupported with the type's name."""
    field = kind.WhichOneof("kind")
    match field:
        case "decimal":
            return f"DECIMAL({kind.decimal.precision},{kind.decimal.scale})"
        case "list":
            return f"{to_duckdb(kind.list.type)}[]"
        case "map":
            return f"MAP({to_duckdb(kind.map.key)}, {to_duckdb(kind.map.value)})"
        case "precision_time":
            return "TIME_NS" if kind.precision_time.precision > 6 else "TIME"
        case "precision_timestamp":
            return timestamp(kind.precision_timestamp.precision)
        case _ if field in _BACK:
            return _BACK[field]
    raise Unsupported(f"the Substrait type {field or 'without a kind'} is not supported")


def timestamp(digits: int) -> str:
    """DuckDB's timestamp with so many digits behind the second, or more."""
    names = {0: "TIMESTAMP_S", 3: "TIMESTAMP_MS", 6: "TIMESTAMP", 9: "TIMESTAMP_NS"}
    return next((name for most, name in names.items() if digits <= most), "TIMESTAMP_NS")


def short(kind: Any) -> str:
    """A type as the names of functions have it, as in `add:i32_i32`."""
    field = kind.WhichOneof("kind")
    return _SHORT.get(field, field) if field is not None else "any"


def alike(declared: str, stored: str) -> bool:
    """Whether a plan that takes a column for one DuckDB type may read a stored one."""
    try:
        return declared == to_duckdb(to_substrait(stored))
    except Unsupported:
        return False


def is_decimal(kind: str) -> bool:
    """Whether a DuckDB type is a decimal."""
    return kind.startswith("DECIMAL(")


def _of(field: str, **parameters: Any) -> Any:
    kind = Type()
    getattr(kind, field).CopyFrom(type(getattr(kind, field))(nullability=_NULLABLE, **parameters))
    return kind
