"""An aggregate of a plan and the SELECT under it in, a grouped SELECT out. Reads nothing but the plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from covey_planner.errors import BindError, Unsupported
from covey_planner.substrait.read_expressions import Expressions
from covey_planner.substrait.read_functions import measure
from covey_planner.substrait.select import Names, Select, Sql, sort_key


def aggregated(relation: Any, base: Select, expressions: Expressions, names: Names) -> Select:
    """base: what the aggregate is made of. Raises BindError and Unsupported."""
    base = base.stable(names)
    if base.grouped or base.distinct or base.limited:
        base = base.wrapped(names)
    shared = [expressions.read(node, base.columns) for node in relation.grouping_expressions]
    sets: list[list[int]] = []
    for grouping in relation.groupings:
        if grouping.grouping_expressions and not relation.grouping_expressions:
            # Plans before 2025 repeat the expressions in each set.
            own = [expressions.read(node, base.columns) for node in grouping.grouping_expressions]
            known = [one.text for one in shared]
            sets.append(_numbers(own, known, shared))
        else:
            sets.append(list(grouping.expression_references))
    if not relation.groupings and shared:
        sets = [list(range(len(shared)))]
    if any(not 0 <= number < len(shared) for numbers in sets for number in numbers):
        raise BindError("a grouping refers to an expression that the aggregate does not have")
    measures = [measure(expressions, made, base.columns) for made in relation.measures]
    return _grouped(replace(base, order=()), shared, sets, measures)


def _grouped(
    base: Select, shared: Sequence[Sql], sets: Sequence[Sequence[int]], measures: Sequence[Sql]
) -> Select:
    """An aggregate over a plain SELECT. sets: the grouping sets, by the numbers of their expressions."""
    order = list(dict.fromkeys(number for numbers in sets for number in numbers))
    keys = [sort_key(one.text) for one in shared]
    groups = [shared[number] for number in order]
    if len(sets) <= 1:
        if groups and not measures:
            return replace(base, columns=tuple(groups), distinct=True)
        if not groups and not measures:
            raise Unsupported("an aggregate without groups and measures is not supported")
        group = ", ".join(keys[number] for number in order)
        aggregates = tuple(made.text for made in measures)
        return replace(base, columns=(*groups, *measures), group=group, aggregates=aggregates)
    listed = ", ".join(f"({', '.join(keys[number] for number in numbers)})" for numbers in sets)
    marks = f"grouping({', '.join(keys[number] for number in order)})" if order else "0"
    cases = [
        f"WHEN {sum(1 << len(order) - 1 - at for at, number in enumerate(order) if number not in numbers)} THEN {which}"
        for which, numbers in enumerate(sets)
    ]
    which = Sql(f"CAST(CASE {marks} {' '.join(cases)} END AS INTEGER)", "INTEGER")
    return replace(base, columns=(*groups, *measures, which), group=f"GROUPING SETS ({listed})")


def _numbers(own: Sequence[Sql], known: list[str], shared: list[Sql]) -> list[int]:
    """The numbers of expressions among the shared ones, which grow by those not there yet."""
    found = []
    for one in own:
        if one.text not in known:
            known.append(one.text)
            shared.append(one)
        found.append(known.index(one.text))
    return found
