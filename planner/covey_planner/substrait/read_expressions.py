"""Expressions of a plan in, SQL over the columns of a relation out. Reads subqueries through the reader it is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

from covey_planner.errors import BindError, Unsupported
from covey_planner.substrait import literals
from covey_planner.substrait.extensions import Declared
from covey_planner.substrait.read_functions import scalar
from covey_planner.substrait.select import Select, Sql, listed, made_of
from covey_planner.substrait.types import to_duckdb

_COMPARISONS = ("=", "<>", "<", ">", "<=", ">=")
"""In the order of Substrait's numbers."""

_SORTS = ("ASC NULLS FIRST", "ASC NULLS LAST", "DESC NULLS FIRST", "DESC NULLS LAST")
Fields = Sequence[Sql]


class Expressions:
    """Reads the expressions of one plan. query: how to read a relation inside an expression."""

    def __init__(self, declared: Declared, query: Callable[[Any], Select]) -> None:
        self.declared = declared
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
                return scalar(self, node.scalar_function, fields)
            case "cast":
                return self._cast(node.cast, fields)
            case "if_then":
                return self._if_then(node.if_then, fields)
            case "switch_expression":
                return self._switch(node.switch_expression, fields)
            case "singular_or_list":
                value = self.read(node.singular_or_list.value, fields)
                options = [self.read(option, fields) for option in node.singular_or_list.options]
                return made_of(f"({value.text} IN ({listed(options)}))", "BOOLEAN", [value, *options])
            case "multi_or_list":
                return self._multi(node.multi_or_list, fields)
            case "subquery":
                return self._subquery(node.subquery, fields)
            case "nested" if node.nested.WhichOneof("nested_type") == "list":
                parts = [self.read(part, fields) for part in node.nested.list.values]
                inner = parts[0].type if parts else None
                return made_of(f"[{listed(parts)}]", f"{inner}[]" if inner is not None else None, parts)
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

    def _cast(self, node: Any, fields: Fields) -> Sql:
        value, kind = self.read(node.input, fields), to_duckdb(node.type)
        word = "TRY_CAST" if node.failure_behavior == 1 else "CAST"
        return made_of(f"{word}({value.text} AS {kind})", kind, [value])

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
        return made_of(f"CASE{value}{text} END", pairs[0][1].type, parts)

    def _multi(self, node: Any, fields: Fields) -> Sql:
        values = [self.read(value, fields) for value in node.value]
        rows = [[self.read(field, fields) for field in record.fields] for record in node.options]
        text = ", ".join(f"({listed(row)})" for row in rows)
        return made_of(
            f"(({listed(values)}) IN ({text}))", "BOOLEAN", [*values, *(part for row in rows for part in row)]
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
                    value = f"({listed(needles)})" if len(needles) > 1 else listed(needles)
                    return made_of(f"({value} IN ({text}))", "BOOLEAN", needles)
                case "set_predicate" if node.set_predicate.predicate_op == 1:
                    return Sql(f"EXISTS ({_query(self._query(node.set_predicate.tuples), None)})", "BOOLEAN")
                case "set_comparison" if left is not None:
                    said = node.set_comparison
                    if not (1 <= said.comparison_op <= 6 and 1 <= said.reduction_op <= 2):
                        raise Unsupported("a set comparison of an unknown kind is not supported")
                    word = ("ANY", "ALL")[said.reduction_op - 1]
                    sign = _COMPARISONS[said.comparison_op - 1]
                    text = _query(self._query(said.right), 1)
                    return made_of(f"({left.text} {sign} {word} ({text}))", "BOOLEAN", [left])
        raise Unsupported(f"a subquery of kind {kind or 'unknown'} (UNIQUE among them) is not supported")


def _query(select: Select, width: int | None) -> str:
    """A subquery's text. width: how many columns it must have, None for any number."""
    if width is not None and len(select.columns) != width:
        raise BindError(f"a subquery yields {len(select.columns)} columns, not {width}")
    return select.text([f"c{number}" for number in range(len(select.columns))])


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
