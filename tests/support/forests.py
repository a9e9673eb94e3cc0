"""Random forests of work orders, and what must come of them: every answer, and the fewest tokens to compute."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
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
from support.fake_runner import plain_margin, plain_scores
from support.families import family
from support.memory_column import MemoryColumn

READOUTS = (YesNo((3,), (4,)), YesNo((5, 6), (7,), 0.5), YesNo((3,), (4, 8), -3.0))


@dataclass(frozen=True)
class Forest:
    """Orders to run, the columns they refer to, sizes of the engine, and which common beginnings it shares.

    alike: whether texts begin alike and all that they have in common is shared.
    """

    orders: tuple[WorkOrder, ...]
    columns: dict[str, MemoryColumn]
    arena: int
    chunk: int
    alike: bool = False

    @property
    def rule(self) -> Rule:
        """What the scheduler is to share."""
        return EVERYTHING if self.alike else Rule()


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


class _Seen:
    """Prefixes of prompts by number, the empty one's is 0; and of each whether its first use was a pair's.

    of_row: the prefixes that pairs of a row have, with the row.
    """

    def __init__(self) -> None:
        self.numbers: dict[tuple[int, object], int] = {}
        self.by_pair = [False]
        self.of_row: set[tuple[int, tuple[int, ...]]] = set()


@dataclass
class Expected:
    """What plain evaluation of every prompt says.

    values: by (order, ask, item), a margin or scores. prompt_tokens: by order. outcomes: by (order, item), whether it
    matches. fresh_tokens: tokens of all distinct prefixes of whole segments, where a column's texts without tokens
    count as one; whole_tokens: the same, where fresh_tokens counts prefixes within texts too. slack: what computing
    each prefix that depends on a partner once for each row of each order would add, and for each pair of which it is
    not the first ask, or whose order may end early: for others those are shared within a chunk only.
    """

    values: dict[tuple[int, int, int], float | list[float]]
    prompt_tokens: list[int]
    outcomes: dict[tuple[int, int], bool] = field(default_factory=dict)
    prompts: int = 0
    fresh_tokens: int = 0
    whole_tokens: int = 0
    slack: int = 0


def expect(
    orders: tuple[WorkOrder, ...],
    columns: dict[str, MemoryColumn],
    only: Collection[tuple[int, int, int]] | None = None,
    alike: bool = False,
) -> Expected:
    """Evaluate every prompt on its own, or those of `only` (order, ask, item).

    alike: what texts have in common is expected to be shared.
    """
    expected = Expected({}, [0] * len(orders))
    known: dict[tuple[object, ...], float] = {}
    seen, whole = _Seen(), _Seen()
    for index, order in enumerate(orders):
        if isinstance(order.asks[0].readout, Labels):
            _expect_labels(expected, index, order, columns, (seen, whole), alike)
            continue
        for item, anchor, partner in items(order):
            ask = 0
            while ask >= 0 and (only is None or (index, ask, item) in only):
                keys = path(order, ask, anchor, partner)
                parts = [tokens_of(key, columns) for key in keys]
                tokens = tuple(itertools.chain.from_iterable(parts))
                readout = order.asks[ask].readout
                assert isinstance(readout, YesNo)
                if (tokens, readout) not in known:
                    known[tokens, readout] = plain_margin(tokens, readout)
                margin = known[tokens, readout]
                row = None if ask or order.exists or order.enough is not None else (index, ask, anchor)
                expected.prompt_tokens[index] += len(tokens)
                expected.prompts += 1
                expected.values[index, ask, item] = margin
                _count(expected, (seen, whole), keys, parts, _fixed(order, ask), alike, row)
                ask = order.asks[ask].on_true if margin > readout.zero_point else order.asks[ask].on_false
            if ask < 0:
                expected.outcomes[index, item] = ask == MATCH
    return expected


def check_end(order: WorkOrder, outcomes: dict[int, bool]) -> None:
    """Assert that what has no outcome was not needed: every item has one, or its order may end without it."""
    anchors = {item: anchor for item, anchor, _ in items(order)}
    counts = Counter(anchors[item] if order.exists else item for item, matched in outcomes.items() if matched)
    matches = {item for item, count in counts.items() if count >= order.each or not order.exists}
    if order.enough is not None and len(matches) >= order.enough:
        return
    missing = {anchor for item, anchor in anchors.items() if item not in outcomes}
    assert missing <= (matches if order.exists else set()), "an item was left out that nothing decides"


def _expect_labels(
    expected: Expected,
    index: int,
    order: WorkOrder,
    columns: dict[str, MemoryColumn],
    seen: tuple[_Seen, _Seen],
    alike: bool,
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
            expected.outcomes[index, item] = False
            for node in sorted({label[:n] for label in readout.labels for n in range(len(label))}):
                expected.prompts += 1
                expected.prompt_tokens[index] += len(tokens) + len(node)
                ours = [*keys, *(("token", token) for token in node)]
                parts = [tokens_of(key, columns) for key in ours]
                _count(expected, seen, ours, parts, _fixed(order, number), alike, (index, number, anchor))


def _fixed(order: WorkOrder, ask: int) -> int:
    parts = order.prefix + order.asks[ask].suffix
    return next((n for n, part in enumerate(parts) if isinstance(part, Partner)), len(parts))


def _spelled(key: tuple[object, ...], part: tuple[int, ...], fixed: bool) -> list[tuple[object, int, bool]]:
    """A segment's symbols, their tokens and whether they depend on no partner: of a text each token, and its end."""
    if key[0] == "literal":
        return [(key, len(part), fixed)]
    return [((key[:2], token), 1, fixed) for token in part] + [(key[:2], 0, fixed)]


