"""Work adds up, and one piece of it dominates another only where it is no dearer in any unit."""

from __future__ import annotations

import pytest
from covey_planner.call import Argument, Call
from covey_planner.cost.statistics import CallKey, Count, KeyOverlap, Pinned, Selectivity, call_key, hinted
from covey_planner.cost.work import Work
from covey_planner.errors import Position
from covey_planner.prompts import Template
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import parse_one

UNITS = st.integers(0, 1 << 40)
WORK = st.builds(Work, UNITS, UNITS, UNITS, UNITS)


def test_work_adds_up_and_what_is_held_is_the_most() -> None:
    assert Work(1, 2, 3, 10) + Work(10, 20, 30, 4) == Work(11, 22, 33, 10)
    assert Work(1, 2, 3, 4).scaled(5) == Work(5, 10, 15, 4)


@given(WORK, WORK, WORK)
def test_dominance_is_an_order_that_adding_keeps(first: Work, second: Work, third: Work) -> None:
    assert first.dominates(first)
    assert first == second or not (first.dominates(second) and second.dominates(first))
    if first.dominates(second):
        assert (first + third).dominates(second + third)
        if second.dominates(third):
            assert first.dominates(third)


@pytest.mark.parametrize("unit", ["fresh", "pairs", "read", "held"])
def test_dearer_in_one_unit_is_not_dominant(unit: str) -> None:
    assert not Work(**{unit: 2}).dominates(Work(**{unit: 1}))


def test_equi_join_rows_follow_the_common_values() -> None:
    assert KeyOverlap(left=10, right=4, common=4, exact=True).join_rows(100, 8) == 80
    assert KeyOverlap(left=0, right=4, common=0, exact=True).join_rows(0, 8) == 0


def test_a_hint_stays_a_share() -> None:
    assert hinted(0.1) == Selectivity(0.1, 0.05, 0.2, "hint")
    assert hinted(0.9).high <= 1
    assert hinted(0.0).low == 0 == hinted(0.0).high


def test_pinned_statistics_answer_what_was_written_down() -> None:
    pinned = Pinned(tables={"t": 50}, columns={("t", "a"): 7})
    assert pinned.rows("t") == Count(50, exact=True)
    assert pinned.distinct("t", "a") == Count(7, exact=True)
    assert pinned.tokens("t", "a").distinct_total == 700
    assert pinned.overlap(("t", "a"), ("t", "b")).common == 7


def test_a_call_is_known_by_its_columns_whatever_their_alias() -> None:
    def about(alias: str) -> Call:
        body = Argument(parse_one(f"{alias}.body"), f"{alias}.body", frozenset({alias}), "Docs", "Body")
        return Call(0, "AI_FILTER(…)", Template(("Is ", 0, " late?")), (body,), Position(1))

    assert call_key(about("a")) == call_key(about("b")) == CallKey("Is {0} late?", ("docs.body",))
