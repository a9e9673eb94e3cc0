"""A prepared order goes in; out come the paths of its asks' prompts, step by step, and its claims on these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.api import Anchor, Literal, Part, Partner
from covey_engine.prefill.scheduling.claims import Claim
from covey_engine.prefill.scheduling.compiled import Ints
from covey_engine.prefill.scheduling.kinds import Kind, Kinds
from covey_engine.prefill.scheduling.prepare import Prepared, arguments_of, fixed_parts
from covey_engine.prefill.scheduling.sides import Measure, Side

if TYPE_CHECKING:
    from covey_engine.prefill.scheduling.strips import Cell


@dataclass(frozen=True, eq=False)
class Step:
    """One segment of a prompt. side: where a column segment's slots are; ours: whether by anchor row, not partner."""

    kind: Kind
    side: Side | None
    ours: bool


@dataclass(frozen=True, eq=False)
class Path:
    """How the prompts of one ask run.

    fixed: how many steps do not depend on the partner; arguments: the anchor arguments up to each of those, in order;
    claims: the order's own claim on each. common: by ask, how many steps it begins with too; hold: the most that any
    ask which may be next begins with; after: asks that may still come once this one is put. strays: the order's claims
    off this path; unheld: those and the ones beyond the first `hold` steps. Lengths: start, rest: of the segments up to
    the partner's and of the others; held: of the first `hold` ones; own: of those after what all asks begin with;
    begun: of so many of the first ones, as far as somebody asked. Of the steps that are fixed, as Names.descend wants
    them: kinds: the kind's number; columns: which of the sides it has, -1 for a literal. cells: groups of steps that
    were nodes of chunks, by the first of them, whether it is a part, and how many of the path's steps had others'
    nodes, too.
    """

    steps: tuple[Step, ...]
    fixed: int
    arguments: tuple[tuple[int, ...], ...]
    claims: tuple[Claim, ...]
    common: tuple[int, ...]
    hold: int
    after: tuple[int, ...]
    strays: tuple[Claim, ...]
    unheld: tuple[Claim, ...]
    start: Measure
    rest: Measure
    held: Measure
    own: Measure
    kinds: Ints
    columns: Ints
    sides: tuple[Side, ...]
    prepared: Prepared
    parts: tuple[Part, ...]
    begun: dict[int, Measure] = field(default_factory=dict)
    cells: dict[tuple[int, bool, int], tuple[Cell, ...]] = field(default_factory=dict)

    def until(self, steps: int) -> Measure:
        """How long the first segments are."""
        if steps not in self.begun:
            self.begun[steps] = self.prepared.measure(self.parts[:steps])
        return self.begun[steps]

    @cached_property
    def leading(self) -> int:
        """Tokens of the literals that all of the order's prompts begin with."""
        texts = takewhile(lambda step: step.side is None, self.steps)
        return sum(len(step.kind.tokens) for step in texts if step.kind.tokens is not None)

    @cached_property
    def texts(self) -> tuple[tuple[int, int], ...]:
        """The first and the last step of each text that is cut into pieces."""
        pieces = [
            n for n, step in enumerate(self.steps) if step.side is not None and step.side.head is not None
        ]
        firsts = [n for n in pieces if (side := self.steps[n].side) is not None and side.number == 0]
        return tuple((a, max(n for n in pieces if n < b)) for a, b in pairwise([*firsts, len(self.steps)]))

    def stands_out(self, level: int) -> bool:
        """Whether the node that a step completes may have to stay by itself."""
        if level >= self.fixed:
            return self.hold == level + 1
        return self.hold > level or self.claims[level].counts is not None or self.steps[level].kind.shared


