"""How a step ends early, once its domains are known: as a whole, by anchor, or group by group; SQL of the groups.

A group is named by a hash of the texts of its keys, so that values which are equal but read differently differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from covey_planner.binding.deciding import Probe
from covey_planner.call import Argument
from covey_planner.language.render import render
from covey_planner.lowering.domains import VALUE, Link, Rows, key, values
from covey_planner.lowering.ending import Deciding, Ending, Quota
from covey_planner.lowering.first_rows import NO_ORDER, Order
from covey_planner.lowering.in_order import Apart, apart
from covey_planner.physical import Groups

NOTHING = "''"
"""An empty text in SQL."""


@dataclass(frozen=True)
class Ends:
    """What of a step ends it early, as the fields of AskStep. order, apart: in which anchors, or pairs, come."""

    exists: bool = False
    each: int = 1
    enough: int | None = None
    ordered: bool = False
    groups: Groups | None = None
    order: Order = NO_ORDER
    apart: Apart | None = None


def ends(
    ending: Ending,
    anchors: Sequence[Argument],
    partners: Sequence[Argument],
    rows: Rows,
    linked: bool,
    table: Callable[[], str],
) -> Ends | None:
    """How a step on these rows ends; None where it has to be asked in full.

    linked: whether the sides of a step about pairs are linked, so that it has a query of pairs. table: gives a name.
    """
    deciding = ending.deciding
    if deciding is None:
        return _first(ending, anchors, partners, rows, linked)
    if not anchors or not deciding.around <= rows.relations:
        return None
    quota = deciding.quota
    if quota is not None and not _can_choose(deciding, quota):
        deciding, quota = replace(deciding, quota=None), None
    apart = bool(partners) and not linked
    if apart:
        # All rows that have an anchor meet the same partners, if nothing but the question links them.
        anchor, partner = (_relations(side) for side in (anchors, partners))
        if deciding.linked or deciding.probe or anchor & deciding.own or not partner <= deciding.own:
            return None
        if quota is None:
            return Ends(exists=True, each=deciding.needed)
        if not (quota.absent or quota.order.sql or any(link.has_subquery for link in quota.rows.links)):
            quota.taken = ""
            return Ends(exists=True, each=deciding.needed, enough=quota.enough)
    items = [*anchors, *partners] if linked else anchors
    named = [*(f"a{n}" for n in range(len(anchors))), *(f"p{n}" for n in range(len(partners)))]
    if not partners:
        named = [f"k{n}" for n in range(len(anchors))]
    ranked = bool(deciding.order.sql)
    found = Groups(_items(items, named[: len(items)], rows, deciding), deciding.needed, ranked=ranked)
    if quota is None:
        return Ends(groups=found)
    name = group(deciding.keys, deciding.probe)
    made = table() if quota.absent else ""
    quota.taken = f"{name} IN (SELECT g FROM {made})" if quota.absent else ""
    found = replace(
        found, enough=quota.enough, absent=quota.absent, wanted=_wanted(name, deciding, quota), table=made
    )
    return Ends(ordered=bool(quota.order.sql), groups=found)


def group(keys: Sequence[str], probe: Probe | None = None, kind: str = "") -> str:
    """The name of a group, as SQL. kind: "x" and "y" for the rows of `x IN (SELECT y …)` where that is NULL."""
    texts = [*keys, *([render(probe.left)] if probe is not None and not kind else [])]
    hashes = [f"coalesce(md5(CAST({text} AS VARCHAR)), '-')" for text in texts]
    return f"md5(concat_ws(',', '{kind}', {', '.join(hashes or [NOTHING])}))"


def _items(items: Sequence[Argument], names: Sequence[str], rows: Rows, deciding: Deciding) -> str:
    """The query of the items of each group."""
    variants = _variants(rows, deciding)
    sql = " UNION ALL ".join(_variant(items, names, *variant, deciding.order) for variant in variants)
    return rows.with_(sql) + sql


def _variant(
    items: Sequence[Argument],
    names: Sequence[str],
    rows: Rows,
    name: str,
    named: frozenset[str],
    order: Order = NO_ORDER,
) -> str:
    component = rows.component(_relations(items) | named | order.relations)
    place = [f"rank() OVER (ORDER BY {order.sql}) AS __covey_o"] if order.sql else []
    inner = rows.select([*values(items), f"{name} AS __covey_g", *place], component)
    columns = ", ".join(f"{key(f'{VALUE}{n}')} AS {own}" for n, own in enumerate(names))
    there = " AND ".join(f"{VALUE}{n} IS NOT NULL" for n in range(len(names)))
    if order.sql:
        listed = f"{columns}, __covey_g AS g, min(__covey_o) AS o"
        return f"SELECT {listed} FROM ({inner}) AS __covey_d WHERE {there} GROUP BY ALL"
    return f"SELECT DISTINCT {columns}, __covey_g AS g FROM ({inner}) AS __covey_d WHERE {there}"


def _variants(rows: Rows, deciding: Deciding) -> Iterator[tuple[Rows, str, frozenset[str]]]:
    """Rows, the name of their group, and the relations that it reads; without NULLs to tell from FALSE one kind."""
    probe, known = deciding.probe, deciding.relations
    if probe is None:
        yield rows, group(deciding.keys), known
        return
    left, right = render(probe.left), render(probe.right)
    both = probe.outer | probe.inner
    yield _where(rows, f"{left} = {right}", both), group(deciding.keys, probe), deciding.around
    if deciding.strict:
        yield _where(rows, f"{right} IS NULL", probe.inner), group(deciding.keys, probe, "y"), known
        if deciding.keys:
            yield (
                _where(rows, f"{left} IS NULL", probe.outer),
                group(deciding.keys, probe, "x"),
                deciding.around,
            )
        else:
            alone = _where(rows, f"{left} IS NULL", probe.outer)
            some = alone.select(["1"], alone.component(probe.outer))
            yield _where(rows, f"EXISTS ({some})", probe.inner), group((), probe, "x"), known


def probed(probe: Probe) -> Link:
    """What rows of a subquery have to fulfil, where all that matters of `x IN` is whether it is true."""
    return Link(f"{render(probe.left)} = {render(probe.right)}", probe.outer | probe.inner)


def _where(rows: Rows, sql: str, relations: frozenset[str]) -> Rows:
    return replace(rows, links=[*rows.links, Link(sql, relations)])


def _wanted(name: str, deciding: Deciding, quota: Quota) -> str:
    """The query of the groups that count, in the order in which they are wanted."""
    return _ranked(name, quota.rows, deciding.around, quota.order)


def _ranked(name: str, rows: Rows, named: frozenset[str], order: Order) -> str:
    place = f"row_number() OVER (ORDER BY {order.sql})" if order.sql else "0"
    inner = rows.select([f"{name} AS g", f"{place} AS o"], rows.component(named))
    sql = f"SELECT g, min(o) AS o FROM ({inner}) AS __covey_d GROUP BY g"
    return rows.with_(sql) + sql


def _can_choose(deciding: Deciding, quota: Quota) -> bool:
    """Whether the rows around show the groups in the order in which they are wanted."""
    component = quota.rows.component(deciding.around)
    return deciding.around <= quota.rows.relations and quota.order.relations <= component


def _first(
    ending: Ending, anchors: Sequence[Argument], partners: Sequence[Argument], rows: Rows, linked: bool
) -> Ends | None:
    """How a step below LIMIT ends; pairs in an order of their own are groups of one each."""
    order, items = ending.order, [*anchors, *partners]
    if not order.sql:
        return Ends(enough=ending.enough)
    if not order.relations <= rows.component(_relations(items)) and linked:
        return None
    if partners and not linked:
        found = apart(order, _relations(anchors), _relations(partners), rows)
        return None if found is None else Ends(enough=ending.enough, ordered=True, apart=found)
    if not linked:
        first = order.first_keys(rows.component(_relations(anchors)))
        return None if first is None else Ends(enough=ending.enough, ordered=True, order=first)
    if order.ties:
        return None
    names = [*(f"a{n}" for n in range(len(anchors))), *(f"p{n}" for n in range(len(partners)))]
    name, named = group([item.sql for item in items]), _relations(items)
    sql = _variant(items, names, rows, name, named)
    wanted = _ranked(name, rows, named, order)
    return Ends(ordered=True, groups=Groups(rows.with_(sql) + sql, 1, ending.enough, wanted=wanted))


def _relations(arguments: Sequence[Argument]) -> frozenset[str]:
    return frozenset().union(*(argument.relations for argument in arguments))
