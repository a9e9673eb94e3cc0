"""Literals of a plan in, SQL out; and values in, literals out. Knows no functions and no relations."""

from __future__ import annotations

import datetime
import decimal
import uuid
from typing import Any

from substrait.algebra_pb2 import Expression

from covey_planner.errors import ParseError, Unsupported
from covey_planner.substrait.types import INTEGERS, is_decimal, timestamp, to_duckdb, to_substrait

_EPOCH = datetime.date(1970, 1, 1)
_MICROS = {0: 1_000_000, 3: 1_000, 6: 1}


def string(text: str) -> str:
    """A text as an SQL literal. Raises ParseError for one that SQL cannot hold."""
    if "\x00" in text:
        raise ParseError("a text in the plan holds a zero byte")
    return "'" + text.replace("'", "''") + "'"


def sql(literal: Any) -> tuple[str, str | None]:
    """A literal as SQL, and its DuckDB type (None for a NULL of a type that DuckDB has no name for)."""
    field = literal.WhichOneof("literal_type")
    value: Any = getattr(literal, field) if field is not None else None
    match field:
        case "null":
            kind = to_duckdb(value)
            return f"CAST(NULL AS {kind})", kind
        case "boolean":
            return ("TRUE" if value else "FALSE"), "BOOLEAN"
        case "i32":
            return (str(value) if value >= 0 else f"({value})"), "INTEGER"
        case "i8" | "i16" | "i64":
            kind = {"i8": "TINYINT", "i16": "SMALLINT", "i64": "BIGINT"}[field]
            return f"CAST({value} AS {kind})", kind
        case "fp32" | "fp64":
            kind = "FLOAT" if field == "fp32" else "DOUBLE"
            return f"CAST('{value!r}' AS {kind})", kind
        case "string" | "fixed_char":
            return string(value), "VARCHAR"
        case "var_char":
            return string(value.value), "VARCHAR"
        case "binary" | "fixed_binary":
            return f"unhex('{value.hex()}')", "BLOB"
        case "decimal":
            return _decimal(value)
        case "uuid":
            return f"CAST('{uuid.UUID(bytes=value)}' AS UUID)" if len(value) == 16 else _wrong(field), "UUID"
        case "interval_year_to_month" | "interval_day_to_second" | "interval_compound":
            return _interval(field, value), "INTERVAL"
        case "list":
            parts = [sql(item) for item in value.values]
            kinds = {kind for _, kind in parts}
            inner = kinds.pop() if len(kinds) == 1 else None
            return f"[{', '.join(text for text, _ in parts)}]", f"{inner}[]" if inner is not None else None
        case "empty_list":
            kind = f"{to_duckdb(value.type)}[]"
            return f"CAST([] AS {kind})", kind
        case _:
            return _moment(field, value)


def _moment(field: str | None, value: Any) -> tuple[str, str]:
    """Dates and times; anything else is refused by its name."""
    match field:
        case "date":
            return f"CAST('{_day(value).isoformat()}' AS DATE)", "DATE"
        case "time":
            return _at(value, 6, "TIME"), "TIME"
        case "precision_time":
            return _at(value.value, value.precision, "TIME"), "TIME"
        case "timestamp":
            return _at(value, 6, "TIMESTAMP"), "TIMESTAMP"
        case "timestamp_tz":
            return _at(value, 6, "TIMESTAMP WITH TIME ZONE"), "TIMESTAMP WITH TIME ZONE"
        case "precision_timestamp":
            kind = timestamp(value.precision)
            return _at(value.value, value.precision, kind), kind
        case "precision_timestamp_tz":
            return _at(value.value, value.precision, "TIMESTAMP WITH TIME ZONE"), "TIMESTAMP WITH TIME ZONE"
    raise Unsupported(f"a literal of kind {field or 'that this version does not know'} is not supported")


def _day(days: int) -> datetime.date:
    try:
        return _EPOCH + datetime.timedelta(days=days)
    except OverflowError:
        raise Unsupported(f"a date {days} days from 1970 is out of range") from None


