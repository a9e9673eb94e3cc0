"""Seeds go in, random forests of work orders come out, one by one or several together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

import numpy as np
from covey_engine.prefill.api import (
    DONE,
    MATCH,
    Anchor,
    Argument,
    Ask,
    Labels,
    Literal,
    Pairs,
    Part,
    Partner,
    WorkOrder,
    YesNo,
)
from covey_engine.prefill.scheduling.prefixes import EVERYTHING, Rule
from hypothesis import strategies as st
from support.expected import items
from support.families import family
from support.memory_column import MemoryColumn

FORESTS = 10
"""How many a grove has."""

READOUTS = (YesNo((3,), (4,)), YesNo((5, 6), (7,), 0.5), YesNo((3,), (4, 8), -3.0))


@dataclass(frozen=True)
class Forest:
    """Orders to run, the columns they refer to, sizes of the engine, and which common beginnings it shares.

    roomy: whether everything fits into the arena. alike: whether texts begin alike and all that they have in common is
    shared.
    """

    orders: tuple[WorkOrder, ...]
    columns: dict[str, MemoryColumn]
    arena: int
    chunk: int
    roomy: bool = False
    alike: bool = False

    @property
    def rule(self) -> Rule:
        """What the scheduler is to share."""
        return EVERYTHING if self.alike else Rule()


@dataclass(frozen=True)
class Grove:
    """Forests of neighbouring seeds; several at once cost a test less than one each. The rest is as of build_forest."""

    seed: int
    size: int
    roomy: bool
    early: bool
    alike: bool

    def each(self, check: Callable[[Forest], object]) -> None:
        """Check each forest; where one fails, the error says how to build that one alone."""
        for seed in range(self.seed, self.seed + FORESTS):
            try:
                check(build_forest(seed, self.size, self.roomy, self.early, self.alike))
            except Exception as error:
                flags = f"roomy={self.roomy}, early={self.early}, alike={self.alike}"
                error.add_note(f"build_forest({seed}, {self.size}, {flags})")
                raise


def groves(roomy: bool = False, early: bool = False, alike: bool = False) -> st.SearchStrategy[Grove]:
    """Forests of a few orders on a few columns; roomy: an arena in which everything fits, else barely enough."""
    seeds, sizes = st.integers(0, 1 << 32), st.integers(1, 9 if early else 5)
    return st.builds(Grove, seeds, sizes, st.just(roomy), st.just(early), st.just(alike))


def build_forest(
    seed: int, size: int, roomy: bool, early: bool = False, alike: bool = False, longest: int = 0
) -> Forest:
    """One of all forests; the larger the size, the more rows and the longer texts.

    early: orders may end early. alike: texts begin alike. longest: tokens of a text of one column, more than others.
    """
    random = Random(seed)
    columns = {name: MemoryColumn(_texts(random, size, alike)) for name in "abc"}
    if longest:
        columns["a"] = MemoryColumn([_tokens(random, longest, longest), *_texts(random, size, alike)])
    # Few different literals, so that orders meet.
    pool = [Literal(tuple(_tokens(random, 1, 3, 4))) for _ in range(random.randint(1, 3))]
    orders = tuple(_order(random, columns, pool, size) for _ in range(random.randint(1, 3)))
    if early:
        orders = tuple(_early(random, order) for order in orders)
    lengths = [length for order in orders for length in _lengths(order, columns)]
    most = max([1, *lengths])
    # As often a few chunks as many: large forests in tiny chunks would take minutes; small ones have those.
    chunks = 120 if random.random() < 0.05 else round(2 ** random.uniform(0, 5))
    chunk = max(random.randint(1, random.choice((4, 20, 60))), sum(lengths) // chunks)
    room = 100_000 if roomy else random.randint(0, 3) * random.randint(0, most)
    return Forest(orders, columns, chunk + most + room, chunk, roomy, alike)


def _texts(random: Random, size: int, alike: bool) -> list[list[int]]:
    if alike:
        return family(random, random.randint(1, 4 * size), random.randint(1, 3), 4 * size)
    return [_tokens(random, 0, random.choice((2, 4 * size, 12 * size))) for _ in range(random.randint(1, 6))]


def _tokens(random: Random, least: int, most: int, vocabulary: int = 21) -> list[int]:
    return [random.randrange(vocabulary) for _ in range(random.randint(least, most))]


def _order(random: Random, columns: dict[str, MemoryColumn], pool: list[Literal], size: int) -> WorkOrder:
    def side(least: int) -> tuple[Argument, ...]:
        rows = random.randint(least, size)
        names = random.choices("abc", k=random.randint(1, 2))
        return tuple(
            Argument(name, np.array([random.randrange(len(columns[name])) for _ in range(rows)], np.int32))
            for name in names
        )

    anchors = side(1 if random.random() < 0.9 else 0)
    partners = side(0) if random.random() < 0.5 else ()
    before: list[Part] = [*pool, *(Anchor(n) for n in range(len(anchors)))]
    after = before + [Partner(n) for n in range(len(partners))] * 2
    prefix = tuple(random.choices(before, k=random.randint(0, 2)))
    count = random.randint(1, 3)
    asks = []
    labels = random.random() < 0.3
    for index in range(count):
        suffix = (*random.choices(after, k=random.randint(0, 3)), random.choice(pool))
        if labels:
            asks.append(Ask(suffix, _labels(random, size)))
            continue
        later = [DONE, *range(index + 1, count)]
        asks.append(Ask(suffix, random.choice(READOUTS), random.choice(later), random.choice(later)))
    pairs = None
    if partners and random.random() < 0.5:
        most = len(partners[0].slots)
        lists = [
            random.choices(range(most), k=random.randint(0, 4)) if most else [] for _ in anchors[0].slots
        ]
        offsets = np.cumsum([0, *map(len, lists)], dtype=np.int64)
        pairs = Pairs(offsets, np.array([p for each in lists for p in each], np.int32))
    return WorkOrder(str(random.randint(0, 1)), prefix, tuple(asks), anchors, partners, pairs)


def _early(random: Random, order: WorkOrder) -> WorkOrder:
    """The same order with some of its ends a match, and perhaps ended by its matches."""

    if isinstance(order.asks[0].readout, Labels):
        return order

    def end(target: int) -> int:
        return random.choice((DONE, MATCH)) if target == DONE else target

    asks = tuple(replace(ask, on_true=end(ask.on_true), on_false=end(ask.on_false)) for ask in order.asks)
    if not any(MATCH in (ask.on_true, ask.on_false) for ask in asks):
        return replace(order, asks=asks)
    exists = bool(order.partners) and random.random() < 0.6
    enough = random.choice((None, 0, 1, 2, random.randint(1, 20)))
    each = random.choice((1, 1, 2, 3)) if exists else 1
    return replace(order, asks=asks, exists=exists, enough=enough, each=each)


def _labels(random: Random, size: int) -> Labels:
    """Labels of few different tokens, so that they begin alike; some of them equal."""
    most = random.choice((1, 2, 4))
    return Labels(tuple(tuple(_tokens(random, 1, most, 4)) for _ in range(random.randint(1, 1 + size))))


def _lengths(order: WorkOrder, columns: dict[str, MemoryColumn]) -> Iterator[int]:
    """The tokens of each prompt that an order may ask."""
    ours, theirs = (
        [columns[argument.column].lengths[argument.slots].tolist() for argument in side]
        for side in (order.anchors, order.partners)
    )
    every = list(items(order))
    for ask in order.asks:
        parts = order.prefix + ask.suffix
        fixed = sum(len(part.tokens) for part in parts if isinstance(part, Literal))
        if isinstance(ask.readout, Labels):
            fixed += max(map(len, ask.readout.labels)) - 1
        anchors = [ours[part.argument] for part in parts if isinstance(part, Anchor)]
        partners = [theirs[part.argument] for part in parts if isinstance(part, Partner)]
        for _, a, p in every:
            yield fixed + sum(lengths[a] for lengths in anchors) + sum(lengths[p] for lengths in partners)
