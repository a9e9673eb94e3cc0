"""The order in which pairs are wanted where nothing but a question links their sides: keys of one side after keys of
the other; SQL of ranks, never of pairs.

Of all pairs of two sides that are there apart from each other, the first row of a pair is the first row of its anchor
beside the first row of its partner. So each side brings ranks of its own, and no pair is made to put them in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from covey_planner.call import Argument
from covey_planner.lowering.domains import VALUE, Rows, key, values
from covey_planner.lowering.first_rows import Order
from covey_planner.physical import Domain, PairOrder, PairSide


@dataclass(frozen=True)
class Apart:
    """An order of pairs. anchors, partners: keys as SQL, each the ones before it and more, by which a side's rows are
    ranked; relations: all that they read.
    """

    order: PairOrder
    anchors: tuple[str, ...]
    partners: tuple[str, ...]
    relations: frozenset[str]


def apart(order: Order, anchors: frozenset[str], partners: frozenset[str], rows: Rows) -> Apart | None:
    """An order as far as each of its keys reads one side alone; None where the first does not. anchors, partners: the
    relations of the sides.
    """
    sided: list[tuple[PairSide, str]] = []
    for sql, relations in order.parts:
        side = _side(rows.component(relations), rows.component(anchors), rows.component(partners))
        if side is None:
            break
        sided.append((side, sql))
    if not sided:
        return None
    sides: list[PairSide] = []
    ranks: dict[PairSide, list[str]] = {"anchor": [], "partner": []}
    for side, group in groupby(sided, key=lambda each: each[0]):
        sides.append(side)
        before = ranks[side][-1:]
        ranks[side].append(", ".join([*before, *(sql for _, sql in group)]))
    ties = order.ties or len(sided) < len(order.parts)
    read = frozenset().union(*(relations for _, relations in order.parts[: len(sided)]))
    return Apart(PairOrder(tuple(sides), ties), tuple(ranks["anchor"]), tuple(ranks["partner"]), read)


def _side(read: frozenset[str], anchors: frozenset[str], partners: frozenset[str]) -> PairSide | None:
    """The side that a key's relations are of, with all that they are joined to."""
    ours, theirs = bool(read & anchors), bool(read & partners)
    if ours == theirs:
        return None
    return "anchor" if ours else "partner"


def ranked(
    domain: Domain, arguments: Sequence[Argument], rows: Rows, keys: Sequence[str], read: frozenset[str]
) -> Domain:
    """A domain whose tuples have the ranks o0, o1, … of the first row of each, by some keys. read: relations of keys of
    either side.
    """
    if not keys:
        return domain
    own = frozenset().union(*(argument.relations for argument in arguments))
    component = rows.component(own)
    joined = [relation for relation in read if rows.component({relation}) & component]
    component = rows.component(own.union(joined))
    ranks = [f"rank() OVER (ORDER BY {sql}) AS __covey_o{n}" for n, sql in enumerate(keys)]
    inner = rows.select([*values(arguments), *ranks], component)
    names = ", ".join(f"{key(f'{VALUE}{n}')} AS k{n}" for n in range(len(arguments)))
    first = ", ".join(f"min(__covey_o{n}) AS o{n}" for n in range(len(keys)))
    there = " AND ".join(f"{VALUE}{n} IS NOT NULL" for n in range(len(arguments)))
    sql = f"SELECT {names}, {first} FROM ({inner}) AS __covey_d WHERE {there} GROUP BY ALL"
    return replace(domain, sql=rows.with_(sql) + sql, once="")
