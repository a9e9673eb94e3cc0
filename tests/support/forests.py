"""Random forests of work orders, and what must come of them: every answer, and the fewest tokens to compute."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import numpy as np
from covey_engine.prefill.api import (
    DONE,
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
from hypothesis import strategies as st
from support.fake_runner import plain_margin, plain_scores
from support.memory_column import MemoryColumn

READOUTS = (YesNo((3,), (4,)), YesNo((5, 6), (7,), 0.5), YesNo((3,), (4, 8), -3.0))


@dataclass(frozen=True)
class Forest:
    """Orders to run, the columns they refer to, and sizes of the engine."""

    orders: tuple[WorkOrder, ...]
    columns: dict[str, MemoryColumn]
    arena: int
    chunk: int


def items(order: WorkOrder) -> Iterator[tuple[int, int, int]]:
    """Every item of an order: (item, anchor, partner or -1)."""
    if not order.partners:
        for anchor in range(order.anchor_count):
            yield anchor, anchor, -1
    elif order.pairs is None:
        for item, (a, p) in enumerate(
            itertools.product(range(order.anchor_count), range(order.partner_count))
        ):
            yield item, a, p
    else:
        anchors = np.repeat(np.arange(order.anchor_count), np.diff(order.pairs.offsets))
        for item, (a, p) in enumerate(zip(anchors.tolist(), order.pairs.indices.tolist(), strict=True)):
            yield item, a, p


def path(order: WorkOrder, ask: int, anchor: int, partner: int) -> list[tuple[object, ...]]:
    """A prompt's segments by identity: ("literal", tokens) or ("column", folder, slot)."""
    keys: list[tuple[object, ...]] = []
    for part in order.prefix + order.asks[ask].suffix:
        match part:
            case Literal(tokens):
                keys.append(("literal", tokens))
            case Anchor(argument):
                keys.append(
                    ("column", order.anchors[argument].column, int(order.anchors[argument].slots[anchor]))
                )
            case Partner(argument):
                keys.append(
                    ("column", order.partners[argument].column, int(order.partners[argument].slots[partner]))
                )
    return keys


def tokens_of(key: tuple[object, ...], columns: dict[str, MemoryColumn]) -> tuple[int, ...]:
    """The tokens of one segment."""
    if key[0] == "literal":
        return key[1]  # type: ignore[return-value]
    if key[0] == "token":
        return (key[1],)  # type: ignore[return-value]
    return tuple(columns[key[1]].tokens(key[2]).tolist())  # type: ignore[index,arg-type]


@dataclass
class Expected:
    """What plain evaluation of every prompt says.

    values: by (order, ask, item), a margin or scores. prompt_tokens: by order. fresh_tokens: tokens of all distinct
    prefixes of whole segments, where a column's texts without tokens count as one. slack: what computing each prefix
    that depends on a partner for every prompt anew would add: those are shared within a chunk, and by the asks of one
    pair.
    """

    values: dict[tuple[int, int, int], float | list[float]]
    prompt_tokens: list[int]
    prompts: int = 0
    fresh_tokens: int = 0
    slack: int = 0


def expect(orders: tuple[WorkOrder, ...], columns: dict[str, MemoryColumn]) -> Expected:
    """Evaluate every prompt on its own."""
    expected = Expected({}, [0] * len(orders))
    known: dict[tuple[object, ...], float] = {}
    seen: dict[tuple[tuple[object, ...], ...], int] = {}
    for index, order in enumerate(orders):
        if isinstance(order.asks[0].readout, Labels):
            _expect_labels(expected, index, order, columns, seen)
            continue
        for item, anchor, partner in items(order):
            ask = 0
            while ask != DONE:
                keys = path(order, ask, anchor, partner)
                parts = [tokens_of(key, columns) for key in keys]
                tokens = tuple(itertools.chain.from_iterable(parts))
                readout = order.asks[ask].readout
                assert isinstance(readout, YesNo)
                if (tokens, readout) not in known:
                    known[tokens, readout] = plain_margin(tokens, readout)
                margin = known[tokens, readout]
                expected.prompt_tokens[index] += len(tokens)
                expected.prompts += 1
                expected.values[index, ask, item] = margin
                _count(expected, seen, keys, parts, _fixed(order, ask))
                ask = order.asks[ask].on_true if margin > readout.zero_point else order.asks[ask].on_false
    return expected


