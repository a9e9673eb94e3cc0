"""Padded sizes, and the chunks that warm a runner up."""

from __future__ import annotations

import pytest

pytest.importorskip("triton", reason="Triton is not installed: the Hopper kernels cannot run here")

from covey_engine.prefill.hopper.plan import Keys, plan_chunk
from covey_engine.prefill.hopper.sizes import STEP, TILE, chunk_rows, first_chunks, padded_rows, padded_sizes


@pytest.mark.parametrize(
    ("rows", "padded"), [(1, 64), (64, 64), (65, 128), (2048, 2048), (2049, 2304), (16384, 16384)]
)
def test_padded_rows(rows: int, padded: int) -> None:
    assert padded_rows(rows) == padded


def test_every_row_count_has_its_size_among_the_compiled_ones() -> None:
    for most in (1, 100, 2048, 5000):
        sizes = padded_sizes(most)
        assert {padded_rows(rows) for rows in range(1, most + 1)} == set(sizes)
        assert sizes == sorted(sizes)
    assert padded_sizes(16384)[-2:] == [16384 - STEP, 16384]


@pytest.mark.parametrize("multiprocessors", [132, 114, 78])
def test_full_chunks_fill_the_last_round_of_every_product(multiprocessors: int) -> None:
    rows = chunk_rows(multiprocessors)
    for columns in (2560, 4096, 6144, 19456):
        assert rows % TILE == 0
        assert (rows // TILE) * (columns // TILE) % multiprocessors == 0


@pytest.mark.parametrize("most", [16384, 1024])
def test_warm_chunks_bring_every_kind_of_call(most: int) -> None:
    plans = [plan_chunk(chunk, 2 * most, 4) for chunk in first_chunks(most)]
    assert {call.keys for plan in plans for call in plan.every.calls} == set(Keys)
    assert [len(plan.every.calls) for plan in plans] == [1, 2, 2, 1]
    assert (plans[-1].placement.placed >= 0).all(), "rows are written to packed places"
    assert plans[-1].placement.copied.size, "rows are copied"


def test_warm_chunks_fit_a_small_runner() -> None:
    for most in (6, 64, 264, 265):
        assert all(0 < len(chunk) <= most and chunk.kv_address.max() <= most for chunk in first_chunks(most))
