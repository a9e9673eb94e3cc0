"""Margins from logits: values, columns, and rows that cannot be told."""

from __future__ import annotations

import numpy as np
import pytest
from covey_engine.prefill.api import Labels, YesNo
from covey_engine.prefill.readout import Head, MarginReader, answer_tokens, head_of

SIMPLE = YesNo((7,), (3,))
DOUBLE = YesNo((7, 20), (3, 11), zero_point=0.5)


def test_answer_tokens_are_a_union_in_order() -> None:
    assert answer_tokens([DOUBLE, SIMPLE, YesNo((2,), (20,))]) == (2, 3, 7, 11, 20)
    assert answer_tokens([]) == ()


def test_labels_need_the_normalizer() -> None:
    assert head_of([DOUBLE, SIMPLE]) == Head((3, 7, 11, 20), normalizer=False)
    assert head_of([SIMPLE, Labels(((5, 3), (9,)))]) == Head((3, 5, 7, 9), normalizer=True)


def test_margins_of_mixed_readouts() -> None:
    logits = np.random.default_rng(0).normal(0, 5, (6, 4)).astype(np.float32)
    reader = MarginReader((3, 7, 11, 20))
    which = np.array([0, 1, 1, 0, 1, 0])
    wide = logits.astype(np.float64)
    simple = wide[:, 1] - wide[:, 0]
    double = np.log(np.exp(wide[:, 1]) + np.exp(wide[:, 3])) - np.log(np.exp(wide[:, 0]) + np.exp(wide[:, 2]))
    margins = reader.margins(logits, (SIMPLE, DOUBLE), which)
    assert margins.dtype == np.float32
    np.testing.assert_allclose(margins, np.where(which == 0, simple, double), rtol=1e-6)


def test_large_logits_do_not_overflow() -> None:
    logits = np.array([[1000, 1001, 1000, -2000]], np.float32)
    (margin,) = MarginReader((3, 7, 11, 20)).margins(logits, (DOUBLE,), np.zeros(1, np.int64))
    assert margin == pytest.approx(1 - np.log(2))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_row_that_is_not_finite_is_nan_alone(value: float) -> None:
    logits = np.zeros((3, 2), np.float32)
    logits[1, 0] = value
    margins = MarginReader((3, 7)).margins(logits, (SIMPLE,), np.zeros(3, np.int64))
    assert np.isnan(margins[1])
    assert (margins[[0, 2]] == 0).all()


def test_no_rows_no_margins() -> None:
    assert MarginReader((3, 7)).margins(
        np.zeros((0, 2), np.float32), (SIMPLE,), np.zeros(0, np.int64)
    ).shape == (0,)


def test_unusable_readouts_are_named() -> None:
    logits, which = np.zeros((1, 2), np.float32), np.zeros(1, np.int64)
    reader = MarginReader((3, 7))
    with pytest.raises(ValueError, match=r"not cut to the yes tokens \[20\]"):
        reader.margins(logits, (DOUBLE,), which)
    with pytest.raises(ValueError, match="at least one no token"):
        reader.margins(logits, (YesNo((7,), ()),), which)