def _expect_labels(
    expected: Expected,
    index: int,
    order: WorkOrder,
    columns: dict[str, MemoryColumn],
    seen: dict[tuple[tuple[object, ...], ...], int],
) -> None:
    known: dict[tuple[tuple[int, ...], Labels], list[float]] = {}
    for item, anchor, partner in items(order):
        for number, ask in enumerate(order.asks):
            keys = path(order, number, anchor, partner)
            tokens = tuple(itertools.chain.from_iterable(tokens_of(key, columns) for key in keys))
            readout = ask.readout
            assert isinstance(readout, Labels)
            if (tokens, readout) not in known:
                known[tokens, readout] = plain_scores(tokens, readout)
            expected.values[index, number, item] = known[tokens, readout]
            for node in sorted({label[:n] for label in readout.labels for n in range(len(label))}):
                expected.prompts += 1
                expected.prompt_tokens[index] += len(tokens) + len(node)
                ours = [*keys, *(("token", token) for token in node)]
                parts = [tokens_of(key, columns) for key in ours]
                _count(expected, seen, ours, parts, _fixed(order, number))


def _fixed(order: WorkOrder, ask: int) -> int:
    parts = order.prefix + order.asks[ask].suffix
    return next((n for n, part in enumerate(parts) if isinstance(part, Partner)), len(parts))


def _count(
    expected: Expected,
    seen: dict[tuple[tuple[object, ...], ...], int],
    keys: list[tuple[object, ...]],
    parts: list[tuple[int, ...]],
    fixed: int,
) -> None:
    names = [key if part else key[:2] for key, part in zip(keys, parts, strict=True)]
    for depth, part in enumerate(parts):
        prefix = tuple(names[: depth + 1])
        if prefix not in seen:
            expected.fresh_tokens += len(part)
            # A first use by a pair hides nothing from the uses after it but its own computation.
            seen[prefix] = int(depth >= fixed)
        elif depth >= fixed or seen[prefix]:
            expected.slack += len(part)


def forests(roomy: bool = False) -> st.SearchStrategy[Forest]:
    """A few orders on a few columns; roomy: an arena in which everything fits, else barely enough."""
    return st.builds(build_forest, st.integers(0, 1 << 32), st.integers(1, 5), st.just(roomy))


def build_forest(seed: int, size: int, roomy: bool) -> Forest:
    """One of all forests; the larger the size, the more rows and the longer texts."""
    random = Random(seed)
    columns = {
        name: MemoryColumn(
            [_tokens(random, 0, random.choice((2, 4 * size, 12 * size))) for _ in range(random.randint(1, 6))]
        )
        for name in "abc"
    }
    # Few different literals, so that orders meet.
    pool = [Literal(tuple(_tokens(random, 1, 3, 4))) for _ in range(random.randint(1, 3))]
    orders = tuple(_order(random, columns, pool, size) for _ in range(random.randint(1, 3)))
    longest = max(_longest(order, columns) for order in orders)
    chunk = random.randint(1, random.choice((4, 20, 60)))
    room = 100_000 if roomy else random.randint(0, 3) * random.randint(0, longest)
    return Forest(orders, columns, chunk + longest + room, chunk)


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


def _labels(random: Random, size: int) -> Labels:
    """Labels of few different tokens, so that they begin alike; some of them equal."""
    most = random.choice((1, 2, 4))
    return Labels(tuple(tuple(_tokens(random, 1, most, 4)) for _ in range(random.randint(1, 1 + size))))


def _longest(order: WorkOrder, columns: dict[str, MemoryColumn]) -> int:
    lengths = [1]
    for _, anchor, partner in items(order):
        for ask in range(len(order.asks)):
            readout = order.asks[ask].readout
            label = max(map(len, readout.labels)) - 1 if isinstance(readout, Labels) else 0
            keys = path(order, ask, anchor, partner)
            lengths.append(label + sum(len(tokens_of(key, columns)) for key in keys))
    return max(lengths)
