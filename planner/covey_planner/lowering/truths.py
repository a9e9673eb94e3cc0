"""Conditions on answers and rows as formulas that hold or not: built from SQL, simplified; asks nothing.

SQL's third truth value is taken apart: that an expression is true, and that it is false, are two things, of which
neither holds for NULL. So a formula has two values, and every NULL can be put into it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from sqlglot import exp

from covey_planner.logical import All, Any, Ask, Condition, Not


@dataclass(frozen=True)
class Is:
    """That a call's answer (`row`: a condition on the row) is true, or false; not `holds`: that it is not."""

    number: int
    truth: bool
    holds: bool = True
    row: bool = False


@dataclass(frozen=True)
class Gate:
    """All of the parts, or any of them; two at least, and none of them known."""

    kind: Literal["all", "any"]
    parts: tuple[Is | Gate, ...]


Formula = bool | Is | Gate

Leaf = Callable[[exp.Expr, bool], "Formula | None"]
"""What a part of an expression comes to: that it is true, or false; None where it is to be taken apart further."""


_DEPTH = 6
"""Choices in choices that are taken apart."""


class Opaque(Exception):
    """An expression of which it cannot be told when it is true."""


def gate(kind: Literal["all", "any"], parts: Iterable[Formula]) -> Formula:
    """All or any of some formulas."""
    known = kind == "any"
    found: dict[Is | Gate, None] = {}
    for part in parts:
        if isinstance(part, bool):
            if part is known:
                return known
        elif isinstance(part, Gate) and part.kind == kind:
            found.update(dict.fromkeys(part.parts))
        else:
            found[part] = None
    if len(found) > 1:
        return Gate(kind, tuple(found))
    return next(iter(found), not known)


def negated(formula: Formula) -> Formula:
    """That a formula does not hold."""
    match formula:
        case bool():
            return not formula
        case Is():
            return replace(formula, holds=not formula.holds)
        case Gate(kind, parts):
            return gate("any" if kind == "all" else "all", map(negated, parts))


def said(node: exp.Expr, truth: bool, leaf: Leaf, depth: int = 0) -> Formula:
    """That an expression is true, or that it is false. depth: parts around it that are looked at more than once. Raises
    Opaque.
    """
    found = leaf(node, truth)
    if found is not None:
        return found
    match node:
        case exp.Paren():
            return said(node.this, truth, leaf, depth)
        case exp.Boolean():
            return bool(node.this) is truth
        case exp.Null():
            return False
        case exp.Not():
            return said(node.this, not truth, leaf, depth)
        case exp.And() | exp.Or():
            kind: Literal["all", "any"] = "all" if isinstance(node, exp.And) is truth else "any"
            return gate(kind, [said(part, truth, leaf, depth) for part in (node.this, node.expression)])
        case exp.Is(this=part, expression=exp.Null()):
            known = _known(part, leaf, depth)
            return negated(known) if truth else known
        case exp.Is(this=part, expression=exp.Boolean() as value):
            same = said(part, bool(value.this), leaf, depth)
            return same if truth else negated(same)
        case exp.EQ(this=part, expression=other) if isinstance(value := other.unnest(), exp.Boolean):
            return said(part, bool(value.this) is truth, leaf, depth)
        case exp.Coalesce() | exp.Case(this=None) | exp.If() if depth < _DEPTH:
            return gate("any", _alternatives(node, truth, leaf, depth + 1))
    raise Opaque


def _known(node: exp.Expr, leaf: Leaf, depth: int) -> Formula:
    """That an expression is not NULL."""
    if depth >= _DEPTH:
        raise Opaque
    return gate("any", [said(node, truth, leaf, depth + 1) for truth in (True, False)])


def _alternatives(node: exp.Expr, truth: bool, leaf: Leaf, depth: int) -> Iterator[Formula]:
    """The ways in which a choice is true, or false, one for each of its values."""
    before: Formula = True
    if isinstance(node, exp.Coalesce):
        for part in (node.this, *node.expressions):
            yield gate("all", [before, said(part, truth, leaf, depth)])
            before = gate("all", [before, negated(_known(part, leaf, depth))])
        return
    branches = node.args["ifs"] if isinstance(node, exp.Case) else [node]
    for branch in branches:
        taken = said(branch.this, True, leaf, depth)
        yield gate("all", [before, taken, said(branch.args["true"], truth, leaf, depth)])
        before = gate("all", [before, negated(taken)])
    other = node.args.get("default") if isinstance(node, exp.Case) else node.args.get("false")
    if other is not None:
        yield gate("all", [before, said(other, truth, leaf, depth)])


def true_of(condition: Condition, number: Callable[[Ask], int], truth: bool = True) -> Formula:
    """That a tree of calls is true, or that it is false. number: of a call."""
    match condition:
        case Ask():
            return Is(number(condition), truth)
        case Not(part):
            return true_of(part, number, not truth)
        case All(parts) | Any(parts):
            kind: Literal["all", "any"] = "all" if isinstance(condition, All) is truth else "any"
            return gate(kind, [true_of(part, number, truth) for part in parts])
    raise AssertionError("a tree of calls only")


def leaves_of(formula: Formula) -> Iterator[Is]:
    """The leaves, in order."""
    match formula:
        case Is():
            yield formula
        case Gate():
            for part in formula.parts:
                yield from leaves_of(part)


def assume(formula: Formula, number: int, answer: bool | None, row: bool = False) -> Formula:
    """What remains once an answer (row: what holds for a row) is known. answer: None for NULL."""
    match formula:
        case Is():
            if (formula.number, formula.row) != (number, row):
                return formula
            return (answer is formula.truth) is formula.holds
        case Gate(kind, parts):
            return gate(kind, [assume(part, number, answer, row) for part in parts])
    return formula
