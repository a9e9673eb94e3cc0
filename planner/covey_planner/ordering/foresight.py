"""A statement's blocks in; tells statistics beforehand which stored columns they will be asked about; runs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from covey_planner.cost.statistics import Foreseeing
from covey_planner.logical import Logical
from covey_planner.lowering.asked import all_calls
from covey_planner.ordering.sources import Stored


def foresee(
    logical: Logical, tree: exp.Query, columns: Mapping[str, Mapping[str, str]], statistics: object
) -> None:
    """Tell statistics, where they want to know, what they will be asked about. columns: of stored tables and views."""
    if not isinstance(statistics, Foreseeing):
        return
    keys = dict.fromkeys(_compared(tree, Stored.of(columns)))
    arguments = (
        argument for block in logical.blocks for call in all_calls(block) for argument in call.arguments
    )
    texts = dict.fromkeys(
        (argument.table, argument.column)
        for argument in arguments
        if argument.table is not None and argument.column is not None
    )
    statistics.foresee(keys.keys(), texts.keys())


def _compared(tree: exp.Query, stored: Mapping[str, Stored]) -> Iterator[tuple[str, str]]:
    """Columns that are compared with another one."""
    named: dict[str, list[Stored]] = {}
    for table in tree.find_all(exp.Table):
        name = table.name.lower()
        known = stored.get(f"{table.db}.{name}".lower(), stored.get(name))
        if known is not None:
            named.setdefault(table.alias_or_name.lower(), []).append(known)
    for equal in tree.find_all(exp.EQ):
        sides = [side for side in (equal.left, equal.right) if isinstance(side, exp.Column)]
        for column in sides if len(sides) == 2 else ():
            for known in named.get(column.table.lower(), ()):
                if column.name.lower() in known.columns:
                    yield known.name, known.columns[column.name.lower()][0]
