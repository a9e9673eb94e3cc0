"""Relations of a plan in, SELECTs out, as flat as SQL allows. Reads no table; notes which ones the plan expects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from substrait.algebra_pb2 import Expression

from covey_planner.errors import BindError, Unsupported
from covey_planner.language.parse import quote
from covey_planner.substrait.extensions import Declared
from covey_planner.substrait.read_expressions import Expressions
from covey_planner.substrait.select import Key, Names, Select, Sql, derived, joined
from covey_planner.substrait.types import to_duckdb


@dataclass(frozen=True)
class Read:
    """A table as the plan takes it to be: its name as SQL, its columns' names and DuckDB types."""

    table: str
    columns: tuple[tuple[str, str], ...]


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
                select = self._table(relation)
            case "virtual_table":
                select = self._values(relation)
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

    def _table(self, relation: Any) -> Select:
        names = list(relation.named_table.names)
        schema = relation.base_schema
        if not names:
            raise BindError("the plan reads a table without a name")
        if len(names) > 3:
            raise Unsupported(f"the table name {'.'.join(names)} has too many parts")
        if len(schema.names) != len(schema.struct.types):
            raise BindError(
                f"the schema of {names[-1]} has {len(schema.names)} names and {len(schema.struct.types)} types"
            )
        types = [
            _type_of(kind, name, names[-1])
            for kind, name in zip(schema.struct.types, schema.names, strict=True)
        ]
        alias = quote(self._names.take(names[-1]))
        table = ".".join(map(quote, names))
        self.reads.append(Read(table, tuple(zip(schema.names, types, strict=True))))
        columns = tuple(
            Sql(f"{alias}.{quote(name)}", kind, plain=True)
            for name, kind in zip(schema.names, types, strict=True)
        )
        return Select(f"{table} AS {alias}" if table != alias else table, columns)

    def _values(self, relation: Any) -> Select:
        schema = relation.base_schema
        types = [_type_of(kind, "a value", "a virtual table") for kind in schema.struct.types]
        table = relation.virtual_table
        rows = [[self._expressions.read(field, ()).text for field in row.fields] for row in table.expressions]
        rows += [
            [self._expressions.read(Expression(literal=field), ()).text for field in row.fields]
            for row in table.values
        ]
        if any(len(row) != len(types) for row in rows):
            raise BindError(f"a row of a virtual table does not have {len(types)} values, as its schema says")
        if not types:
            return Select("", ()) if len(rows) == 1 else self._nothing(types, len(rows))
        if not rows:
            return self._nothing(types, 0)
        casts = [f"CAST({text} AS {kind})" for text, kind in zip(rows[0], types, strict=True)]
        first = ", ".join(f"{text} AS c{number}" for number, text in enumerate(casts))
        text = " UNION ALL ".join([f"SELECT {first}", *(f"SELECT {', '.join(row)}" for row in rows[1:])])
        return derived(text, [Sql("", kind) for kind in types], self._names)

    def _nothing(self, types: Sequence[str], rows: int) -> Select:
        items = (
            ", ".join(f"CAST(NULL AS {kind}) AS c{number}" for number, kind in enumerate(types)) or "1 AS c0"
        )
        text = " UNION ALL ".join([f"SELECT {items}"] * rows) or f"SELECT {items} WHERE FALSE"
        return derived(text, [Sql("", kind) for kind in types], self._names)

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
        return replace(select, order=tuple(Key(_key(key.text), direction) for key, direction in keys))

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
        base = self._input(relation).stable(self._names)
        if base.grouped or base.distinct or base.limited:
            base = base.wrapped(self._names)
        shared = [self._expressions.read(node, base.columns) for node in relation.grouping_expressions]
        sets: list[list[int]] = []
        for grouping in relation.groupings:
            if grouping.grouping_expressions and not relation.grouping_expressions:
                # Plans before 2025 repeat the expressions in each set.
                own = [self._expressions.read(node, base.columns) for node in grouping.grouping_expressions]
                known = [one.text for one in shared]
                sets.append(_numbers(own, known, shared))
            else:
                sets.append(list(grouping.expression_references))
        if not relation.groupings and shared:
            sets = [list(range(len(shared)))]
        if any(not 0 <= number < len(shared) for numbers in sets for number in numbers):
            raise BindError("a grouping refers to an expression that the aggregate does not have")
        measures = [self._expressions.measure(measure, base.columns) for measure in relation.measures]
        return _grouped(replace(base, order=()), shared, sets, measures)

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


def _grouped(
    base: Select, shared: Sequence[Sql], sets: Sequence[Sequence[int]], measures: Sequence[Sql]
) -> Select:
    """An aggregate over a plain SELECT. sets: the grouping sets, by the numbers of their expressions."""
    order = list(dict.fromkeys(number for numbers in sets for number in numbers))
    keys = [_key(one.text) for one in shared]
    groups = [shared[number] for number in order]
    if len(sets) <= 1:
        if groups and not measures:
            return replace(base, columns=tuple(groups), distinct=True)
        if not groups and not measures:
            raise Unsupported("an aggregate without groups and measures is not supported")
        group = ", ".join(keys[number] for number in order)
        aggregates = tuple(measure.text for measure in measures)
        return replace(base, columns=(*groups, *measures), group=group, aggregates=aggregates)
    listed = ", ".join(f"({', '.join(keys[number] for number in numbers)})" for numbers in sets)
    marks = f"grouping({', '.join(keys[number] for number in order)})" if order else "0"
    cases = [
        f"WHEN {sum(1 << len(order) - 1 - at for at, number in enumerate(order) if number not in numbers)} THEN {which}"
        for which, numbers in enumerate(sets)
    ]
    which = Sql(f"CAST(CASE {marks} {' '.join(cases)} END AS INTEGER)", "INTEGER")
    return replace(base, columns=(*groups, *measures, which), group=f"GROUPING SETS ({listed})")


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


def _numbers(own: Sequence[Sql], known: list[str], shared: list[Sql]) -> list[int]:
    """The numbers of expressions among the shared ones, which grow by those not there yet."""
    found = []
    for one in own:
        if one.text not in known:
            known.append(one.text)
            shared.append(one)
        found.append(known.index(one.text))
    return found


def _key(text: str) -> str:
    """An expression to group or sort by: a bare number there would be a column's."""
    return f"CAST({text} AS INTEGER)" if text.isdigit() else text


def _type_of(kind: Any, name: str, table: str) -> str:
    try:
        return to_duckdb(kind)
    except Unsupported as error:
        raise Unsupported(f"column {name} of {table}: {error.message}") from None


def _name(message: Any, field: str, number: int) -> str:
    """The name of an enumeration's value."""
    found = message.DESCRIPTOR.fields_by_name[field].enum_type.values_by_number.get(number)
    return found.name.lower() if found is not None else str(number)
