"""What a plan reads in, a stored table or rows of values; a SELECT out. Never looks at the table itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from substrait.algebra_pb2 import Expression

from covey_planner.errors import BindError, Unsupported
from covey_planner.language.parse import quote
from covey_planner.substrait.read_expressions import Expressions
from covey_planner.substrait.select import Names, Select, Sql, derived
from covey_planner.substrait.types import to_duckdb


@dataclass(frozen=True)
class Read:
    """A table as the plan takes it to be: its name as SQL, its columns' names and DuckDB types."""

    table: str
    columns: tuple[tuple[str, str], ...]


def table(relation: Any, names: Names) -> tuple[Select, Read]:
    """A stored table, and what the plan expects of it. Raises BindError and Unsupported."""
    parts = list(relation.named_table.names)
    schema = relation.base_schema
    if not parts:
        raise BindError("the plan reads a table without a name")
    if len(parts) > 3:
        raise Unsupported(f"the table name {'.'.join(parts)} has too many parts")
    if len(schema.names) != len(schema.struct.types):
        raise BindError(
            f"the schema of {parts[-1]} has {len(schema.names)} names and {len(schema.struct.types)} types"
        )
    types = [
        _type_of(kind, name, parts[-1]) for kind, name in zip(schema.struct.types, schema.names, strict=True)
    ]
    alias = quote(names.take(parts[-1]))
    stored = ".".join(map(quote, parts))
    columns = tuple(
        Sql(f"{alias}.{quote(name)}", kind, plain=True)
        for name, kind in zip(schema.names, types, strict=True)
    )
    select = Select(f"{stored} AS {alias}" if stored != alias else stored, columns)
    return select, Read(stored, tuple(zip(schema.names, types, strict=True)))


def values(relation: Any, expressions: Expressions, names: Names) -> Select:
    """A virtual table. Raises BindError and Unsupported."""
    schema = relation.base_schema
    types = [_type_of(kind, "a value", "a virtual table") for kind in schema.struct.types]
    given = relation.virtual_table
    rows = [[expressions.read(field, ()).text for field in row.fields] for row in given.expressions]
    rows += [
        [expressions.read(Expression(literal=field), ()).text for field in row.fields] for row in given.values
    ]
    if any(len(row) != len(types) for row in rows):
        raise BindError(f"a row of a virtual table does not have {len(types)} values, as its schema says")
    if not types:
        return Select("", ()) if len(rows) == 1 else _nothing(types, len(rows), names)
    if not rows:
        return _nothing(types, 0, names)
    casts = [f"CAST({text} AS {kind})" for text, kind in zip(rows[0], types, strict=True)]
    first = ", ".join(f"{text} AS c{number}" for number, text in enumerate(casts))
    text = " UNION ALL ".join([f"SELECT {first}", *(f"SELECT {', '.join(row)}" for row in rows[1:])])
    return derived(text, [Sql("", kind) for kind in types], names)


def _nothing(types: Sequence[str], rows: int, names: Names) -> Select:
    """Rows of NULLs. rows: how many."""
    items = ", ".join(f"CAST(NULL AS {kind}) AS c{number}" for number, kind in enumerate(types)) or "1 AS c0"
    text = " UNION ALL ".join([f"SELECT {items}"] * rows) or f"SELECT {items} WHERE FALSE"
    return derived(text, [Sql("", kind) for kind in types], names)


def _type_of(kind: Any, name: str, table: str) -> str:
    try:
        return to_duckdb(kind)
    except Unsupported as error:
        raise Unsupported(f"column {name} of {table}: {error.message}") from None
