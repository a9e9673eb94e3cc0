"""The margin above which a score passes its bound: the comparison of the score itself, for every margin."""

from __future__ import annotations

import numpy as np
import pytest
from covey_engine.operators.scores import probability, zero_point
from covey_engine.prefill.api import YesNo
from covey_planner.physical import Above, Question
from hypothesis import given
from hypothesis import strategies as st

ANSWER = Question("", (), "answers")


def passes(above: Above, zero: float) -> float:
    return zero_point(Question("", (), "answers", above=above), YesNo((1,), (2,), zero))


@given(
    st.floats(0, 1),
    st.booleans(),
    st.sampled_from([0.0, 0.25, -1.5]),
    st.floats(-40, 40, width=32),
    st.integers(-3, 3),
)
def test_a_margin_passes_as_its_score_does(
    bound: float, least: bool, zero: float, margin: float, steps: int
) -> None:
    bounded = passes(Above(bound, least), zero)
    near = np.float32(bounded) if np.isfinite(bounded) else np.float32(margin)
    for _ in range(abs(steps)):
        near = np.nextafter(near, np.float32(np.copysign(np.inf, steps)), dtype=np.float32)
    margins = np.array([margin, near], np.float32)
    scores = probability(margins, zero)
    assert ((margins > bounded) == (scores >= bound if least else scores > bound)).all()


@pytest.mark.parametrize(
    ("above", "margin"), [(Above(1.0), np.inf), (Above(0.0, least=True), -np.inf), (Above(-1.0), -np.inf)]
)
def test_a_bound_that_none_or_all_pass(above: Above, margin: float) -> None:
    assert passes(above, 0.0) == margin


def test_without_a_bound_it_is_the_models_own() -> None:
    assert zero_point(ANSWER, YesNo((1,), (2,), 0.75)) == 0.75