def _count(
    expected: Expected,
    seen: tuple[_Seen, _Seen],
    keys: list[tuple[object, ...]],
    parts: list[tuple[int, ...]],
    fixed: int,
    alike: bool,
    row: tuple[int, ...] | None,
) -> None:
    """Note a prompt. seen: what was seen of prefixes that are to be shared, and of prefixes of whole segments.

    row: which prompts come one after another, so that they share all they begin with.
    """
    segments = list(zip(keys, parts, strict=True))
    symbols = [(key if part else key[:2], len(part), n < fixed) for n, (key, part) in enumerate(segments)]
    if alike:
        symbols = [
            symbol for n, (key, part) in enumerate(segments) for symbol in _spelled(key, part, n < fixed)
        ]
    fresh, slack = _note(seen[0], symbols, row)
    expected.fresh_tokens += fresh
    expected.slack += slack
    expected.whole_tokens += _note(
        seen[1], [(key[:2] + part, len(part), True) for key, part in segments], row
    )[0]


def _note(
    seen: _Seen, symbols: Sequence[tuple[object, int, bool]], row: tuple[int, ...] | None
) -> tuple[int, int]:
    """Note a prompt; the tokens of its prefixes that are new, and those that may be computed again."""
    prefix = fresh = slack = 0
    for symbol, tokens, fixed in symbols:
        number = seen.numbers.get((prefix, symbol))
        if number is None:
            fresh += tokens
            # A first use by a pair hides nothing from the uses after it but its own computation.
            number = seen.numbers[prefix, symbol] = len(seen.by_pair)
            seen.by_pair.append(not fixed)
        elif fixed:
            slack += tokens * seen.by_pair[number]
        elif row is None or (number, row) not in seen.of_row:
            slack += tokens
        if row is not None and not fixed:
            seen.of_row.add((number, row))
        prefix = number
    return fresh, slack


def forests(roomy: bool = False, early: bool = False, alike: bool = False) -> st.SearchStrategy[Forest]:
    """A few orders on a few columns; roomy: an arena in which everything fits, else barely enough."""
    seeds, sizes = st.integers(0, 1 << 32), st.integers(1, 9 if early else 5)
    return st.builds(build_forest, seeds, sizes, st.just(roomy), st.just(early), st.just(alike))


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
    return Forest(orders, columns, chunk + most + room, chunk, alike)


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
