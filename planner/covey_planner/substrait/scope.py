"""The columns that names in a statement mean, and their places in a relation; and the types that DuckDB gives."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from covey_planner.binding.scope import Catalog, describe, position_of
from covey_planner.errors import BindError, PlanError, Unsupported

NULL = '"NULL"'
"""What DuckDB calls the type of a NULL of no type."""


@dataclass(frozen=True)
class Typed:
    """An expression of a plan. kind: its DuckDB type; literal: its text where it is a number or a text as written."""

    node: Any
    kind: str
    literal: str | None = None

    @property
    def probe(self) -> str:
        """An SQL expression of the same type, for DuckDB to tell the type of what is made of it."""
        if self.literal is not None:
            return self.literal
        return "NULL" if self.kind == NULL else f"CAST(NULL AS {self.kind})"

    @property
    def key(self) -> bytes:
        """Equal for equal expressions."""
        return self.node.SerializeToString(deterministic=True)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Field:
    """A column of a relation: the relation's name, lower case, and its own. hidden: `*` leaves it out, and an
    unqualified name means another.
    """

    relation: str
    name: str
    kind: str
    hidden: bool = False


@dataclass(frozen=True)
class Scope:
    """The columns of a relation, inside those of the queries around it.

    aliases: expressions of the SELECT list by lower-case name. Over an aggregate, groups and measures are the places of
    its columns by what they are computed from, and before is the scope that they are computed in.
    """

    fields: Sequence[Field]
    parent: Scope | None = None
    aliases: Mapping[str, exp.Expr] = field(default_factory=dict)
    groups: Mapping[bytes, int] = field(default_factory=dict)
    measures: Mapping[bytes, int] = field(default_factory=dict)
    before: Scope | None = None

    def find(self, column: exp.Column) -> tuple[int, int] | None:
        """How many queries out a column is, and its place there; None for an unknown name. Raises BindError."""
        scope: Scope | None = self
        steps = 0
        while scope is not None:
            found = scope._places(column)
            if len(found) > 1:
                raise BindError(f"column {column.name!r} is ambiguous", position_of(column))
            if found:
                return steps, found[0]
            scope, steps = scope.parent, steps + 1
        return None

    def at(self, steps: int) -> Scope:
        """The scope so many queries out."""
        scope = self
        for _ in range(steps):
            assert scope.parent is not None
            scope = scope.parent
        return scope

    def _places(self, column: exp.Column) -> list[int]:
        name, relation = column.name.lower(), column.table.lower()
        return [
            at
            for at, one in enumerate(self.fields)
            if one.name.lower() == name and (one.relation == relation if relation else not one.hidden)
        ]


class Types:
    """Asks DuckDB for the types of expressions, each once."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._known: dict[str, str] = {}

    def of(self, text: str) -> str:
        """The type of an AI-free expression without columns. Raises BindError."""
        if text not in self._known:
            self._known[text] = describe(self._catalog, f"SELECT {text} AS x")[0][1]
        return self._known[text]

    def common(self, parts: Sequence[Typed]) -> str:
        """The type that values have which stand in each other's place."""
        kinds = {part.kind for part in parts if part.kind != NULL}
        if len(kinds) == 1 and not any(part.literal is not None for part in parts):
            return kinds.pop()
        *some, last = parts
        texts = "".join(f" WHEN TRUE THEN {part.probe}" for part in some)
        return self.of(f"CASE{texts} ELSE {last.probe} END" if some else last.probe)


_CALL = re.compile(r"__covey_call_\d+([bdvi])", re.IGNORECASE)
_CALLS = {"b": "AI_FILTER", "d": "AI_SCORE", "v": "AI_CLASSIFY", "i": "AI_COUNT_TOKENS"}


def shown(node: exp.Expr) -> str:
    """A construct, for a message."""
    text = _CALL.sub(lambda found: _CALLS[found[1].lower()], node.sql("duckdb"))
    return text if len(text) <= 60 else f"{text[:57]}..."


def refuse(node: exp.Expr, known: Sequence[str], what: str) -> None:
    """Refuse a node that has more to it than the arguments known. Raises Unsupported with the first other one."""
    for name, value in node.args.items():
        if value and name not in known:
            raise unsupported(f"{name.strip('_').replace('_', ' ').upper()} of {what}", node)


def unsupported(what: str, node: exp.Expr) -> PlanError:
    """The error for a construct that a plan has no room for."""
    return Unsupported(f"{what} cannot be written as a Substrait plan", position_of(node))
