"""DuckDB's EXPLAIN of queries in, what it expects of them out: an outline for each; runs nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Node = Mapping[str, Any]
"""A node of a plan as EXPLAIN (FORMAT json) writes it."""

_SIMPLE = frozenset({"PROJECTION", "FILTER", "HASH_GROUP_BY", "PERFECT_HASH_GROUP_BY"})
"""Nodes above a table of which the rows are counted behind a statement."""

_ENDLESS = frozenset({"REC_CTE", "UNNEST"})
"""Nodes of which nobody knows how many rows they make."""


@dataclass(frozen=True)
class Outline:
    """What DuckDB expects of a query. scanned: the most rows that it reads or that are expected anywhere in it; rows:
    of its result; whole: it yields just the rows of one table. tables: rows of those that it reads, by qualified name.
    simple: it reads one table and does no more than to compare and to group; endless: nobody knows how many rows it
    makes; joins: how many there are in it.
    """

    scanned: float
    rows: float
    whole: bool
    tables: Mapping[str, float] = field(default_factory=dict)
    simple: bool = False
    endless: bool = False
    joins: int = 0


def explained(text: str) -> list[Node]:
    """The nodes of a plan that are no other's children."""
    found: list[Node] = json.loads(text)
    return found


def branches(plan: Sequence[Node]) -> list[Node]:
    """The plans of the queries that a chain of UNION ALL holds, in their order; of another query itself."""
    found: list[Node] = []
    for node in plan:
        found += branches(node.get("children", ())) if node["name"] == "UNION" else [node]
    return found


def read(plan: Sequence[Node]) -> list[str]:
    """The tables that a plan reads, by qualified name as SQL, each as often as it reads it."""
    return [name for name in (_told(node, "Table") for node in _nodes(plan)) if name]


def outline_of(plan: Sequence[Node], count: Callable[[str], float]) -> Outline:
    """What is expected of a query. count: rows of a table by its qualified name."""
    nodes, names_read = list(_nodes(plan)), read(plan)
    tables = {name: count(name) for name in names_read}
    scanned = sum(tables[name] for name in names_read)
    most = max((_cardinality(node) for node in nodes), default=0.0)
    *above, last = nodes or [{}]
    names = {node["name"] for node in above}
    if names <= {"PROJECTION"} and _told(last, "Table") and not _told(last, "Filters"):
        return Outline(scanned, scanned, True, tables, simple=True)
    rows = _cardinality(nodes[0]) if nodes else 0.0
    simple = len(names_read) == 1 and bool(_told(last, "Table")) and names <= _SIMPLE
    endless = any(node["name"] in _ENDLESS for node in nodes)
    joins = sum(node["name"].endswith("JOIN") for node in nodes)
    return Outline(max(scanned, most), rows, False, tables, simple, endless, joins)


def _nodes(plan: Sequence[Node]) -> Iterator[Node]:
    for node in plan:
        yield node
        yield from _nodes(node.get("children", ()))


def _cardinality(node: Node) -> float:
    text = _told(node, "Estimated Cardinality")
    return float(text) if text.isdigit() else 0.0


def _told(node: Node, name: str) -> str:
    return str(node.get("extra_info", {}).get(name, ""))
