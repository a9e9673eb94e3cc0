"""From calls that are wanted under conditions to one decision program: which is asked next after each answer; no SQL.

A call is asked once it is certain that it is wanted: where what is wanted depends on a call that nobody wants, the
statement does not look at it either. Conditions on rows split by row: a call is wanted of a text if for some row of it
what remains of its condition holds, so that the text needs to know of each remainder alone whether it has such a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

from covey_planner.call import Call
from covey_planner.lowering.decision import Decision
from covey_planner.lowering.truths import Formula, Is, assume, gate, leaves_of

ATOMS = 3
"""Conditions on a row on which one call may depend."""

FLAGS = 4
"""Conditions on a row that a text is told apart by."""

_LIMIT = 64
"""Decisions of a program."""

_TESTS = {
    (True,): "({}) IS TRUE",
    (False,): "({}) IS FALSE",
    (None,): "({}) IS NULL",
    (True, False): "({}) IS NOT NULL",
    (True, None): "({}) IS DISTINCT FROM FALSE",
    (False, None): "({}) IS NOT TRUE",
}


@dataclass
class Rows:
    """Conditions on rows, by their SQL. flags: those by which texts are told apart, each with its number."""

    atoms: list[str] = field(default_factory=list)
    flags: dict[str, int] = field(default_factory=dict)

    def atom(self, sql: str) -> int:
        """The number of a condition."""
        if sql not in self.atoms:
            self.atoms.append(sql)
        return self.atoms.index(sql)

    def of_text(self, wanted: Formula) -> Formula | None:
        """The formula for all rows of a text, its conditions on rows being numbers of flags; None: too many."""
        atoms = sorted({leaf.number for leaf in leaves_of(wanted) if leaf.row})
        if len(atoms) > ATOMS:
            return None
        cases: dict[Formula, list[tuple[bool | None, ...]]] = {}
        for values in product((True, False, None), repeat=len(atoms)):
            rest = wanted
            for atom, value in zip(atoms, values, strict=True):
                rest = assume(rest, atom, value, row=True)
            cases.setdefault(rest, []).append(values)
        parts: list[Formula] = []
        for rest, holding in cases.items():
            if rest is not False:
                flag = None if len(cases) == 1 else self._flag(atoms, holding)
                parts.append(rest if flag is None else gate("all", [Is(flag, True, row=True), rest]))
        return gate("any", parts) if len(self.flags) <= FLAGS else None

    def _flag(self, atoms: Sequence[int], holding: Sequence[tuple[bool | None, ...]]) -> int:
        sql = self._sql([self.atoms[atom] for atom in atoms], holding)
        return self.flags.setdefault(sql, len(self.flags))

    def _sql(self, atoms: Sequence[str], holding: Sequence[tuple[bool | None, ...]]) -> str:
        """That one of some combinations of values holds for the atoms; not all do."""
        groups: dict[frozenset[tuple[bool | None, ...]], list[bool | None]] = {}
        for value in (True, False, None):
            rests = frozenset(values[1:] for values in holding if values[0] is value)
            groups.setdefault(rests, []).append(value)
        found = []
        for rests, values in groups.items():
            if not rests:
                continue
            parts = [] if len(values) == 3 else [_TESTS[tuple(values)].format(atoms[0])]
            if len(atoms) > 1 and len(rests) < 3 ** (len(atoms) - 1):
                parts.append(self._sql(atoms[1:], sorted(rests, key=str)))
            found.append(" AND ".join(parts))
        return found[0] if len(found) == 1 else " OR ".join(f"({each})" for each in found)


@dataclass(frozen=True)
class Program:
    """entries: the first decision, or -1, by which flags are set."""

    decisions: tuple[Decision, ...]
    entries: tuple[int, ...]


_State = tuple[Formula, tuple[Formula, ...]]
"""What remains of the tree that comes first, and of when each call is wanted; False once it is asked."""


def compiled(calls: Sequence[Call], tree: Formula, wanted: Sequence[Formula], flags: int) -> Program | None:
    """The program that decides a tree and, where it is true, asks what is wanted; None where that takes too much.

    tree, wanted: over the numbers of the calls; wanted: of each call, besides what the tree asks.
    """
    explored = _Explored(calls)
    roots: list[_State] = []
    for bits in range(1 << flags):
        told = list(wanted)
        for flag in range(flags):
            told = [assume(each, flag, bool(bits >> flag & 1), row=True) for each in told]
        roots.append((tree, tuple(told)))
        if not explored.visit(roots[-1]):
            return None
    order = explored.order[::-1]
    index: dict[_State | None, int] = {state: number for number, state in enumerate(order)}
    index[None] = -1
    decisions = []
    for state in order:
        number, branches = explored.branches[state]
        on_true, on_false, on_null = (index[branch] for branch in branches)
        decisions.append(Decision(calls[number], on_true, on_false, on_null))
    return Program(tuple(decisions), tuple(index[explored.settled(root)] for root in roots))


class _Explored:
    """The states that can be reached. order: in postorder; branches: the call of each, and where its answers lead."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._calls = calls
        self.branches: dict[_State, tuple[int, tuple[_State | None, ...]]] = {}
        self.order: list[_State] = []

    def visit(self, root: _State) -> bool:
        """Explore a state; False where there is too much."""
        state = self.settled(root)
        if state is None or state in self.branches:
            return True
        if len(self.branches) >= _LIMIT:
            return False
        number = _next(state)
        assert number is not None, "a settled state has a call to ask"
        # An answer that is no truth is known, or NULL.
        answers = (True, False, None) if self._calls[number].is_condition else (True, True, None)
        branches = tuple(self.settled(_after(state, number, answer)) for answer in answers)
        self.branches[state] = number, branches
        if not all(branch is None or self.visit(branch) for branch in branches):
            return False
        self.order.append(state)
        return True

    def settled(self, state: _State) -> _State | None:
        """The state, None where nothing is asked any more."""
        return None if _next(state) is None else state


def _next(state: _State) -> int | None:
    """The call that is asked now: what decides the tree, then the first one that is certain to be wanted."""
    tree, wanted = state
    if not isinstance(tree, bool):
        return next(leaves_of(tree)).number
    if not tree:
        return None
    return next((number for number, each in enumerate(wanted) if each is True), None)


def _after(state: _State, number: int, answer: bool | None) -> _State:
    tree, wanted = state
    left = (False if other == number else assume(each, number, answer) for other, each in enumerate(wanted))
    return assume(tree, number, answer), tuple(left)
