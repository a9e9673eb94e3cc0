"""Products by numpy's library: equal to torch's, rows that are not finite harm no others; where they are chosen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from covey_engine.prefill.config import EngineConfig
from covey_engine.prefill.loader import open_runner
from covey_engine.prefill.models import blocks, products
from covey_engine.prefill.models.blocks import Linear
from support import small_models
from support.small_models import TOLERANCE, VOCABULARY, deviation, make_model, oracle_logits, run_all


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    products._suits_numpy.cache_clear()
    yield
    products._suits_numpy.cache_clear()
    torch.set_num_threads(before)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of every product by numpy."""
    rows: list[int] = []

    def multiply(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        rows.append(len(x))
        return products.multiply(x, weight)

    monkeypatch.setattr(blocks, "multiply", multiply)
    return rows


@pytest.mark.parametrize("bias", [None, torch.linspace(-1, 1, 96)])
def test_a_projection_is_that_of_torch(bias: torch.Tensor | None, calls: list[int]) -> None:
    torch.manual_seed(0)
    ours = Linear(torch.randn(48, 96).t(), bias, by_numpy=True)
    theirs, x = replace(ours, by_numpy=False), torch.randn(7, 48)
    with torch.inference_mode():
        for start, stop in ((0, None), (32, None), (0, 64)):
            torch.testing.assert_close(ours.rows(start, stop)(x), theirs.rows(start, stop)(x))
    assert calls == [7, 7, 7]
    torch.set_num_threads(2)
    ours(x)
    assert len(calls) == 3, "with threads of its own, numpy's library would contend with torch's"


def test_rows_that_are_not_finite_leave_others_alone() -> None:
    torch.manual_seed(1)
    x, weight = torch.randn(40, 48), torch.randn(48, 96).t()
    expected = products.multiply(x, weight)
    x[3], x[17, 5], x[29, 0] = torch.nan, torch.inf, 3e38
    found = products.multiply(x, weight)
    kept = [row for row in range(40) if row not in (3, 17, 29)]
    torch.testing.assert_close(found[kept], expected[kept])
    assert not torch.isfinite(found[[3, 17]]).any()


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_a_model_multiplied_by_numpy_says_what_transformers_says(
    kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: list[int]
) -> None:
    monkeypatch.setattr(products, "_suits_numpy", lambda: True)
    model = make_model(tmp_path, kind)
    runner = open_runner(EngineConfig(str(tmp_path), device="cpu", arena_bytes=1 << 21, threads=1))
    runner.set_answer_tokens(tuple(range(VOCABULARY)))
    packed = small_models.deep_paths(np.random.default_rng(0))
    oracle = oracle_logits(model, [prompt for _, prompts in packed for prompt in prompts])
    assert deviation(run_all(runner, packed), oracle) < TOLERANCE
    assert calls, "no product was numpy's"


@pytest.mark.parametrize(
    ("vendor", "threads", "mkl", "library", "chosen"),
    [
        ("AuthenticAMD", "1", True, "scipy-openblas", True),
        ("GenuineIntel", "1", True, "scipy-openblas", False),
        ("AuthenticAMD", "2", True, "scipy-openblas", False),
        ("AuthenticAMD", None, True, "scipy-openblas", False),
        ("AuthenticAMD", "1", False, "scipy-openblas", False),
        ("AuthenticAMD", "1", True, "accelerate", False),
    ],
)
def test_where_numpy_is_chosen(
    vendor: str,
    threads: str | None,
    mkl: bool,
    library: str,
    chosen: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    processors = tmp_path / "cpuinfo"
    processors.write_text(f"processor\t: 0\nvendor_id\t: {vendor}\n")
    monkeypatch.setattr(products, "_PROCESSORS", processors)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: mkl)
    monkeypatch.setattr(np, "show_config", lambda mode: {"Build Dependencies": {"blas": {"name": library}}})
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    if threads is not None:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", threads)
    assert products.numpy_is_faster(torch.empty(96, 48)) is chosen
    assert not products.numpy_is_faster(torch.empty(48, 96)), "more inputs than outputs"
    assert not products.numpy_is_faster(torch.empty(48, 48))
    assert not products.numpy_is_faster(torch.empty(96, 48, dtype=torch.bfloat16))
