"""Expressions of a plan in, SQL over the columns of a relation out. Reads subqueries through the reader it is given."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

from substrait.algebra_pb2 import FunctionArgument

from covey_planner.binding.volatile import NAMES as VOLATILE
from covey_planner.errors import BindError, Unsupported
from covey_planner.substrait import ai_calls, literals
from covey_planner.substrait.extensions import Declared
from covey_planner.substrait.functions import AGGREGATE, AI, AI_NAMES, DUCKDB, OPTIONS, SCALAR, render
from covey_planner.substrait.select import Select, Sql
from covey_planner.substrait.types import INTEGERS, is_decimal, to_duckdb

_NAME = re.compile(r"[a-z_][a-z0-9_]*")
OPERATORS = frozenset({"+", "-", "*", "/", "%", "//", "^", "@", "&", "|", "<<", ">>", "~", "!~", "->", "->>"})
"""Operators that go by DuckDB's name."""

_COMPARISONS = ("=", "<>", "<", ">", "<=", ">=")
"""In the order of Substrait's numbers."""

_SORTS = ("ASC NULLS FIRST", "ASC NULLS LAST", "DESC NULLS FIRST", "DESC NULLS LAST")
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

Fields = Sequence[Sql]


class Expressions:
    """Reads the expressions of one plan. query: how to read a relation inside an expression."""

    def __init__(self, declared: Declared, query: Callable[[Any], Select]) -> None:
        self._declared = declared
        self._query = query
        self._outer: list[Fields] = []

    def read(self, node: Any, fields: Fields) -> Sql:
        """An expression over the columns of its relation. Raises BindError and Unsupported."""
        kind = node.WhichOneof("rex_type")
        match kind:
            case "literal":
                return Sql(*literals.sql(node.literal))
            case "selection":
                return self._field(node.selection, fields)
            case "scalar_function":
                return self._scalar(node.scalar_function, fields)
            case "cast":
                return self._cast(node.cast, fields)
            case "if_then":
                return self._if_then(node.if_then, fields)
            case "switch_expression":
                return self._switch(node.switch_expression, fields)
            case "singular_or_list":
                value = self.read(node.singular_or_list.value, fields)
                options = [self.read(option, fields) for option in node.singular_or_list.options]
                return _of(f"({value.text} IN ({_list(options)}))", "BOOLEAN", [value, *options])
            case "multi_or_list":
                return self._multi(node.multi_or_list, fields)
            case "subquery":
                return self._subquery(node.subquery, fields)
            case "nested" if node.nested.WhichOneof("nested_type") == "list":
                parts = [self.read(part, fields) for part in node.nested.list.values]
                inner = parts[0].type if parts else None
                return _of(f"[{_list(parts)}]", f"{inner}[]" if inner is not None else None, parts)
            case "dynamic_parameter":
                kind = to_duckdb(node.dynamic_parameter.type)
                return Sql(f"CAST(${node.dynamic_parameter.parameter_reference + 1} AS {kind})", kind)
            case "window_function":
                raise Unsupported("window functions in a Substrait plan are not supported")
        raise Unsupported(
            f"an expression of kind {kind or 'that this version does not know'} is not supported"
        )

    def sorts(self, sorts: Sequence[Any], fields: Fields) -> list[tuple[Sql, str]]:
        """What to sort by, and the direction of each as SQL."""
        return [(self.read(sort.expr, fields), _direction(sort)) for sort in sorts]

    def measure(self, measure: Any, fields: Fields) -> Sql:
        """An aggregate."""
        call = measure.measure
        owner, name = self._declared.function(call.function_reference)
        arguments = self._arguments(call.arguments, fields, name)
        if owner == DUCKDB:
            sql, gives = _own(name), None
        elif name in AGGREGATE:
            sql, gives = _optioned(call, name, AGGREGATE[name].sql), AGGREGATE[name].gives
        else:
            raise _unknown(name, owner, "aggregate function")
        if call.phase in (1, 2):
            raise Unsupported(f"{name} in a phase of its own, without the others, is not supported")
        inside = ("DISTINCT " if call.invocation == 2 else "") + (_list(arguments) or "*" * (name == "count"))
        keys = [f"{key.text} {direction}" for key, direction in self.sorts(call.sorts, fields)]
        inside += f" ORDER BY {', '.join(keys)}" if keys else ""
        text = f"{sql}({inside})"
        if measure.HasField("filter"):
            text = f"{text} FILTER (WHERE {self.read(measure.filter, fields).text})"
        if name == "sum" and arguments and arguments[0].type in INTEGERS:
            gives = "DECIMAL(38,0)"
        return _declared_as(text, gives, call.output_type, arguments)

    @contextmanager
    def _inside(self, fields: Fields) -> Any:
        """While a subquery of these columns' relation is read."""
        self._outer.append(fields)
        try:
            yield
        finally:
            self._outer.pop()

    def _field(self, node: Any, fields: Fields) -> Sql:
        if node.WhichOneof("reference_type") != "direct_reference":
            raise Unsupported("a masked reference in an expression is not supported")
        segment = node.direct_reference
        match node.WhichOneof("root_type"):
            case "expression":
                return _below(self.read(node.expression, fields), segment)
            case "outer_reference":
                steps = node.outer_reference.steps_out
                if not 1 <= steps <= len(self._outer):
                    raise BindError(f"an outer reference goes {steps} steps out, of {len(self._outer)}")
                fields = self._outer[-steps]
        if segment.WhichOneof("reference_type") != "struct_field":
            raise Unsupported("a reference that does not begin with a field is not supported")
        number = segment.struct_field.field
        if not 0 <= number < len(fields):
            raise BindError(f"the plan refers to field {number} of a relation that has {len(fields)} columns")
        found = fields[number]
        return _below(found, segment.struct_field.child) if segment.struct_field.HasField("child") else found

    def _scalar(self, call: Any, fields: Fields) -> Sql:
        owner, name = self._declared.function(call.function_reference)
        given = call.arguments or [FunctionArgument(value=argument) for argument in call.args]
        if owner == AI:
            return self._ai(name, given, fields)
        arguments = self._arguments(given, fields, name)
        texts = [argument.text for argument in arguments]
        if owner == DUCKDB:
            if name in OPERATORS and len(texts) in (1, 2):
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
            raise BindError(
                f"the function {name} is given {len(texts)} arguments, which is too few"
            ) from None

    def _ai(self, name: str, given: Sequence[Any], fields: Fields) -> Sql:
        if name not in AI_NAMES:
            raise _unknown(name, AI, "function")
        texts = [
            "" if _is_map(argument) else self._arguments([argument], fields, name)[0].text
            for argument in given
        ]
        return ai_calls.call(name, given, texts)

    def _arguments(self, given: Sequence[Any], fields: Fields, name: str) -> list[Sql]:
        """The arguments that are values; those that are words are for the function alone."""
        found = []
        for number, argument in enumerate(given, 1):
            match argument.WhichOneof("arg_type"):
                case "value":
                    found.append(self.read(argument.value, fields))
                case "enum" if name == "extract":
                    continue
                case kind:
                    raise Unsupported(
                        f"argument {number} of {name} is of kind {kind}, which is not supported"
                    )
        return found

    def _cast(self, node: Any, fields: Fields) -> Sql:
        value, kind = self.read(node.input, fields), to_duckdb(node.type)
        word = "TRY_CAST" if node.failure_behavior == 1 else "CAST"
        return _of(f"{word}({value.text} AS {kind})", kind, [value])

    def _if_then(self, node: Any, fields: Fields) -> Sql:
        pairs = [(self.read(getattr(part, "if"), fields), self.read(part.then, fields)) for part in node.ifs]
        return self._case("", pairs, node, fields)

    def _switch(self, node: Any, fields: Fields) -> Sql:
        pairs = [(Sql(*literals.sql(getattr(part, "if"))), self.read(part.then, fields)) for part in node.ifs]
        return self._case(f" {self.read(node.match, fields).text}", pairs, node, fields)

    def _case(self, value: str, pairs: Sequence[tuple[Sql, Sql]], node: Any, fields: Fields) -> Sql:
        parts = [part for pair in pairs for part in pair]
        text = "".join(f" WHEN {condition.text} THEN {result.text}" for condition, result in pairs)
        if node.HasField("else"):
            last = self.read(getattr(node, "else"), fields)
            parts, text = [*parts, last], f"{text} ELSE {last.text}"
        if not pairs:
            raise BindError("a condition in the plan has no branches")
        return _of(f"CASE{value}{text} END", pairs[0][1].type, parts)

    def _multi(self, node: Any, fields: Fields) -> Sql:
        values = [self.read(value, fields) for value in node.value]
        rows = [[self.read(field, fields) for field in record.fields] for record in node.options]
        text = ", ".join(f"({_list(row)})" for row in rows)
        return _of(
            f"(({_list(values)}) IN ({text}))", "BOOLEAN", [*values, *(part for row in rows for part in row)]
        )

    def _subquery(self, node: Any, fields: Fields) -> Sql:
        kind = node.WhichOneof("subquery_type")
        needles = [self.read(needle, fields) for needle in node.in_predicate.needles]
        left = self.read(node.set_comparison.left, fields) if kind == "set_comparison" else None
        with self._inside(fields):
            match kind:
                case "scalar":
                    inner = self._query(node.scalar.input)
                    return Sql(f"({_query(inner, 1)})", inner.columns[0].type)
                case "in_predicate":
                    text = _query(self._query(node.in_predicate.haystack), len(needles))
                    value = f"({_list(needles)})" if len(needles) > 1 else _list(needles)
                    return _of(f"({value} IN ({text}))", "BOOLEAN", needles)
                case "set_predicate" if node.set_predicate.predicate_op == 1:
                    return Sql(f"EXISTS ({_query(self._query(node.set_predicate.tuples), None)})", "BOOLEAN")
                case "set_comparison" if left is not None:
                    said = node.set_comparison
                    if not (1 <= said.comparison_op <= 6 and 1 <= said.reduction_op <= 2):
                        raise Unsupported("a set comparison of an unknown kind is not supported")
                    word = ("ANY", "ALL")[said.reduction_op - 1]
                    sign = _COMPARISONS[said.comparison_op - 1]
                    text = _query(self._query(said.right), 1)
                    return _of(f"({left.text} {sign} {word} ({text}))", "BOOLEAN", [left])
        raise Unsupported(f"a subquery of kind {kind or 'unknown'} (UNIQUE among them) is not supported")


