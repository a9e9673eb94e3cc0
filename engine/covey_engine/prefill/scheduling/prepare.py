"""A work order goes in; out comes the same order ready to be scheduled: rows sorted, grouped, measured.

Texts of a column of which many begin alike become several segments, cut where they part. Rows are the anchors in the
order of the prompts' first segments, so that prompts which begin alike are neighbours; likewise the pairs of a row are
in the order of their partners' first segments. This may take a while for
millions of rows and touches nothing that is shared, so it runs beside the scheduler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from covey_engine.prefill.api import Anchor, Argument, Literal, Part, Partner, WorkOrder
from covey_engine.prefill.scheduling.compiled import Ints
from covey_engine.prefill.scheduling.groups import Groups
from covey_engine.prefill.scheduling.orders import Columns, Limits, check_lengths
from covey_engine.prefill.scheduling.pairs import PairList, list_pairs
from covey_engine.prefill.scheduling.pieces import rewrite
from covey_engine.prefill.scheduling.scores import Trie
from covey_engine.prefill.scheduling.sides import Measure, Side, aligned, ascending, joined


@dataclass(frozen=True)
class Prepared:
    """An order ready to be scheduled.

    order: with an argument for each piece of a text; folders: the columns it uses. paths: each ask's segments;
    literals without tokens left out. anchors: by row, in the rows' order; partners: as submitted; original: each row's
    anchor, None where it is the same; common: with how many segments all asks begin; to_come: an upper bound of its
    tokens, what all asks begin with counted once a row, and what all rows do not at all. ask: which of the submitted
    order's asks this order's first one is; trie: of an ask for labels theirs, whose nodes are among the partners.
    """

    order: WorkOrder
    folders: tuple[str, ...]
    paths: tuple[tuple[Part, ...], ...]
    anchors: tuple[Side, ...]
    partners: tuple[Side, ...]
    original: Ints | None
    pairs: PairList | None
    groups: dict[tuple[int, ...], Groups]
    common: int
    to_come: int
    ask: int
    trie: Trie | None

    def measure(self, parts: Sequence[Part]) -> Measure:
        """How long some segments are."""
        return _measure(parts, self.anchors, self.partners)

    @cached_property
    def _alike(self) -> Ints | None:
        """What each row's prompt for the first ask shares with the row before; None where no text is cut."""
        fixed = self.paths[0][: fixed_parts(self.paths[0])]
        if all(self.anchors[argument].head is None for argument in arguments_of(fixed)):
            return None
        tied = np.ones(self.order.anchor_count, np.bool_)
        tied[:1] = False
        shared = np.zeros(len(tied), np.int64)
        for part in fixed:
            match part:
                case Anchor(argument):
                    side = self.anchors[argument]
                    tied[1:] &= side.slots[1:] == side.slots[:-1]
                    shared += tied * Measure(0, (side,), ()).lengths(np.arange(len(tied)), None)
                case Literal(tokens):
                    shared += tied * len(tokens)
        return shared

    def shared_with_neighbour(self, rows: Ints) -> Ints | None:
        """Of rows in ascending order, tokens at least that each one's prompt begins with as the one's before it does.

        None where it is not worth looking.
        """
        if self._alike is None:
            return None
        follows = np.zeros(len(rows), np.bool_)
        follows[1:] = rows[1:] == rows[:-1] + 1
        return np.where(follows, self._alike[rows], 0)

    @cached_property
    def each(self) -> Measure:
        """What all asks begin with, without the literals that all rows begin with."""
        return self.measure(_each(self.paths[0], self.common))


def prepare(
    order: WorkOrder, columns: Columns, limits: Limits, ask: int = 0, trie: Trie | None = None
) -> Prepared:
    """Open the columns of an order without contradictions and sort its rows. Raises EngineError where it cannot run."""
    opened: list[str] = []
    try:
        sides = []
        for argument in map(aligned, order.anchors + order.partners):
            column = columns.acquire(argument.column, argument.slots)
            opened.append(argument.column)
            pieces = columns.pieces(argument.column, argument.slots)
            sides.append([Side.of(argument, column)] if pieces is None else Side.pieces(argument, pieces))
        return _sort(*_split(order, sides), tuple(opened), limits, ask, trie)
    except BaseException:
        for folder in opened:
            columns.release(folder)
        raise


def release(prepared: Prepared, columns: Columns) -> None:
    """Give the order's columns back."""
    for folder in prepared.folders:
        columns.release(folder)


