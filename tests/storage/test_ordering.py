"""The sorted index of common beginnings against brute force, in memory and beside a column that grows."""

from __future__ import annotations

import itertools
from pathlib import Path
from random import Random

import numpy as np
import pytest
from covey_storage import ordering
from covey_storage.keys import KEY
from covey_storage.ordering import Order, extend, sort_texts
from covey_storage.tokens import TokenColumn, TokenColumnWriter
from hypothesis import given, settings
from hypothesis import strategies as st
from support.families import family
from support.memory_column import MemoryColumn

Text = list[int]


def common(left: Text, right: Text) -> int:
    return next(
        (n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
    )


def check(order: Order, texts: list[Text]) -> None:
    found = [texts[slot] for slot in order.slots.tolist()]
    assert sorted(order.slots.tolist()) == list(range(len(texts)))
    assert found == sorted(texts)
    expected = [0, *(common(a, b) for a, b in itertools.pairwise(found))]
    assert order.common.tolist() == expected[: len(texts)]
    assert order.slots.dtype == order.common.dtype == np.int32


def families() -> st.SearchStrategy[list[Text]]:
    return st.builds(
        lambda seed, count: family(Random(seed), count), st.integers(0, 1 << 32), st.integers(0, 40)
    )


@settings(max_examples=300, deadline=None)
@given(families())
def test_texts_are_sorted_and_what_neighbours_share_is_counted(texts: list[Text]) -> None:
    check(sort_texts(MemoryColumn(texts), np.arange(len(texts), dtype=np.int32)), texts)


@settings(max_examples=200, deadline=None)
@given(families(), families())
def test_a_few_more_texts_are_merged_in(texts: list[Text], more: list[Text]) -> None:
    # So many that sorting all of them anew would be dearer.
    texts = [*texts, *([n, 7] for n in range(8 * len(more))), *more]
    start = len(texts) - len(more)
    column = MemoryColumn(texts)
    known = sort_texts(column, np.arange(start, dtype=np.int32))
    check(known, texts[:start])
    check(extend(column, known, len(texts)), texts)


def test_memory_is_bounded_by_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "_BLOCK", 20)
    shared = [Random(1).randrange(5) for _ in range(700)]
    texts = [[*shared[: n * 9], n] for n in range(70)] + [shared, [*shared, 1], shared]
    widest = 0

    class Watched(MemoryColumn):
        def copy(self, slots, begins, lengths, out) -> None:  # type: ignore[no-untyped-def]
            nonlocal widest
            widest = max(widest, int(lengths.sum()))
            super().copy(slots, begins, lengths, out)

    check(sort_texts(Watched(texts), np.arange(len(texts), dtype=np.int32)), texts)
    assert 0 < widest <= ordering._WIDEST


def append(writer: TokenColumnWriter, texts: list[Text], seed: int) -> None:
    keys = np.frombuffer(Random(seed).randbytes(16 * len(texts)), KEY)
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    writer.append(keys, offsets, np.array([i for text in texts for i in text], np.int32))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(families(), st.booleans(), st.booleans(), st.booleans()), max_size=6))
def test_the_order_of_a_column_that_grows(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[list[Text], bool, bool, bool]]
) -> None:
    folder = tmp_path_factory.mktemp("column")
    writer = TokenColumnWriter(folder, durable=False)
    column, texts = TokenColumn(folder), list[Text]()
    for seed, (more, sort, reopen, look) in enumerate(steps):
        append(writer, more, seed)
        texts += more
        if sort:
            writer.sort()
        if reopen:
            writer = TokenColumnWriter(folder, durable=False)
        column.refresh()
        if look:
            check(column.order, texts)
    check(column.order, texts)
    check(TokenColumn(folder).order, texts)


def test_the_order_is_read_from_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = TokenColumnWriter(tmp_path)
    texts = [[1, 2, 3], [], [1, 2], [0]] * 40
    append(writer, texts, 1)
    writer.sort()
    assert [path.name for path in tmp_path.glob("order-*")] == ["order-0000000000-0000000160.arrow"]
    append(writer, [[1, 2, 4], [1]], 2)
    writer.sort()
    assert len(list(tmp_path.glob("order-*"))) == 1, "two texts are not worth a new file"
    check(TokenColumn(tmp_path).order, [*texts, [1, 2, 4], [1]])
    append(writer, [[2]], 3)
    writer.sort()
    assert [path.name for path in tmp_path.glob("order-*")] == ["order-0000000000-0000000163.arrow"]
    monkeypatch.setattr(ordering, "_read", None)
    check(TokenColumn(tmp_path).order, [*texts, [1, 2, 4], [1], [2]])


def test_an_order_whose_slots_are_gone_is_not_read_and_goes_with_the_next_writer(tmp_path: Path) -> None:
    writer = TokenColumnWriter(tmp_path)
    append(writer, [[1]] * 10, 1)
    (tokens,) = tmp_path.glob("tokens-*")
    append(writer, [[0]] * 10, 2)
    writer.sort()
    kept = tokens.name
    (grown,) = tmp_path.glob("tokens-*")
    other = tmp_path / "other"
    append(TokenColumnWriter(other), [[1]] * 10, 1)
    grown.unlink()
    (other / kept).rename(tmp_path / kept)
    check(TokenColumn(tmp_path).order, [[1]] * 10)
    TokenColumnWriter(tmp_path)
    assert not list(tmp_path.glob("order-*"))
