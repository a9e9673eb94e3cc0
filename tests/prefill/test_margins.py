"""Margins from logits: values, columns, and rows that cannot be told."""

from __future__ import annotations

import numpy as np
import pytest
from covey_engine.prefill.api import YesNo
from covey_engine.prefill.scheduling.compiled import compile_kernels
from covey_engine.prefill.scheduling.margins import MarginReader

SIMPLE = YesNo((7,), (3,))
DOUBLE = YesNo((7, 20), (3, 11), zero_point=0.5)

compile_kernels()


def test_margins_of_some_rows() -> None:
    logits = np.random.default_rng(0).normal(0, 5, (6, 4)).astype(np.float32)
    reader = MarginReader((3, 7, 11, 20))
    rows = np.array([4, 1, 1, 5])
    wide = logits.astype(np.float64)[rows]
    simple = wide[:, 1] - wide[:, 0]
    double = np.log(np.exp(wide[:, 1]) + np.exp(wide[:, 3])) - np.log(np.exp(wide[:, 0]) + np.exp(wide[:, 2]))
    for readout, expected in ((SIMPLE, simple), (DOUBLE, double)):
        margins = reader.margins(logits, readout, rows)
        assert margins.dtype == np.float32
        np.testing.assert_allclose(margins, expected, rtol=1e-6)


def test_large_logits_do_not_overflow() -> None:
    logits = np.array([[1000, 1001, 1000, -2000]], np.float32)
    (margin,) = MarginReader((3, 7, 11, 20)).margins(logits, DOUBLE, np.arange(1))
    assert margin == pytest.approx(1 - np.log(2))


@pytest.mark.parametrize("readout", [SIMPLE, DOUBLE])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("column", [0, 1])
def test_a_row_that_is_not_finite_is_nan_alone(readout: YesNo, value: float, column: int) -> None:
    logits = np.zeros((3, 4), np.float32)
    logits[1, [column, column + 2]] = value
    margins = MarginReader((3, 7, 11, 20)).margins(logits, readout, np.arange(3))
    assert np.isnan(margins[1])
    assert (margins[[0, 2]] == 0).all()


def test_no_rows_no_margins() -> None:
    margins = MarginReader((3, 7)).margins(np.zeros((0, 2), np.float32), SIMPLE, np.arange(0))
    assert margins.shape == (0,)


def test_unusable_readouts_are_named() -> None:
    logits, rows = np.zeros((1, 2), np.float32), np.arange(1)
    reader = MarginReader((3, 7))
    with pytest.raises(ValueError, match=r"not cut to the yes tokens \[20\]"):
        reader.margins(logits, DOUBLE, rows)
    with pytest.raises(ValueError, match="at least one no token"):
        reader.margins(logits, YesNo((7,), ()), rows)
