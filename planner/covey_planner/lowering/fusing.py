"""Values with guards in, those that one step can ask about the same documents out, with its program; asks nothing.

A guard may read answers of the step itself, answers of steps before, and the row. Whose guard reads anything else waits
for a step of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from covey_planner.binding.guards import Must
from covey_planner.binding.volatile import volatile
from covey_planner.call import Call
from covey_planner.cost.unanswered import OPEN
from covey_planner.language.functions import BOOLEAN
from covey_planner.language.parse import site_name, site_number, sites_of
from covey_planner.logical import (
    All,
    Any,
    Ask,
    Cheap,
    Condition,
    Guard,
    Mixed,
    Not,
    Value,
    leaves,
    relations_of,
)
from covey_planner.lowering.asked import required
from covey_planner.lowering.decision import chain
from covey_planner.lowering.domains import Link, Rows
from covey_planner.lowering.guarded import Program, compiled
from covey_planner.lowering.guarded import Rows as RowConditions
from covey_planner.lowering.truths import Formula, Is, Opaque, gate, leaves_of, negated, said, true_of
from covey_planner.rules.share_documents import same_documents

if TYPE_CHECKING:
    from covey_planner.lowering.lower import Lowering

MUST = {
    "be true": "({}) IS TRUE",
    "not be true": "({}) IS NOT TRUE",
    "not be false": "({}) IS DISTINCT FROM FALSE",
    "be null": "({}) IS NULL",
}


@dataclass(frozen=True)
class Fused:
    """Groups of values that one step asks. flags: conditions on rows by which its program begins; links: what holds
    for all rows of which anything is wanted. tree: how many calls of a condition come before.
    """

    groups: list[list[Value]]
    program: Program
    flags: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()


def link(lowering: Lowering, guard: Guard) -> Link:
    """A guard as a predicate on rows."""
    return Link(
        MUST[guard.must].format(lowering.rewrites.sql(guard.expr)),
        guard.relations,
        guard.expr.find(exp.Query) is not None,
        lowering.free.guard(guard) if lowering.free is not None else None,
    )


def fused(
    lowering: Lowering, rows: Rows, waiting: Sequence[list[Value]], tree: Condition | None = None
) -> Fused | None:
    """As many groups as one step can ask, all about the same documents; None where that is none.

    tree: a condition that the step decides first; without it the first group is among them.
    """
    groups = list(waiting)
    while groups:
        found = _Fusing(lowering, rows, groups, tree).fuse()
        if isinstance(found, Fused) or (tree is None and found[:1] != groups[:1]):
            return found if isinstance(found, Fused) else None
        groups = found
    return None


def values_of(condition: Condition) -> tuple[Value, ...]:
    """The calls of a tree of calls about the same documents and of ordinary predicates, with what else in it guards
    them; none where it is another tree, or holds one call.
    """
    found = list(leaves(condition))
    calls = [leaf.call for leaf in found if isinstance(leaf, Ask)]
    if len({call.identity for call in calls}) < 2 or any(isinstance(leaf, Mixed) for leaf in found):
        return ()
    if not all(same_documents(call, calls[0]) and call.kind == "boolean" for call in calls):
        return ()
    return tuple(_guarded(condition, ()))


def _guarded(condition: Condition, guards: tuple[Guard, ...]) -> Iterator[Value]:
    match condition:
        case Ask(call):
            yield Value(call, False, guards)
        case Not(part):
            yield from _guarded(part, guards)
        case All(parts) | Any(parts):
            for part in parts:
                yield from _guarded(part, guards)
                must: Must = "be true" if isinstance(condition, All) else "not be true"
                guards = (*guards, Guard(_written(part), relations_of(part), must))


def _written(condition: Condition) -> exp.Expr:
    """A condition as an expression, its calls as their sites."""
    match condition:
        case Ask(call):
            return exp.Anonymous(this=site_name(call.site, min(BOOLEAN)))
        case Cheap(expr=expr) | Mixed(expr=expr):
            return exp.Paren(this=expr.copy())
        case Not(part):
            return exp.Not(this=exp.Paren(this=_written(part)))
        case All(parts):
            return exp.Paren(this=exp.and_(*map(_written, parts), copy=False))
        case Any(parts):
            return exp.Paren(this=exp.or_(*map(_written, parts), copy=False))


class _Fusing:
    """One try with some groups."""

    def __init__(
        self, lowering: Lowering, rows: Rows, groups: list[list[Value]], tree: Condition | None
    ) -> None:
        self._lowering = lowering
        self._rows = rows
        self._groups = groups
        self._tree = tree
        calls: dict[object, Call] = {}
        decided: set[object] = set()
        if tree is not None:
            calls.update((leaf.call.identity, leaf.call) for leaf in leaves(tree) if isinstance(leaf, Ask))
            decided = {call.identity for call, _ in required(tree)}
        calls.update((group[0].call.identity, group[0].call) for group in groups)
        self._calls = list(calls.values())
        self._number = {identity: number for number, identity in enumerate(calls)}
        readable = decided | {group[0].call.identity for group in groups}
        self._readable = {
            identity: number for identity, number in self._number.items() if identity in readable
        }
        self._on_rows = RowConditions()
        self._read: frozenset[str] = frozenset()
        self._looks_up = False
        self._common = self._shared() if tree is None else []
        call = groups[0][0].call
        self._component = rows.component(call.relations)
        self._with_rows = bool(call.arguments) and not call.is_join

    def fuse(self) -> Fused | list[list[Value]]:
        """What one step asks, or the groups that are worth another try."""
        wanted: list[Formula] = [False] * len(self._calls)
        left = []
        for group in self._groups:
            formula = self._wanted(group)
            if formula is False and self._tree is None and group is self._groups[0]:
                never = Link("FALSE", frozenset())
                return Fused([group], Program(chain([group[0].call]), ()), (), (never,))
            if formula:
                wanted[self._number[group[0].call.identity]] = formula
                left.append(group)
        if len(left) < len(self._groups):
            return left
        flags = tuple(self._on_rows.flags)
        program = self._program(wanted, len(flags))
        if program is None:
            return self._groups[:-1]
        reached = {decision.call.identity for decision in program.decisions}
        if any(group[0].call.identity not in reached for group in self._groups):
            return [group for group in self._groups if group[0].call.identity in reached]
        links = [link(self._lowering, guard) for guard in self._common]
        if flags and program.entries[0] < 0:
            links.append(self._some())  # of other rows nothing is wanted
            if len(flags) == 1:
                flags, program = (), Program(program.decisions, ())
        return Fused(self._groups, program, flags, tuple(links))

    def _program(self, wanted: Sequence[Formula], flags: int) -> Program | None:
        if self._tree is not None:
            first = true_of(self._tree, lambda ask: self._number[ask.call.identity])
            return compiled(self._calls, first, wanted, flags)
        if all(each is True for each in wanted):
            return Program(chain(self._calls), ())
        return compiled(self._calls, True, wanted, flags)

    def _shared(self) -> list[Guard]:
        """Guards of all places that can be looked up."""
        places = [value.guards for group in self._groups for value in group]
        shared = [guard for guard in places[0] if all(guard in guards for guards in places[1:])]
        return [guard for guard in shared if self._closed(guard)]

    def _closed(self, guard: Guard) -> bool:
        return not self._lowering.open(guard.expr) and volatile(guard.expr) is None

    def _wanted(self, group: Sequence[Value]) -> Formula | None:
        """When a call is wanted; None where that cannot be told."""
        try:
            places = [
                gate("all", [self._needed(guard) for guard in value.guards if guard not in self._common])
                for value in group
            ]
        except Opaque:
            return None
        formula = gate("any", places)
        if any(leaf.row for leaf in leaves_of(formula)) and not self._with_rows:
            return None
        return self._on_rows.of_text(formula)

    def _needed(self, guard: Guard) -> Formula:
        """What a guard demands. Raises Opaque."""
        if volatile(guard.expr) is not None:
            return True
        match guard.must:
            case "be true":
                formula = said(guard.expr, True, self._leaf)
            case "not be true":
                formula = negated(said(guard.expr, True, self._leaf))
            case "not be false":
                formula = negated(said(guard.expr, False, self._leaf))
            case "be null":
                null = exp.Is(this=exp.Paren(this=guard.expr.copy()), expression=exp.Null())
                formula = said(null, True, self._leaf)
        if any(leaf.row for leaf in leaves_of(formula)):
            if not guard.relations <= self._component:
                raise Opaque
            self._read |= guard.relations
        return formula

    def _leaf(self, node: exp.Expr, truth: bool) -> Formula | None:
        """A call, or what can be told of a row."""
        site = site_number(node)
        if site is not None:
            answered = self._lowering.rewrites.sites.get(site)
            if answered in ("(NOT FALSE)", "(NOT TRUE)"):
                return (answered == "(NOT FALSE)") is truth
            if not answered:
                call = self._lowering.calls.get(site)
                number = None if call is None else self._readable.get(call.identity)
                around = node.parent.parent if isinstance(node.parent, exp.Paren) else node.parent
                tested = isinstance(around, exp.Is) and isinstance(around.expression, exp.Null)
                if call is None or number is None or not (call.is_condition or tested):
                    raise Opaque
                return Is(number, truth)
        if isinstance(node, exp.Boolean | exp.Null) or self._lowering.open(node):
            return None
        if node.find(exp.Query) is not None:
            raise Opaque
        self._looks_up |= bool(sites_of(node))
        return Is(self._on_rows.atom(self._lowering.rewrites.sql(node)), truth, row=True)

    def _some(self) -> Link:
        """That a row has one of the flags."""
        sql = " OR ".join(f"({flag})" for flag in self._on_rows.flags)
        return Link(sql, self._read, odds=OPEN if self._looks_up else None)