def fixed_parts(path: Sequence[Part]) -> int:
    """How many segments stand before the first of the partner's."""
    return next((index for index, part in enumerate(path) if isinstance(part, Partner)), len(path))


def arguments_of(parts: Sequence[Part]) -> tuple[int, ...]:
    """The anchor arguments among segments, in their order."""
    return tuple(part.argument for part in parts if isinstance(part, Anchor))


def _path(order: WorkOrder, ask: int) -> tuple[Part, ...]:
    parts = order.prefix + order.asks[ask].suffix
    return tuple(part for part in parts if not isinstance(part, Literal) or part.tokens)


def _split(order: WorkOrder, sides: list[list[Side]]) -> tuple[WorkOrder, list[Side], list[Side]]:
    """The order over pieces of its arguments, and those of both sides."""
    count = len(order.anchors)
    anchors, partners = ([side for each in some for side in each] for some in (sides[:count], sides[count:]))
    if len(anchors) + len(partners) > len(sides):
        numbers = [len(each) for each in sides]
        order = rewrite(order, numbers[:count], numbers[count:])
        columns = [[Argument(side.folder, side.slots) for side in some] for some in (anchors, partners)]
        order = replace(order, anchors=tuple(columns[0]), partners=tuple(columns[1]))
    return order, anchors, partners


def _measure(parts: Sequence[Part], anchors: Sequence[Side], partners: Sequence[Side]) -> Measure:
    literals, ours, theirs = 0, list[Side](), list[Side]()
    for part in parts:
        if isinstance(part, Literal):
            literals += len(part.tokens)
        elif isinstance(part, Anchor):
            ours.append(anchors[part.argument])
        else:
            theirs.append(partners[part.argument])
    return Measure(literals, joined(ours), joined(theirs))


def _each(path: Sequence[Part], common: int) -> Sequence[Part]:
    """Of the segments that all asks begin with, those after the literals that all rows begin with."""
    first = next((n for n, part in enumerate(path) if not isinstance(part, Literal)), common)
    return path[first:common]


def _sort(
    order: WorkOrder,
    anchors: list[Side],
    partners: list[Side],
    folders: tuple[str, ...],
    limits: Limits,
    ask: int,
    trie: Trie | None,
) -> Prepared:
    paths = tuple(_path(order, number) for number in range(len(order.asks)))
    fixed = [path[: fixed_parts(path)] for path in paths]
    common = next(
        (n for n, parts in enumerate(zip(*fixed, strict=False)) if len(set(parts)) > 1), min(map(len, fixed))
    )
    to_come = _check(order, paths, common, anchors, partners, limits) if order.items else 0
    original = ascending([anchors[argument] for argument in arguments_of(fixed[0])])
    anchors = [side.sorted(original) for side in anchors]
    groups: dict[tuple[int, ...], Groups] = {(): Groups(order.anchor_count)}
    for path in fixed:
        chain = arguments_of(path)
        for length in range(1, len(chain) + 1):
            head = chain[:length]
            if head not in groups:
                groups[head] = Groups(order.anchor_count, groups[head[:-1]], anchors[head[-1]].slots)
    pairs = list_pairs(order, paths[0], partners, original) if order.partners else None
    return Prepared(
        order,
        folders,
        paths,
        tuple(anchors),
        tuple(partners),
        original,
        pairs,
        groups,
        common,
        to_come,
        ask,
        trie,
    )


def _check(
    order: WorkOrder,
    paths: Sequence[Sequence[Part]],
    common: int,
    anchors: Sequence[Side],
    partners: Sequence[Side],
    limits: Limits,
) -> int:
    """Raise EngineError where a prompt is too long, or has no token; the tokens to come of an order with items."""
    rows, others = np.arange(order.anchor_count), np.arange(order.partner_count)
    shared = _measure(paths[0][:common], anchors, ()).lengths(rows, None)
    if order.pairs is not None:
        asked = int((shared * np.diff(order.pairs.offsets)).sum())
    else:
        asked = int(shared.sum()) * (order.partner_count if order.partners else 1)
    total = _measure(_each(paths[0], common), anchors, ()).total(rows, None)
    for ask, path in enumerate(paths):
        ours, theirs = _measure(path, anchors, partners).apart()
        left, right = ours.lengths(rows, None), theirs.lengths(others, others)
        total += check_lengths(order, ask, left, right, limits) - asked
    return total
