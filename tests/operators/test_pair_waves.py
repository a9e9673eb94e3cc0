"""The order in which pairs are asked where every pair is: by the keys of both sides, wave by wave, each pair once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from covey_engine.operators import pair_waves
from covey_engine.operators.domains import Keys, Side
from covey_engine.operators.subjects import Subjects
from covey_planner.physical import Domain, PairOrder
from hypothesis import given
from hypothesis import strategies as st

SIDES = st.sampled_from(
    [
        ("anchor",),
        ("partner",),
        ("anchor", "partner"),
        ("partner", "anchor"),
        ("partner", "anchor", "partner"),
    ]
)


def side(rows: int, ranks: list[list[int]]) -> Side:
    keys = Keys(
        (np.zeros(rows, "V16"),), rows, None, tuple(np.array(each[:rows], np.int64) for each in ranks)
    )
    return Side(Domain("", ()), keys, (), ())


@given(
    SIDES,
    st.booleans(),
    st.integers(1, 7),
    st.integers(1, 7),
    st.lists(st.lists(st.integers(0, 3), min_size=7, max_size=7), min_size=4, max_size=4),
    st.integers(1, 9),
    st.floats(0, 5),
    st.integers(1, 9),
)
def test_pairs_come_in_the_order_of_the_keys(
    sides: tuple[str, ...],
    ties: bool,
    anchors: int,
    partners: int,
    ranks: list[list[int]],
    first: int,
    least: float,
    piece: int,
) -> None:
    order = PairOrder(sides, ties)  # type: ignore[arg-type]
    subjects = Subjects(side(anchors, ranks[:2]), side(partners, ranks[2:]))
    usual, pair_waves.PIECE = pair_waves.PIECE, piece
    try:
        waves = [wave.tolist() for wave in pair_waves.pair_waves(order, subjects, first, least)]
    finally:
        pair_waves.PIECE = usual
    own = {"anchor": ranks[:2], "partner": ranks[2:]}

    def place(item: int) -> tuple[int, ...]:
        rows = {"anchor": item // partners, "partner": item % partners}
        return tuple(own[each][sides[:n].count(each)][rows[each]] for n, each in enumerate(sides))

    assert sorted(item for wave in waves for item in wave) == list(range(anchors * partners))
    assert all(wave == sorted(wave) for wave in waves)
    for before, after in pairwise(waves):
        last, next_ = max(map(place, before)), min(map(place, after))
        assert last < next_ if ties else last <= next_
        assert len(before) >= first
        # Ties that come along may bring anchors of their own.
        assert ties or len(before) >= least * len({item // partners for item in before})


def test_each_wave_has_twice_as_many_pairs_as_the_one_before() -> None:
    subjects = Subjects(side(30, [list(range(30))]), side(20, [list(range(20))]))
    waves = list(pair_waves.pair_waves(PairOrder(("partner", "anchor")), subjects, 40))
    assert [len(wave) for wave in waves] == [40, 80, 160, 320]
    assert sorted(waves[0].tolist()) == sorted([a * 20 for a in range(30)] + [a * 20 + 1 for a in range(10)])


def test_beginnings_that_are_long_are_computed_for_as_many_endings() -> None:
    subjects = Subjects(side(30, [[]]), side(20, [list(range(20))]))
    waves = list(pair_waves.pair_waves(PairOrder(("partner",)), subjects, 8, 5.0))
    assert [len(wave) for wave in waves] == [150, 300, 150]
