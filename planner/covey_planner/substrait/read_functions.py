"""Calls of functions and aggregates of a plan in, SQL out, cast to the types that the plan says; runs nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from substrait.algebra_pb2 import FunctionArgument

from covey_planner.binding.volatile import NAMES as VOLATILE
from covey_planner.errors import BindError, Unsupported
from covey_planner.substrait import read_ai
from covey_planner.substrait.functions import AGGREGATE, AI, AI_NAMES, DUCKDB, OPTIONS, SCALAR, render
from covey_planner.substrait.select import Sql, listed
from covey_planner.substrait.types import INTEGERS, is_decimal, to_duckdb

if TYPE_CHECKING:
    from covey_planner.substrait.read_expressions import Expressions

_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_OPERATORS = frozenset(
    {"+", "-", "*", "/", "%", "//", "^", "@", "&", "|", "<<", ">>", "~", "!~", "->", "->>"}
)
"""Operators that go by DuckDB's name."""

_PARTS = {"ISO_YEAR": "isoyear", "ISO_WEEK": "week", "DAY_OF_WEEK": "dow", "ISO_DAY_OF_WEEK": "isodow"}
_PARTS |= {
    "DAY_OF_YEAR": "doy",
    "UNIX_TIME": "epoch",
    "MILLISECOND": "millisecond",
    "MICROSECOND": "microsecond",
}
_PARTS |= {
    name: name.lower() for name in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
}


def measure(reader: Expressions, measure: Any, fields: Sequence[Sql]) -> Sql:
    """An aggregate over the columns of a relation. Raises BindError and Unsupported."""
    call = measure.measure
    owner, name = reader.declared.function(call.function_reference)
    arguments = _arguments(reader, call.arguments, fields, name)
    if owner == DUCKDB:
        sql, gives = _own(name), None
    elif name in AGGREGATE:
        sql, gives = _optioned(call, name, AGGREGATE[name].sql), AGGREGATE[name].gives
    else:
        raise _unknown(name, owner, "aggregate function")
    if call.phase in (1, 2):
        raise Unsupported(f"{name} in a phase of its own, without the others, is not supported")
    inside = ("DISTINCT " if call.invocation == 2 else "") + (listed(arguments) or "*" * (name == "count"))
    keys = [f"{key.text} {direction}" for key, direction in reader.sorts(call.sorts, fields)]
    inside += f" ORDER BY {', '.join(keys)}" if keys else ""
    text = f"{sql}({inside})"
    if measure.HasField("filter"):
        text = f"{text} FILTER (WHERE {reader.read(measure.filter, fields).text})"
    if name == "sum" and arguments and arguments[0].type in INTEGERS:
        gives = "DECIMAL(38,0)"
    return _declared_as(text, gives, call.output_type, arguments)


def scalar(reader: Expressions, call: Any, fields: Sequence[Sql]) -> Sql:
    """A call of a function. Raises BindError and Unsupported."""
    owner, name = reader.declared.function(call.function_reference)
    given = call.arguments or [FunctionArgument(value=argument) for argument in call.args]
    if owner == AI:
        return _ai(reader, name, given, fields)
    arguments = _arguments(reader, given, fields, name)
    texts = [argument.text for argument in arguments]
    if owner == DUCKDB:
        if name in _OPERATORS and len(texts) in (1, 2):
            text = f"({f' {name} '.join(['', *texts] if len(texts) == 1 else texts)})"
        else:
            text = render(_own(name), texts)
        once = name in VOLATILE
        return _declared_as(text, None, call.output_type, arguments, once)
    if name == "extract":
        text = f"extract({_part(given)} FROM {arguments[-1].text})"
        return _declared_as(text, "DOUBLE", call.output_type, arguments)
    if name not in SCALAR:
        raise _unknown(name, owner, "function")
    sql, gives = _optioned(call, name, SCALAR[name].sql), SCALAR[name].gives
    if name == "divide" and all(argument.type in INTEGERS for argument in arguments):
        sql = "{0} // {1}"
    elif name == "divide" and any(is_decimal(argument.type or "") for argument in arguments):
        gives = "DOUBLE"
    if name in ("and", "or") and len(texts) == 1:
        return arguments[0]
    try:
        return _declared_as(render(sql, texts), gives, call.output_type, arguments)
    except IndexError:
        raise BindError(f"the function {name} is given {len(texts)} arguments, which is too few") from None


def _ai(reader: Expressions, name: str, given: Sequence[Any], fields: Sequence[Sql]) -> Sql:
    if name not in AI_NAMES:
        raise _unknown(name, AI, "function")
    texts = [
        "" if _is_map(argument) else _arguments(reader, [argument], fields, name)[0].text
        for argument in given
    ]
    return read_ai.call(name, given, texts)


def _arguments(reader: Expressions, given: Sequence[Any], fields: Sequence[Sql], name: str) -> list[Sql]:
    """The arguments that are values; those that are words are for the function alone."""
    found = []
    for number, argument in enumerate(given, 1):
        match argument.WhichOneof("arg_type"):
            case "value":
                found.append(reader.read(argument.value, fields))
            case "enum" if name == "extract":
                continue
            case kind:
                raise Unsupported(f"argument {number} of {name} is of kind {kind}, which is not supported")
    return found


def _declared_as(
    text: str, gives: str | None, declared: Any, arguments: Sequence[Sql], once: bool = False
) -> Sql:
    """A call's result as the type that the plan says, cast where the call gives another."""
    kind = to_duckdb(declared) if declared.WhichOneof("kind") is not None else gives
    if gives is not None and kind is not None and kind != gives:
        text = f"CAST({text} AS {kind})"
    return Sql(text, kind, once=once or any(argument.once for argument in arguments))


def _is_map(argument: Any) -> bool:
    value = argument.value
    return bool(value.HasField("literal") and value.literal.HasField("map"))


def _own(name: str) -> str:
    """A function that goes by DuckDB's name."""
    if not _NAME.fullmatch(name):
        raise BindError(f"{name!r} is no name of a function")
    return f'"{name}"' if name in ("left", "right", "xor") else name


def _part(given: Sequence[Any]) -> str:
    words = [argument.enum.upper() for argument in given if argument.WhichOneof("arg_type") == "enum"]
    if not words or words[0] not in _PARTS or words[1:] not in ([], ["ONE"]):
        raise Unsupported(f"extract of {' '.join(words) or 'nothing'} is not supported")
    return _PARTS[words[0]]


def _optioned(call: Any, name: str, sql: str) -> str:
    """A function's rendering as its options say. Of several preferences, the first that changes one counts."""
    for option in call.options:
        for preference in option.preference[:1]:
            sql = OPTIONS.get((name, option.name, preference), sql)
    return sql


def _unknown(name: str, owner: str, what: str) -> Unsupported:
    where = f" of {owner}" if owner else ""
    return Unsupported(f"the {what} {name}{where} is not known")