def _query(select: Select, width: int | None) -> str:
    """A subquery's text. width: how many columns it must have, None for any number."""
    if width is not None and len(select.columns) != width:
        raise BindError(f"a subquery yields {len(select.columns)} columns, not {width}")
    return select.text([f"c{number}" for number in range(len(select.columns))])


def _declared_as(
    text: str, gives: str | None, declared: Any, arguments: Sequence[Sql], once: bool = False
) -> Sql:
    """A call's result as the type that the plan says, cast where the call gives another."""
    kind = to_duckdb(declared) if declared.WhichOneof("kind") is not None else gives
    if gives is not None and kind is not None and kind != gives:
        text = f"CAST({text} AS {kind})"
    return Sql(text, kind, once=once or any(argument.once for argument in arguments))


def _of(text: str, kind: str | None, parts: Sequence[Sql]) -> Sql:
    return Sql(text, kind, once=any(part.once for part in parts))


def _list(parts: Sequence[Sql]) -> str:
    return ", ".join(part.text for part in parts)


def _direction(sort: Any) -> str:
    if sort.WhichOneof("sort_kind") != "direction" or not 1 <= sort.direction <= 4:
        raise Unsupported(
            "sorting other than ascending or descending, with NULLs first or last, is not supported"
        )
    return _SORTS[sort.direction - 1]


def _below(value: Sql, segment: Any) -> Sql:
    """An element of a list; a field of a struct has no name in a plan, so SQL cannot say it."""
    match segment.WhichOneof("reference_type"):
        case None:
            return value
        case "list_element" if value.type is not None and value.type.endswith("[]"):
            offset = segment.list_element.offset
            text = f"{value.text}[{offset + 1 if offset >= 0 else offset}]"
            found = Sql(text, value.type[:-2], once=value.once)
            return (
                _below(found, segment.list_element.child) if segment.list_element.HasField("child") else found
            )
        case kind:
            raise Unsupported(f"a reference to a {kind} inside a value is not supported")


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
