"""The arena: ranges are handed out once, come back once, and free + resident + reserved never changes."""

from __future__ import annotations

import numpy as np
import pytest
from covey_engine.prefill.scheduling.arena import Arena, Ints
from hypothesis import given, settings
from hypothesis import strategies as st


def ints(*values: int) -> Ints:
    return np.array(values, np.int64)


def check(arena: Arena, starts: Ints, lengths: Ints) -> None:
    """The law, with every second range reserved: the two kinds of use are counted alike."""
    arena.check(starts, lengths, np.arange(len(starts)) % 2 == 0)


def test_ranges_stand_side_by_side_where_there_is_room() -> None:
    arena = Arena(10, 100)
    assert arena.allocate(ints(3, 4, 5)).tolist() == [10, 13, 17]
    assert (arena.free, arena.used, arena.largest) == (88, 12, 88)


def test_the_smallest_free_range_that_is_large_enough_is_used() -> None:
    arena = Arena(0, 100)
    arena.allocate(ints(10, 20, 5, 8, 57))
    arena.release(ints(10, 35), ints(20, 8))
    assert arena.allocate(ints(7)).tolist() == [35]
    assert arena.allocate(ints(9)).tolist() == [10]


def test_ranges_are_apart_where_no_free_range_holds_them_all() -> None:
    arena = Arena(0, 30)
    arena.allocate(ints(10, 10, 10))
    arena.release(ints(0, 20), ints(10, 10))
    starts = arena.allocate(ints(6, 6))
    assert sorted(starts.tolist()) == [0, 20]
    check(arena, np.append(starts, 10), ints(6, 6, 10))


def test_what_has_no_room_gets_no_address_and_takes_none() -> None:
    arena = Arena(5, 10)
    assert arena.allocate(ints(11)).tolist() == [-1]
    assert arena.free == 10
    starts = arena.allocate(ints(20, 4, 6))
    assert starts.tolist() == [-1, 5, 9]
    assert arena.free == 0
    assert arena.allocate(ints(1)).tolist() == [-1]


def test_an_arena_without_addresses_holds_only_empty_ranges() -> None:
    arena = Arena(7, 0)
    assert arena.largest == 0
    assert arena.allocate(ints(1)).tolist() == [-1]
    assert arena.allocate(ints()).tolist() == []


def test_released_neighbours_become_one_range_again() -> None:
    arena = Arena(0, 30)
    starts = arena.allocate(ints(10, 10, 10))
    arena.release(starts[[0, 2]], ints(10, 10))
    assert arena.largest == 10
    arena.release(starts[[1]], ints(10))
    assert arena.largest == arena.free == 30
    assert arena.allocate(ints(30)).tolist() == [0]


@pytest.mark.parametrize(
    ("start", "length"), [(4, 2), (3, 2), (5, 2), (0, 10)], ids=["same", "before", "behind", "around"]
)
def test_an_address_that_is_free_cannot_be_released(start: int, length: int) -> None:
    arena = Arena(0, 10)
    arena.allocate(ints(10))
    arena.release(ints(4), ints(2))
    with pytest.raises(AssertionError, match=r"^released an address twice"):
        arena.release(ints(start), ints(length))


def test_one_release_cannot_name_an_address_twice() -> None:
    arena = Arena(0, 10)
    arena.allocate(ints(10))
    with pytest.raises(AssertionError, match=r"^released an address twice"):
        arena.release(ints(2, 3), ints(2, 2))


@pytest.mark.parametrize(("start", "word"), [(4, "below"), (14, "above")])
def test_an_address_outside_cannot_be_released(start: int, word: str) -> None:
    arena = Arena(5, 10)
    arena.allocate(ints(10))
    with pytest.raises(AssertionError, match=f"^released an address {word} the arena"):
        arena.release(ints(start), ints(2))


@pytest.mark.parametrize(
    ("starts", "lengths"), [((0,), (4,)), ((0, 3), (4, 4)), ((0, 5), (4, 3))], ids=["lost", "shared", "moved"]
)
def test_the_check_finds_ranges_that_do_not_add_up(starts: tuple[int, ...], lengths: tuple[int, ...]) -> None:
    arena = Arena(0, 10)
    arena.allocate(ints(4, 4))
    check(arena, ints(0, 4), ints(4, 4))
    with pytest.raises(AssertionError):
        check(arena, ints(*starts), ints(*lengths))


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 3),
    st.integers(0, 60),
    st.lists(st.tuples(st.lists(st.integers(1, 12), max_size=6), st.integers(0, 1 << 16)), max_size=20),
)
def test_nothing_is_lost_and_nothing_given_out_twice(
    first: int, total: int, steps: list[tuple[list[int], int]]
) -> None:
    arena = Arena(first, total)
    held: list[tuple[int, int]] = []
    for lengths, pick in steps:
        most, free = arena.largest, arena.free
        starts = arena.allocate(np.array(lengths, np.int64)).tolist()
        placed = [(start, length) for start, length in zip(starts, lengths, strict=True) if start >= 0]
        assert free - arena.free == sum(length for _, length in placed)
        if sum(lengths) <= most:
            assert len(placed) == len(lengths)
        held += placed
        gone = [span for n, span in enumerate(held) if pick >> n % 16 & 1]
        held = [span for n, span in enumerate(held) if not pick >> n % 16 & 1]
        arena.release(
            np.array([start for start, _ in gone], np.int64),
            np.array([length for _, length in gone], np.int64),
        )
        taken = [address for start, length in held for address in range(start, start + length)]
        assert len(set(taken)) == len(taken) == arena.used
        assert all(first <= address < first + total for address in taken)
        check(
            arena,
            np.array([start for start, _ in held], np.int64),
            np.array([length for _, length in held], np.int64),
        )
