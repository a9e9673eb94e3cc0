"""Random forests of work orders, and what must come of them: every answer, and the fewest tokens to compute."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from covey_engine.prefill.api import (
    DONE,
    Anchor,
    Argument,
    Ask,
    Literal,
    Pairs,
    Part,
    Partner,
    WorkOrder,
    YesNo,
)
from hypothesis import strategies as st
from support.fake_runner import plain_margin
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
    return tuple(columns[key[1]].tokens(key[2]).tolist())  # type: ignore[index,arg-type]


@dataclass
class Expected:
    """What plain evaluation of every prompt says. trie: length of each distinct prefix that was asked for."""

    margins: dict[tuple[int, int, int], float]
    trie: dict[tuple[tuple[object, ...], ...], int]
    prompt_tokens: list[int]

    @property
    def fresh_tokens(self) -> int:
        return sum(self.trie.values())


def expect(orders: tuple[WorkOrder, ...], columns: dict[str, MemoryColumn]) -> Expected:
    """Evaluate every prompt on its own; margins by (order, ask, item)."""
    expected = Expected({}, {}, [0] * len(orders))
    known: dict[tuple[object, ...], float] = {}
    for index, order in enumerate(orders):
        for item, anchor, partner in items(order):
            ask = 0
            while ask != DONE:
                keys = path(order, ask, anchor, partner)
                parts = [tokens_of(key, columns) for key in keys]
                tokens = tuple(itertools.chain.from_iterable(parts))
                readout = order.asks[ask].readout
                if (tokens, readout) not in known:
                    known[tokens, readout] = plain_margin(tokens, readout)
                margin = known[tokens, readout]
                for depth, part in enumerate(parts):
                    expected.trie[tuple(keys[: depth + 1])] = len(part)
                expected.prompt_tokens[index] += len(tokens)
                expected.margins[index, ask, item] = margin
                ask = order.asks[ask].on_true if margin > readout.zero_point else order.asks[ask].on_false
    return expected


@st.composite
def forests(draw: st.DrawFn, roomy: bool = False, longest: int = 12) -> Forest:
    """A few orders on a few columns; roomy: an arena in which everything fits, else barely enough."""
    columns = {}
    for name in ("a", "b", "c"):
        texts = draw(st.lists(st.lists(st.integers(0, 20), max_size=longest), min_size=1, max_size=6))
        columns[name] = MemoryColumn(texts)
    literals = st.lists(st.integers(0, 3), min_size=1, max_size=3).map(lambda t: Literal(tuple(t)))
    # Few different literals, so that orders meet.
    pool = draw(st.lists(literals, min_size=1, max_size=3))
    orders = tuple(
        draw(_orders(columns, pool, str(draw(st.integers(0, 1))))) for _ in range(draw(st.integers(1, 3)))
    )
    longest_path = max((_longest(order, columns) for order in orders), default=1)
    chunk = draw(st.integers(1, 60))
    room = 100_000 if roomy else draw(st.integers(0, 3)) * draw(st.integers(0, longest_path))
    return Forest(orders, columns, chunk + longest_path + room, chunk)


@st.composite
def _orders(draw: st.DrawFn, columns: dict[str, MemoryColumn], pool: list[Literal], query: str) -> WorkOrder:
    def side(most: int) -> tuple[Argument, ...]:
        rows = draw(st.integers(0 if most > 1 else 1, 5))
        return tuple(
            Argument(name, np.array(draw(_slots(columns[name], rows)), np.int32))
            for name in draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=2))
        )

    anchors = side(5)
    partners = side(5) if draw(st.booleans()) else ()
    before: list[st.SearchStrategy[Part]] = [
        st.sampled_from(pool),
        st.integers(0, len(anchors) - 1).map(Anchor),
    ]
    after = before + ([st.integers(0, len(partners) - 1).map(Partner)] if partners else [])
    prefix = draw(st.lists(st.one_of(before), max_size=2))
    count = draw(st.integers(1, 3))
    asks = []
    for index in range(count):
        suffix = (*draw(st.lists(st.one_of(after), max_size=3)), draw(st.sampled_from(pool)))
        later = st.sampled_from([DONE, *range(index + 1, count)])
        asks.append(Ask(suffix, draw(st.sampled_from(READOUTS)), draw(later), draw(later)))
    rows = len(anchors[0].slots)
    pairs = None
    if partners and draw(st.booleans()):
        most = len(partners[0].slots)
        lists = [draw(st.lists(st.integers(0, most - 1), max_size=4)) if most else [] for _ in range(rows)]
        offsets = np.cumsum([0, *map(len, lists)], dtype=np.int64)
        pairs = Pairs(offsets, np.array([p for each in lists for p in each], np.int32))
    return WorkOrder(query, tuple(prefix), tuple(asks), anchors, partners, pairs)


def _slots(column: MemoryColumn, rows: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, len(column) - 1), min_size=rows, max_size=rows)


def _longest(order: WorkOrder, columns: dict[str, MemoryColumn]) -> int:
    lengths = [1]
    for _, anchor, partner in items(order):
        for ask in range(len(order.asks)):
            lengths.append(sum(len(tokens_of(key, columns)) for key in path(order, ask, anchor, partner)))
    return max(lengths)
