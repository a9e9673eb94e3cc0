"""Copies of the syntax tree without AI calls, and what that leaves out as odds: for counting rows before any answer.

A condition that holds a call is left out where it is one of several that must all hold; any other call is a NULL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from covey_planner.call import Call
from covey_planner.cost.statistics import call_key
from covey_planner.language.parse import site_null, site_number, sites_of
from covey_planner.language.render import render
from covey_planner.logical import All, Any, Ask, Cheap, Condition, Guard, Mixed, Not
from covey_planner.physical import Odds

CERTAIN = Odds("all")
"""Of what every row satisfies."""

OPEN = Odds("open")


@dataclass(frozen=True)
class Unanswered:
    """calls: those of the statement by site."""

    calls: Mapping[int, Call]

    def apply(self, node: exp.Expr) -> exp.Expr:
        """A copy without AI calls."""
        holder = exp.Paren(this=node.copy())
        for clause, name in _conditions(holder):
            kept = [part for part in _conjuncts(clause.args[name]) if not _asks(part)]
            clause.set(name, exp.and_(*kept, copy=False) if kept else exp.true())
        for part in list(holder.walk()):
            if site_number(part) is not None:
                part.replace(exp.Var(this=site_null(part)))
        copy: exp.Expr = holder.this
        return copy

    def sql(self, node: exp.Expr) -> str:
        """The text of such a copy."""
        return render(self.apply(node), copy=False)

    def left_out(self, node: exp.Expr) -> tuple[Odds, ...]:
        """The conditions that a copy goes without."""
        parts = (part for clause, name in _conditions(node) for part in _conjuncts(clause.args[name]))
        return tuple(self.of(part) for part in parts if _asks(part))

    def of(self, node: exp.Expr) -> Odds:
        """The odds that an expression is true, whatever there is in it besides AI calls being true."""
        number = site_number(node)
        if number is not None:
            return asked(self.calls[number])
        if not _asks(node):
            return CERTAIN
        match node:
            case exp.Paren():
                return self.of(node.this)
            case exp.Not():
                return Odds("not", (self.of(node.this),))
            case exp.And():
                return Odds("all", (self.of(node.left), self.of(node.right)))
            case exp.Or():
                return Odds("any", (self.of(node.left), self.of(node.right)))
        return OPEN

    def guard(self, guard: Guard) -> Odds | None:
        """The odds of a guard; None where it holds no AI call."""
        if not _asks(guard.expr):
            return None
        if guard.must == "be null":
            return OPEN
        odds = self.of(guard.expr)
        return Odds("not", (odds,)) if guard.must == "not be true" else odds


def asked(call: Call) -> Odds:
    """The odds of a call's being true."""
    if call.accepted is not None:
        return OPEN
    anchors, partners = (
        frozenset().union(*(call.arguments[number].relations for number in side)) for side in call.sides
    )
    return Odds("ask", key=call_key(call), hint=call.selectivity, anchors=anchors, partners=partners)


def odds_of(condition: Condition) -> Odds:
    """The odds of a condition, ordinary predicates in it being true."""
    match condition:
        case Ask(call):
            return asked(call)
        case Cheap():
            return CERTAIN
        case Mixed():
            return OPEN
        case Not(part):
            return Odds("not", (odds_of(part),))
        case All(parts):
            return Odds("all", tuple(map(odds_of, parts)))
        case Any(parts):
            return Odds("any", tuple(map(odds_of, parts)))


def _conditions(node: exp.Expr) -> Iterator[tuple[exp.Expr, str]]:
    """The clauses below a node that filter rows, and under which name they hold their condition."""
    for part in list(node.walk()):
        if isinstance(part, exp.Where | exp.Having | exp.Qualify):
            yield part, "this"
        elif isinstance(part, exp.Join) and part.args.get("on") is not None:
            yield part, "on"


def _conjuncts(condition: exp.Expr) -> list[exp.Expr]:
    inner = condition.unnest()
    return list(inner.flatten()) if isinstance(inner, exp.And) else [inner]


def _asks(node: exp.Expr) -> bool:
    return bool(sites_of(node))
