"""Substrait plans by hand, and those that a server writes."""

from __future__ import annotations

from typing import Any

import adbc_driver_flightsql.dbapi as dbapi
from google.protobuf import json_format
from substrait.plan_pb2 import Plan

STANDARD = "extension:io.substrait:functions_comparison"

FUNCTIONS = (
    "equal:any_any",
    "gt:any_any",
    "and:bool",
    "sum:i64",
    "count:any",
    "lower:str",
    "min:i64",
    "nothing:any",
)
"""What `plan_bytes` declares, with anchors from 1."""

NULLABLE = "NULLABILITY_NULLABLE"


def plan_of(connection: dbapi.Connection, sql: str) -> bytes:
    """The plan of a query, as the server writes it."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT substrait) {sql}")
        ((plan,),) = cursor.fetchall()
    assert isinstance(plan, bytes)
    return plan


def plan_bytes(relation: dict[str, Any], names: list[str], **more: Any) -> bytes:
    """A plan of a relation in protobuf's JSON, with the functions above."""
    functions = [
        {"extensionFunction": {"extensionUrnReference": 1, "functionAnchor": anchor, "name": name}}
        for anchor, name in enumerate(FUNCTIONS, 1)
    ]
    urns = [{"extensionUrnAnchor": 1, "urn": STANDARD}]
    relations = [{"root": {"input": relation, "names": names}}]
    whole = {"extensionUrns": urns, "extensions": functions, "relations": relations, **more}
    return json_format.ParseDict(whole, Plan()).SerializeToString()


def table(name: str, /, **columns: str) -> dict[str, Any]:
    """A read of a stored table; columns: Substrait's names of their types."""
    types = [{kind: {"nullability": NULLABLE}} for kind in columns.values()]
    schema = {"names": list(columns), "struct": {"types": types, "nullability": "NULLABILITY_REQUIRED"}}
    return {"read": {"baseSchema": schema, "namedTable": {"names": name.split(".")}}}


def column(number: int, steps_out: int = 0) -> dict[str, Any]:
    """A reference to a field."""
    root = {"outerReference": {"stepsOut": steps_out}} if steps_out else {"rootReference": {}}
    return {"selection": {"directReference": {"structField": {"field": number}}, **root}}


def call(name: str, *arguments: dict[str, Any], gives: str = "bool") -> dict[str, Any]:
    """A scalar function's call."""
    anchor = 1 + [function.partition(":")[0] for function in FUNCTIONS].index(name)
    return {
        "scalarFunction": {
            "functionReference": anchor,
            "arguments": [{"value": argument} for argument in arguments],
            "outputType": {gives: {"nullability": NULLABLE}},
        }
    }


def number(value: int) -> dict[str, Any]:
    """A literal."""
    return {"literal": {"i64": value}}
