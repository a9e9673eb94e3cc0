"""Relations of a plan in, SELECTs out, as flat as SQL allows. Reads no table; notes which ones the plan expects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from covey_planner.errors import BindError, Unsupported
from covey_planner.substrait.extensions import Declared
from covey_planner.substrait.read_aggregates import aggregated
from covey_planner.substrait.read_expressions import Expressions
from covey_planner.substrait.read_tables import Read, table, values
from covey_planner.substrait.select import Key, Names, Select, Sql, derived, joined, sort_key

_JOINS = {1: "INNER", 2: "FULL", 3: "LEFT", 4: "RIGHT", 5: "SEMI", 6: "ANTI", 8: "SEMI", 9: "ANTI"}
_SETS = {1: "EXCEPT", 7: "EXCEPT ALL", 4: "INTERSECT", 8: "INTERSECT ALL", 5: "UNION", 6: "UNION ALL"}
_SETS |= {2: "EXCEPT", 3: "INTERSECT"}


class Relations:
    """Reads the relations of one plan. plan: for the subtrees that it refers to."""

    def __init__(self, plan: Any) -> None:
        self._plan = plan
        self._names = Names()
        self._within: list[int] = []
        self._expressions = Expressions(Declared(plan), self.read)
        self.reads: list[Read] = []

    def read(self, node: Any) -> Select:
        """A relation. Raises BindError and Unsupported."""
        kind = node.WhichOneof("rel_type")
        if kind is None or kind not in _READERS:
            raise Unsupported(
                f"a relation of kind {kind or 'that this version does not know'} is not supported"
            )
        relation = getattr(node, kind)
        select = _READERS[kind](self, relation)
        if kind != "reference" and relation.common.WhichOneof("emit_kind") == "emit":
            mapping = relation.common.emit.output_mapping
            wrong = [number for number in mapping if not 0 <= number < len(select.columns)]
            if wrong:
                raise BindError(
                    f"the plan emits column {wrong[0]} of a {kind} that has {len(select.columns)}"
                )
            base = select.wrapped(self._names) if select.distinct else select
            select = replace(base, columns=tuple(base.columns[number] for number in mapping))
            select = _kept(base, select, self._names)
        return select

    def _input(self, relation: Any, field: str = "input") -> Select:
        if not relation.HasField(field):
            raise BindError(f"a relation of the plan has no {field}")
        return self.read(getattr(relation, field))

    def _read(self, relation: Any) -> Select:
        kind = relation.WhichOneof("read_type")
        match kind:
            case "named_table":
                select, read = table(relation, self._names)
                self.reads.append(read)
            case "virtual_table":
                select = values(relation, self._expressions, self._names)
            case _:
                raise Unsupported(f"reading from a {kind or 'source of unknown kind'} is not supported")
        if relation.HasField("filter"):
            select = self._where(select, relation.filter)
        if relation.HasField("projection"):
            items = relation.projection.select.struct_items
            if any(not 0 <= item.field < len(select.columns) for item in items):
                raise BindError("the projection of a read names a field that the table does not have")
            if any(item.HasField("child") for item in items):
                raise Unsupported("a projection inside a column is not supported")
            select = replace(select, columns=tuple(select.columns[item.field] for item in items))
        return select

    def _where(self, select: Select, condition: Any) -> Select:
        if select.grouped and _correlated([condition]):
            select = select.wrapped(self._names)
        return select.filtered(self._names, lambda base: self._expressions.read(condition, base.columns).text)

    def _filter(self, relation: Any) -> Select:
        return self._where(self._input(relation), relation.condition)

    def _project(self, relation: Any) -> Select:
        base = self._input(relation).stable(self._names)
        if base.distinct or (base.grouped and _correlated(relation.expressions)):
            base = base.wrapped(self._names)
        made = [self._expressions.read(expression, base.columns) for expression in relation.expressions]
        return replace(base, columns=(*base.columns, *made))

    def _join(self, relation: Any) -> Select:
        if relation.type not in _JOINS:
            raise Unsupported(f"a join of type {_name(relation, 'type', relation.type)} is not supported")
        kind = _JOINS[relation.type]
        left, right = self._input(relation, "left"), self._input(relation, "right")
        if relation.type in (8, 9):
            left, right = right, left
        width, swapped = len(left.columns), relation.type in (8, 9)

        def condition(fields: Sequence[Sql]) -> str | None:
            if not relation.HasField("expression"):
                return None
            # To the plan the left side's columns come first, whichever side is kept.
            given = (*fields[width:], *fields[:width]) if swapped else fields
            return self._expressions.read(relation.expression, given).text

        select = joined(left, right, kind, self._names, condition)
        if relation.HasField("post_join_filter"):
            select = self._where(select, relation.post_join_filter)
        return select

    def _cross(self, relation: Any) -> Select:
        left, right = self._input(relation, "left"), self._input(relation, "right")
        return joined(left, right, "INNER", self._names, lambda _: None)

    def _sort(self, relation: Any) -> Select:
        select = self._input(relation).stable(self._names)
        correlated = _correlated([sort.expr for sort in relation.sorts])
        if select.limited or select.distinct or (select.grouped and correlated):
            select = select.wrapped(self._names)
        keys = self._expressions.sorts(relation.sorts, select.columns)
        return replace(select, order=tuple(Key(sort_key(key.text), direction) for key, direction in keys))

    def _fetch(self, relation: Any) -> Select:
        select = self._input(relation)
        if select.limited:
            select = select.wrapped(self._names)
        offset = self._rows(relation, "offset")
        return replace(select, limit=self._rows(relation, "count"), offset=None if offset == "0" else offset)

    def _rows(self, relation: Any, field: str) -> str | None:
        """How many rows; None for all of them. Older plans have a number in the place of an expression."""
        if relation.WhichOneof(f"{field}_mode") == f"{field}_expr":
            expression = getattr(relation, f"{field}_expr")
            if expression.literal.WhichOneof("literal_type") == "null":
                return None
            number = expression.literal.WhichOneof("literal_type")
            if number in ("i8", "i16", "i32", "i64"):
                return str(getattr(expression.literal, number))
            return self._expressions.read(expression, ()).text
        if relation.WhichOneof(f"{field}_mode") is None or getattr(relation, field) < 0:
            return None
        return str(getattr(relation, field))

    def _aggregate(self, relation: Any) -> Select:
        return aggregated(relation, self._input(relation), self._expressions, self._names)

    def _set(self, relation: Any) -> Select:
        if relation.op not in _SETS:
            raise Unsupported(
                f"a set operation of kind {_name(relation, 'op', relation.op)} is not supported"
            )
        inputs = [self.read(node) for node in relation.inputs]
        if len(inputs) < 2:
            raise BindError("a set operation of the plan has fewer than two inputs")
        widths = {len(select.columns) for select in inputs}
        if len(widths) > 1:
            raise BindError(
                f"the inputs of a set operation have {' and '.join(map(str, sorted(widths)))} columns"
            )
        if not inputs[0].columns:
            raise Unsupported("a set operation without columns is not supported")
        names = [f"c{number}" for number in range(len(inputs[0].columns))]
        texts = [
            f"({select.text(names)})" if select.limited else replace(select, order=()).text(names)
            for select in inputs
        ]
        word = f" {_SETS[relation.op]} "
        if relation.op in (2, 3) and len(texts) > 2:
            # Of several secondary inputs, MINUS_MULTISET takes what is in all, INTERSECTION_PRIMARY what is in any.
            among = " INTERSECT " if relation.op == 2 else " UNION "
            texts = [texts[0], f"({among.join(texts[1:])})"]
        text = word.join(texts)
        return derived(text, inputs[0].columns, self._names)

    def _reference(self, relation: Any) -> Select:
        ordinal = relation.subtree_ordinal
        if not 0 <= ordinal < len(self._plan.relations) or ordinal in self._within:
            raise BindError(
                f"the plan refers to its relation {ordinal}, which is not there or holds the reference"
            )
        self._within.append(ordinal)
        root = self._plan.relations[ordinal]
        select = self.read(root.root.input if root.WhichOneof("rel_type") == "root" else root.rel)
        self._within.pop()
        return select


_READERS = {
    "read": Relations._read,
    "filter": Relations._filter,
    "project": Relations._project,
    "join": Relations._join,
    "cross": Relations._cross,
    "sort": Relations._sort,
    "fetch": Relations._fetch,
    "aggregate": Relations._aggregate,
    "set": Relations._set,
    "reference": Relations._reference,
}


def _correlated(nodes: Sequence[Any]) -> bool:
    """Whether a subquery in an expression may read the columns around it: SQL knows no aggregates there."""
    return any("outer_reference" in str(node) for node in nodes)


def _kept(base: Select, select: Select, names: Names) -> Select:
    """A SELECT of some columns, still about one group where no aggregate is left to say so."""
    said = any(text in column.text for text in base.aggregates for column in select.columns)
    if base.group == "" and not said:
        taken = [base.columns.index(column) for column in select.columns]
        wrapped = base.wrapped(names)
        return replace(wrapped, columns=tuple(wrapped.columns[number] for number in taken))
    return select


def _name(message: Any, field: str, number: int) -> str:
    """The name of an enumeration's value."""
    found = message.DESCRIPTOR.fields_by_name[field].enum_type.values_by_number.get(number)
    return found.name.lower() if found is not None else str(number)
