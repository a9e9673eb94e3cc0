"""The bytes of a Substrait plan in, one SELECT in our SQL out, with the tables that it expects; runs nothing.

The SELECT goes the way of any statement: the planner finds its AI calls, DuckDB runs the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError
from substrait.plan_pb2 import Plan

from covey_planner.errors import BindError, ParseError, Unsupported
from covey_planner.substrait.read_relations import Relations
from covey_planner.substrait.read_tables import Read
from covey_planner.substrait.types import alike


@dataclass(frozen=True)
class Consumed:
    """A plan as SQL. reads: the tables that it reads, as it takes them to be."""

    sql: str
    reads: tuple[Read, ...]

    def check(self, stored: Callable[[str], Sequence[tuple[str, str]]]) -> None:
        """Raise BindError where a table does not have what the plan says.

        stored: a table's columns and DuckDB types.
        """
        for read in dict.fromkeys(self.reads):
            there = {name.lower(): kind for name, kind in stored(read.table)}
            for name, kind in read.columns:
                found = there.get(name.lower())
                if found is None:
                    raise BindError(f"the plan reads column {name} of {read.table}, which has no such column")
                if not alike(kind, found):
                    raise BindError(
                        f"the plan takes column {name} of {read.table} for {kind}, but it is {found}"
                    )


def read(data: bytes) -> Consumed:
    """Read a plan. Raises ParseError for what is none, BindError for references that lead nowhere, Unsupported for
    what is not of the core, each naming it.
    """
    plan = Plan()
    try:
        plan.ParseFromString(data)
    except DecodeError:
        raise ParseError("the bytes are no Substrait plan") from None
    roots = [relation for relation in plan.relations if relation.WhichOneof("rel_type") == "root"]
    if len(roots) != 1 and len(plan.relations) != 1:
        raise ParseError(f"the Substrait plan has {len(roots)} roots, not one")
    try:
        return _consumed(plan, roots[0] if roots else plan.relations[0])
    except RecursionError:
        raise Unsupported("the Substrait plan is nested too deeply") from None


def _consumed(plan: Any, relation: Any) -> Consumed:
    relations = Relations(plan)
    if relation.WhichOneof("rel_type") == "rel":
        select = relations.read(relation.rel)
        names = [f"c{number}" for number in range(len(select.columns))]
    else:
        select = relations.read(relation.root.input)
        names = list(relation.root.names)
    if not select.columns:
        raise Unsupported("a Substrait plan without columns yields nothing")
    if len(names) != len(select.columns):
        raise BindError(f"the root of the plan has {len(names)} names for {len(select.columns)} columns")
    return Consumed(select.text(names), tuple(relations.reads))