class PathBuilder:
    """Builds an order's paths; the same claim serves all kinds that the same asks share by the same arguments."""

    def __init__(
        self, prepared: Prepared, kinds: Kinds, fresh: NDArray[np.bool_], weights: Ints | None
    ) -> None:
        self._prepared = prepared
        self._kinds = kinds
        self._fresh = fresh
        self._weights = weights
        program = prepared.order.asks
        self._next = [[n for n in (ask.on_true, ask.on_false) if n >= 0] for ask in program]
        self._reach = _reach(self._next)
        self.acquired: list[Kind] = []
        self.claims: dict[tuple[tuple[int, ...], tuple[int, ...]], Claim] = {}

    def paths(self) -> tuple[Path, ...]:
        """All asks' paths."""
        parts = self._prepared.paths
        common = [tuple(_common(path, other) for other in parts) for path in parts]
        steps = [self._steps(path) for path in parts]
        fixed = [fixed_parts(path) for path in parts]
        claims = [self._claims(*each) for each in zip(parts, steps, fixed, common, strict=True)]
        return tuple(
            self._path(ask, *each) for ask, each in enumerate(zip(steps, fixed, claims, common, strict=True))
        )

    def _path(
        self,
        ask: int,
        steps: tuple[Step, ...],
        fixed: int,
        claims: tuple[Claim, ...],
        common: tuple[int, ...],
    ) -> Path:
        prepared = self._prepared
        parts, following = prepared.paths[ask], self._next[ask]
        hold = max((common[n] for n in following), default=0)
        sides, columns = list[Side](), list[int]()
        for step in steps[:fixed]:
            columns.append(-1 if step.side is None else len(sides))
            if step.side is not None:
                sides.append(step.side)
        return Path(
            steps,
            fixed,
            tuple(arguments_of(parts[: level + 1]) for level in range(fixed)),
            claims,
            common,
            hold,
            tuple(sorted(set().union(*(self._reach[n] for n in following)))),
            tuple(claim for claim in self.claims.values() if claim not in claims),
            tuple(claim for claim in self.claims.values() if claim not in claims[:hold]),
            prepared.measure(parts[:fixed]),
            prepared.measure(parts[fixed:]),
            prepared.measure(parts[:hold]),
            prepared.measure(parts[prepared.common :]),
            np.array([step.kind.id for step in steps[:fixed]], np.int64),
            np.array(columns, np.int64),
            tuple(sides),
            prepared,
            parts,
        )

    def _steps(self, parts: Sequence[Part]) -> tuple[Step, ...]:
        steps, kind = list[Step](), self._kinds.root
        for part in parts:
            kind, step = self._step(kind, part)
            steps.append(step)
        return tuple(steps)

    def _step(self, parent: Kind, part: Part) -> tuple[Kind, Step]:
        match part:
            case Literal(tokens):
                side, kind = None, self._kinds.acquire(parent, tokens, None)
            case Anchor(argument):
                side = self._prepared.anchors[argument]
                kind = self._kinds.acquire(parent, side.folder, side.column)
            case Partner(argument):
                side = self._prepared.partners[argument]
                kind = self._kinds.acquire(parent, side.folder, side.column)
        self.acquired.append(kind)
        return kind, Step(kind, side, not isinstance(part, Partner))

    def _claims(
        self, parts: Sequence[Part], steps: Sequence[Step], fixed: int, common: Sequence[int]
    ) -> tuple[Claim, ...]:
        """The claims on each step that is fixed. common: with how many steps each ask begins as this one."""
        found, arguments = list[Claim](), tuple[int, ...]()
        for level in range(fixed):
            part, kind = parts[level], steps[level].kind
            if isinstance(part, Anchor):
                arguments = (*arguments, part.argument)
            asks = tuple(n for n, alike in enumerate(common) if alike > level)
            claim = self.claims.get((arguments, asks)) or self._claim(arguments, asks)
            if kind not in claim.kinds:
                claim.kinds.append(kind)
                kind.claim(claim)
            found.append(claim)
        return tuple(found)

    def _claim(self, arguments: tuple[int, ...], asks: tuple[int, ...]) -> Claim:
        groups = self._prepared.groups[arguments]
        before = tuple(not reach.isdisjoint(asks) for reach in self._reach)
        after = tuple(any(before[m] for m in following) for following in self._next)
        alone = groups.single and self._weights is None and self._steady(asks, before)
        counts = None if alone else groups.totals(self._weights) * before[0]
        claim = self.claims[arguments, asks] = Claim(groups, before, after, counts, self._fresh)
        return claim

    def _steady(self, asks: tuple[int, ...], before: tuple[bool, ...]) -> bool:
        """Whether an item that wants these asks has one of them at all times, and so holds their prefix itself.

        before: of each ask, whether it is one of these, or one may follow.
        """
        return 0 in asks and not any(m not in asks and before[m] for n in asks for m in self._next[n])


def _reach(following: Sequence[Sequence[int]]) -> list[set[int]]:
    """For each ask, itself and all that may follow. following: those that may be next."""
    reach: list[set[int]] = [set() for _ in following]
    for n in reversed(range(len(following))):
        reach[n] = {n}.union(*(reach[m] for m in following[n]))
    return reach


def path_alike(path: Path, other: Path) -> int:
    """With how many segments of one kind two paths begin."""
    count = 0
    for ours, theirs in zip(path.steps, other.steps, strict=False):
        if ours.kind is not theirs.kind:
            break
        count += 1
    return count


def _common(path: Sequence[Part], other: Sequence[Part]) -> int:
    pairs = zip(path, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(path), len(other)))
