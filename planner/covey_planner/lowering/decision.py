"""From a boolean tree of AI calls to a decision program: which call is asked next after each answer; no SQL.

A call is asked only while the tree's truth, with the calls not yet asked taken as unknown, is open. Truth is
that of three-valued logic, so evaluating the tree later with NULL for what was never asked gives the same
result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from covey_planner.call import Call
from covey_planner.logical import All, Any, Ask, Condition, Not
from covey_planner.physical import MATCH

_LIMIT = 64
"""Nodes of a program; a larger tree is asked without short circuit."""


@dataclass(frozen=True)
class Decision:
    """Ask `call`; then go to the decision with that index, always a later one, or end at -1 or MATCH. on_null: where to
    go without an answer; None leaves that to whoever asks.
    """

    call: Call
    on_true: int
    on_false: int
    on_null: int | None = None


@dataclass(frozen=True)
class _Gate:
    """A formula over the numbers of calls: all of the parts, any of them, or not the only one."""

    kind: str
    parts: tuple[_Formula, ...]


_Formula = int | _Gate


def decide(condition: Condition, then: Sequence[Call] = ()) -> tuple[Decision, ...]:
    """The program of a tree that consists of calls only; it begins at index 0.

    then: calls, other ones than the tree's, that are asked one after another where the tree is true; they stand last.
    Without them, and unless the tree is too large, the program ends at MATCH where the tree is true.
    """
    calls: dict[object, Call] = {}
    formula = _formula(condition, calls)
    asked = list(calls.values())
    program = _Program()
    if not program.explore(formula):
        return chain([*asked, *then])
    order = program.order[::-1]
    index = {rest: number for number, rest in enumerate(order)}

    def target(branch: _Formula | bool) -> int:
        if isinstance(branch, bool):
            return -1 if not branch else len(order) if then else MATCH
        return index[branch]

    tree = (Decision(asked[_first(rest)], *map(target, program.branches[rest])) for rest in order)
    return (*tree, *chain(then, len(order)))


def chain(calls: Sequence[Call], first: int = 0) -> tuple[Decision, ...]:
    """Calls one after another, whatever the answers are. first: the index of the first decision."""
    following = [*range(first + 1, first + len(calls)), -1]
    return tuple(Decision(call, then, then) for call, then in zip(calls, following, strict=False))


def _formula(condition: Condition, calls: dict[object, Call]) -> _Formula:
    match condition:
        case Ask(call):
            calls.setdefault(call.identity, call)
            return list(calls).index(call.identity)
        case Not(part):
            return _Gate("not", (_formula(part, calls),))
        case All(parts):
            return _Gate("all", tuple(_formula(part, calls) for part in parts))
        case Any(parts):
            return _Gate("any", tuple(_formula(part, calls) for part in parts))
    raise AssertionError("a decision program holds AI calls only")


class _Program:
    """What remains of a formula after each answer to its first call; order: in postorder."""

    def __init__(self) -> None:
        self.branches: dict[_Formula, tuple[_Formula | bool, ...]] = {}
        self.order: list[_Formula] = []

    def explore(self, rest: _Formula) -> bool:
        """Visit a formula and what remains of it; False where there is too much."""
        if rest in self.branches:
            return True
        if len(self.branches) >= _LIMIT:
            return False
        ways = tuple(_assume(rest, _first(rest), answer) for answer in (True, False, None))
        self.branches[rest] = ways
        for branch in ways:
            if not isinstance(branch, bool) and not self.explore(branch):
                return False
        self.order.append(rest)
        return True


def _first(formula: _Formula) -> int:
    while isinstance(formula, _Gate):
        formula = formula.parts[0]
    return formula


def _assume(formula: _Formula, call: int, answer: bool | None, positive: bool = True) -> _Formula | bool:
    """What remains of a formula once a call's answer is known. None: it is NULL, and neither the call is true nor its
    negation. positive: no NOT is around the formula, or two.
    """
    if isinstance(formula, int):
        if formula != call:
            return formula
        return not positive if answer is None else answer
    positive ^= formula.kind == "not"
    rests = [_assume(part, call, answer, positive) for part in formula.parts]
    left = tuple(rest for rest in rests if not isinstance(rest, bool))
    if formula.kind == "not":
        return not rests[0] if isinstance(rests[0], bool) else _Gate("not", left)
    ends = formula.kind == "any"
    if any(rest is ends for rest in rests):
        return ends
    if not left:
        return not ends
    return left[0] if len(left) == 1 else _Gate(formula.kind, left)