def _at(count: int, digits: int, kind: str) -> str:
    """A moment so many 10^-digits of a second after the epoch, or after midnight."""
    if digits not in _MICROS:
        raise Unsupported(f"a literal with {digits} digits of a second is not supported")
    try:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=count * _MICROS[digits])
    except OverflowError:
        raise Unsupported(f"a moment {count} units from 1970 is out of range") from None
    text = moment.time().isoformat() if kind == "TIME" else moment.isoformat(sep=" ")
    return f"CAST('{text}{'+00' if kind.endswith('ZONE') else ''}' AS {kind})"


def _decimal(value: Any) -> tuple[str, str]:
    if len(value.value) != 16:
        _wrong("decimal")
    kind = f"DECIMAL({value.precision},{value.scale})"
    number = int.from_bytes(value.value, "little", signed=True)
    text = format(decimal.Decimal(number).scaleb(-value.scale, decimal.Context(prec=60)), "f")
    return f"CAST({text} AS {kind})", kind


def _wrong(field: str) -> str:
    raise ParseError(f"a literal of kind {field} has a wrong number of bytes")


def _interval(field: str, value: Any) -> str:
    months, days, micros = 0, 0, 0
    if field == "interval_compound":
        years, rest = value.interval_year_to_month, value.interval_day_to_second
    elif field == "interval_year_to_month":
        years, rest = value, None
    else:
        years, rest = None, value
    if years is not None:
        months = years.years * 12 + years.months
    if rest is not None:
        digits = rest.precision if rest.subseconds or rest.precision else 6
        if digits > 6:
            raise Unsupported(f"an interval with {digits} digits of a second is not supported")
        days, micros = rest.days, rest.seconds * 1_000_000 + rest.subseconds * 10 ** (6 - digits)
    parts = [f"{months} months"] * bool(months) + [f"{days} days"] * bool(days)
    parts += [f"{micros} microseconds"] if micros or not parts else []
    return f"CAST('{' '.join(parts)}' AS INTERVAL)"


def null(kind: str) -> Any:
    """NULL of a DuckDB type."""
    return Expression.Literal(null=to_substrait(kind))


def number(text: str, kind: str) -> Any:
    """A number as SQL writes it, of a DuckDB type. Raises Unsupported for another type."""
    if kind in INTEGERS:
        field = {"TINYINT": "i8", "SMALLINT": "i16", "INTEGER": "i32", "BIGINT": "i64"}[kind]
        return Expression.Literal(**{field: int(text)})
    if kind in ("DOUBLE", "FLOAT"):
        return Expression.Literal(**{"fp64" if kind == "DOUBLE" else "fp32": float(text)})
    if is_decimal(kind) or kind == "HUGEINT":
        shape = to_substrait(kind).decimal
        whole = int(decimal.Decimal(text).scaleb(shape.scale, decimal.Context(prec=60)))
        packed = whole.to_bytes(16, "little", signed=True)
        made = Expression.Literal.Decimal(value=packed, precision=shape.precision, scale=shape.scale)
        return Expression.Literal(decimal=made)
    raise Unsupported(f"the number {text} as {kind} has no counterpart in a Substrait plan")


def interval(months: int, days: int, micros: int) -> Any:
    """An interval, in the narrowest of Substrait's three kinds."""
    years = Expression.Literal.IntervalYearToMonth(years=months // 12, months=months % 12)
    seconds, rest = divmod(micros, 1_000_000)
    exact = Expression.Literal.IntervalDayToSecond(days=days, seconds=seconds, subseconds=rest, precision=6)
    if not (days or micros):
        return Expression.Literal(interval_year_to_month=years)
    if not months:
        return Expression.Literal(interval_day_to_second=exact)
    compound = Expression.Literal.IntervalCompound(interval_year_to_month=years, interval_day_to_second=exact)
    return Expression.Literal(interval_compound=compound)


def day(text: str) -> Any | None:
    """A date literal; None where the text is no plain ISO date."""
    try:
        return Expression.Literal(date=(datetime.date.fromisoformat(text.strip()) - _EPOCH).days)
    except ValueError:
        return None


def text_map(pairs: dict[str, str]) -> Any:
    """A literal of texts by text."""
    entry = Expression.Literal.Map.KeyValue
    texts = Expression.Literal
    items = [entry(key=texts(string=key), value=texts(string=value)) for key, value in pairs.items()]
    return Expression.Literal(map=Expression.Literal.Map(key_values=items))
