"""What quantization, chunking and recording cost the Hopper runner in precision, against oracles of its operands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from covey_engine.prefill.hopper.runner import HopperRunner
from covey_engine.prefill.kernels.precision import Precision
from numpy.typing import NDArray
from support import small_models
from support.fp8_models import Fp8Oracle, recorded, replayed, to_blocks
from support.hand_packing import HandPacker
from support.hopper_kernels import DEVICE
from support.hopper_runners import needs_gpu, open_small
from support.small_models import (
    make_model,
    oracle_logits,
    random_tokens,
    run_all,
)

WIDE: dict[str, Any] = {
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "num_hidden_layers": 4,
    "initializer_range": 0.04,
}


def relative(found: NDArray[np.float32], oracle: NDArray[np.float32]) -> float:
    return float(np.linalg.norm(found - oracle) / np.linalg.norm(oracle))


@pytest.fixture(scope="module", params=["qwen3", "llama"])
def wide(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Any]:
    """A bfloat16 checkpoint, the same in block fp8, and transformers' model of the first."""
    plain = tmp_path_factory.mktemp(request.param)
    model = make_model(plain, request.param, dtype=torch.bfloat16, **WIDE)
    to_blocks(plain, plain / "blocks")
    return plain, plain / "blocks", model


def open_wide(wide: tuple[Path, Path, Any], precision: Precision) -> tuple[Path, HopperRunner]:
    folder = wide[1] if precision is Precision.BLOCK else wide[0]
    runner = open_small(folder, dtype="bfloat16" if precision is Precision.BF16 else "fp8")
    assert runner.info.dtype == precision.title
    return folder, runner


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("precision", Precision)
def test_a_pass_equals_the_oracle_of_its_operands(wide: tuple[Path, Path, Any], precision: Precision) -> None:
    folder, runner = open_wide(wide, precision)
    log: list[torch.Tensor] = []
    runner = runner.with_weights(recorded(runner.weights, log))
    packer = HandPacker()
    rng = np.random.default_rng(8)
    for length in (70, 200, 33, 5, 129):
        packer.add(random_tokens(rng, length), answers=(-1,))
    chunk, prompts = packer.chunk()
    found = runner.run(chunk)
    tolerance = 2e-2 if precision is Precision.BF16 else 5e-2
    oracle = Fp8Oracle(folder, precision, DEVICE).logits(prompts, replayed(log, tolerance)).cpu().numpy()
    error = relative(found, oracle)
    print(f"{runner.info.architecture} {precision.title}: {error:.4f} from the oracle of its operands")
    assert error < 1e-2


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("precision", Precision)
def test_error_of_quantization(wide: tuple[Path, Path, Any], precision: Precision) -> None:
    folder, runner = open_wide(wide, precision)
    packed = small_models.fan_out(np.random.default_rng(6)) + small_models.deep_paths(
        np.random.default_rng(7)
    )
    prompts = [prompt for _, prompts in packed for prompt in prompts]
    found, again = run_all(runner, packed), run_all(runner, packed)
    assert np.array_equal(found, again), "the same chunk gives the same bits"
    oracle = Fp8Oracle(folder, precision, DEVICE).logits(prompts).cpu().numpy()
    exact = oracle_logits(wide[2], prompts)
    errors = relative(found, exact), relative(oracle, exact), relative(found, oracle)
    print(f"{runner.info.architecture} {precision.title}: {errors[0]:.4f} from float32; ", end="")
    print(f"an oracle that quantizes by itself {errors[1]:.4f}, and {errors[2]:.4f} from that oracle")
    assert errors[0] < 1.25 * errors[1] + 2e-2


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("precision", Precision)
def test_chunkings_differ_by_rounding_alone(wide: tuple[Path, Path, Any], precision: Precision) -> None:
    """Suffixes under anchors under a head (copied heads, short segments, merges), and each prompt alone."""
    _, runner = open_wide(wide, precision)
    rng = np.random.default_rng(9)
    packer = HandPacker()
    head = packer.add(random_tokens(rng, 11))
    anchors = [packer.add(random_tokens(rng, length), head) for length in (90, 55)]
    packed = [packer.chunk()]
    for anchor in anchors:
        for _ in range(60):
            packer.add(random_tokens(rng, int(rng.integers(1, 9))), anchor, (-1,))
    packed.append(packer.chunk())
    prompts = [prompt for _, prompts in packed for prompt in prompts]
    alone = []
    for prompt in prompts:
        single = HandPacker()
        single.add(prompt, answers=(-1,))
        alone.append(runner.run(single.chunk()[0]))
    together = run_all(runner, packed)
    error = relative(together, np.concatenate(alone))
    separate = np.concatenate(alone)
    flips = np.mean((together[:, 1] > together[:, 0]) != (separate[:, 1] > separate[:, 0]))
    print(
        f"{runner.info.architecture} {precision.title}: {error:.4f} apart, {flips:.1%} of {len(alone)} flip"
    )
    assert error < (2e-2 if precision is Precision.BF16 else 2e-1)


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("precision", Precision)
def test_recorded_passes_differ_by_rounding_alone(wide: tuple[Path, Path, Any], precision: Precision) -> None:
    """The first pass of a size is computed, the later ones are replays of what it recorded."""
    _, runner = open_wide(wide, precision)
    kinds = (small_models.fan_out, small_models.deep_paths, small_models.random_forest)
    for packed in (kind(np.random.default_rng(11)) for kind in kinds):
        computed = run_all(runner, packed)
        runner.records = True
        first, second = run_all(runner, packed), run_all(runner, packed)
        runner.records = False
        assert np.array_equal(first, second)
        error = relative(first, computed)
        print(f"{runner.info.architecture} {precision.title}: {error:.4f} apart")
        assert error < (2e-2 if precision is Precision.BF16 else 2e-1)
