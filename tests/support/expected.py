"""Work orders go in; out comes what must come of them: every answer, and the fewest tokens to compute."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from covey_engine.prefill.api import MATCH, Anchor, Labels, Literal, Partner, WorkOrder, YesNo
from support.fake_runner import plain_margin, plain_scores
from support.memory_column import MemoryColumn


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
