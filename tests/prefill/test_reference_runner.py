"""The reference runner against transformers' full-prompt forward pass, with faults that must show."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from covey_engine.prefill import attention
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.config import EngineConfig
from covey_engine.prefill.errors import EngineError, OutOfDeviceMemory
from covey_engine.prefill.loader import open_runner
from covey_engine.prefill.models.head import log_normalizer
from covey_engine.prefill.runner import Runner
from support import small_models
from support.hand_packing import HandPacker
from support.small_models import TOLERANCE, VOCABULARY, Packed, deviation, make_model, oracle_logits, run_all

Shape = Callable[[np.random.Generator], Packed]
SHAPES: dict[str, Shape] = {
    "fan_out": small_models.fan_out,
    "split_document": small_models.split_document,
    "deep_paths": small_models.deep_paths,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama_tied": ("llama", {"tie_word_embeddings": True}),
    "llama_odd": (
        "llama",
        {"hidden_size": 35, "num_attention_heads": 5, "num_key_value_heads": 5, "head_dim": 6},
    ),
    "llama_biases": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "llama_llama3": ("llama", {"rope_parameters": LLAMA3}),
    "llama_linear": (
        "llama",
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}},
    ),
    "qwen3": ("qwen3", {}),
    "qwen3_tied": ("qwen3", {"tie_word_embeddings": True, "num_key_value_heads": 1}),
    "qwen3_biases": ("qwen3", {"attention_bias": True, "rms_norm_eps": 1e-3}),
}


def open_small(folder: Path, **settings: Any) -> Runner:
    runner = open_runner(EngineConfig(str(folder), device="cpu", arena_bytes=1 << 21, **settings))
    runner.set_answer_tokens(tuple(range(VOCABULARY)))
    return runner


@pytest.fixture(scope="module", params=MODELS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Runner, Any]:
    architecture, settings = MODELS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    model = make_model(folder, architecture, **settings)
    return open_small(folder), model


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("llama")
    return folder, make_model(folder, "llama")


@pytest.mark.parametrize("shape", SHAPES)
def test_logits_equal_a_full_forward(pair: tuple[Runner, Any], shape: str) -> None:
    runner, model = pair
    packed = SHAPES[shape](np.random.default_rng(1))
    oracle = oracle_logits(model, [prompt for _, prompts in packed for prompt in prompts])
    assert deviation(run_all(runner, packed), oracle) < TOLERANCE


@pytest.mark.parametrize("seed", range(12))
def test_random_forests(llama: tuple[Path, Any], seed: int) -> None:
    folder, model = llama
    packed = small_models.random_forest(np.random.default_rng(seed))
    oracle = oracle_logits(model, [prompt for _, prompts in packed for prompt in prompts])
    assert deviation(run_all(open_small(folder), packed), oracle) < TOLERANCE


def _shift_context(chunk: Chunk) -> Chunk:
    contexts = chunk.contexts.copy()
    contexts[0, 2] += 1
    return replace(chunk, contexts=contexts)


def _shorten_context(chunk: Chunk) -> Chunk:
    contexts = chunk.contexts.copy()
    contexts[-1, 3] -= 1
    return replace(chunk, contexts=contexts)


def _drop_context(chunk: Chunk) -> Chunk:
    return replace(chunk, contexts=chunk.contexts[1:])


def _misplace_queries(chunk: Chunk) -> Chunk:
    contexts = chunk.contexts.copy()
    contexts[-1, 0] -= 1
    return replace(chunk, contexts=contexts)


def _shift_positions(chunk: Chunk) -> Chunk:
    positions = chunk.positions.copy()
    positions[-1] += 1
    return replace(chunk, positions=positions)


def _swap_tokens(chunk: Chunk) -> Chunk:
    tokens = chunk.tokens.copy()
    tokens[0] = (tokens[0] + 1) % VOCABULARY
    return replace(chunk, tokens=tokens)


def _overlap_segments(chunk: Chunk) -> Chunk:
    """The last segment's keys are kept one address too early, over those of its neighbour."""
    segments, address = chunk.segments.copy(), chunk.kv_address.copy()
    segments[-1, 2] -= 1
    address[segments[-1, 0] :] -= 1
    return replace(chunk, segments=segments, kv_address=address)


FAULTS = (
    _shift_context,
    _shorten_context,
    _drop_context,
    _misplace_queries,
    _shift_positions,
    _swap_tokens,
)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_chunk_shows(pair: tuple[Runner, Any], fault: Callable[[Chunk], Chunk]) -> None:
    runner, model = pair
    packed = small_models.fan_out(np.random.default_rng(2))
    oracle = oracle_logits(model, [prompt for _, prompts in packed for prompt in prompts])
    (first, _), (second, _) = packed
    runner.run(first)
    assert deviation(runner.run(second), oracle) < TOLERANCE
    assert deviation(runner.run(fault(second)), oracle) > 10 * TOLERANCE


def test_a_wrong_address_shows_in_later_chunks(pair: tuple[Runner, Any]) -> None:
    runner, model = pair
    packer, rng = HandPacker(gap=0), np.random.default_rng(3)
    parents = [packer.add(small_models.random_tokens(rng, 9)) for _ in range(2)]
    first, _ = packer.chunk()
    for parent in parents:
        packer.add(small_models.random_tokens(rng, 4), parent, (-1,))
    second, prompts = packer.chunk()
    oracle = oracle_logits(model, prompts)
    runner.run(first)
    assert deviation(runner.run(second), oracle) < TOLERANCE
    runner.run(_overlap_segments(first))
    assert deviation(runner.run(second), oracle) > 10 * TOLERANCE


def test_addresses_must_agree_with_the_segments(llama: tuple[Path, Any]) -> None:
    (chunk, _), *_ = small_models.split_document(np.random.default_rng(4))
    runner = open_small(llama[0])
    with pytest.raises(AssertionError, match="one after another"):
        runner.run(replace(chunk, kv_address=chunk.kv_address + 1))
    with pytest.raises(AssertionError, match="cover every row once"):
        runner.run(replace(chunk, segments=chunk.segments[:0]))


def test_many_suffixes_over_one_anchor(llama: tuple[Path, Any]) -> None:
    rng, packer = np.random.default_rng(13), HandPacker(gap=0)
    anchor = packer.add(small_models.random_tokens(rng, 30))
    packed = [packer.chunk()]
    for _ in range(attention._MANY // 5 + 1):
        packer.add(small_models.random_tokens(rng, 5), anchor, (-1,))
    packed.append(packer.chunk())
    oracle = oracle_logits(llama[1], [prompt for _, prompts in packed for prompt in prompts])
    assert deviation(run_all(open_small(llama[0]), packed), oracle) < TOLERANCE


def test_same_chunk_same_bits(llama: tuple[Path, Any]) -> None:
    packed = small_models.deep_paths(np.random.default_rng(5))
    runner = open_small(llama[0])
    first = run_all(runner, packed)
    assert np.array_equal(first, run_all(runner, packed))
    assert np.array_equal(first, run_all(open_small(llama[0]), packed))


def test_answers_keep_the_order_asked_for(llama: tuple[Path, Any]) -> None:
    (first, _), (second, prompts) = small_models.fan_out(np.random.default_rng(6))
    runner = open_small(llama[0])
    runner.run(first)
    plain = runner.run(second)
    shuffled = np.random.default_rng(7).permutation(len(prompts))
    doubled = np.concatenate([shuffled, shuffled[:2]])
    assert np.array_equal(runner.run(replace(second, answers=second.answers[doubled])), plain[doubled])


def test_the_head_is_cut_to_the_answer_tokens(llama: tuple[Path, Any]) -> None:
    (chunk, _), *_ = small_models.deep_paths(np.random.default_rng(8))
    runner = open_small(llama[0])
    every = runner.run(chunk)
    runner.set_answer_tokens((5, 3, 90))
    np.testing.assert_allclose(runner.run(chunk), every[:, [5, 3, 90]], rtol=1e-5, atol=1e-5)


def test_the_normalizer_is_the_log_sum_exp_of_all_tokens(pair: tuple[Runner, Any]) -> None:
    (chunk, _), *_ = small_models.deep_paths(np.random.default_rng(8))
    runner, _ = pair
    every = runner.run(chunk)
    runner.set_answer_tokens((5, 3), normalizer=True)
    found = runner.run(chunk)
    runner.set_answer_tokens(tuple(range(VOCABULARY)))
    np.testing.assert_allclose(found[:, :2], every[:, [5, 3]], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found[:, 2], np.logaddexp.reduce(every, axis=1), rtol=1e-5)


@pytest.mark.parametrize("block", [(1, 1), (3, 10), (100, 1000)])
def test_the_normalizer_is_the_same_in_any_blocks(block: tuple[int, int]) -> None:
    hidden, head = torch.randn(7, 5), torch.randn(23, 5)
    found = log_normalizer(hidden, head, *block)
    torch.testing.assert_close(found, (hidden @ head.t()).logsumexp(1))


def test_a_chunk_without_answers_only_writes(llama: tuple[Path, Any]) -> None:
    (first, _), (second, prompts) = small_models.fan_out(np.random.default_rng(9))
    runner = open_small(llama[0])
    assert runner.run(first).shape == (0, VOCABULARY)
    assert deviation(runner.run(second), oracle_logits(llama[1], prompts)) < TOLERANCE


def test_bfloat16_stays_close(llama: tuple[Path, Any]) -> None:
    packed = small_models.deep_paths(np.random.default_rng(10))
    runner = open_small(llama[0], dtype="bfloat16")
    assert runner.info.dtype == "bfloat16"
    oracle = oracle_logits(llama[1], [prompt for _, prompts in packed for prompt in prompts])
    error = deviation(run_all(runner, packed), oracle)
    assert TOLERANCE < error < 0.3


def test_tokens_outside_the_vocabulary(llama: tuple[Path, Any]) -> None:
    runner = open_small(llama[0])
    with pytest.raises(EngineError, match="token 97 is outside the model's vocabulary of 97"):
        runner.set_answer_tokens((3, VOCABULARY))
    (chunk, _), *_ = small_models.split_document(np.random.default_rng(11))
    with pytest.raises(EngineError, match="token -1 is outside"):
        runner.run(replace(chunk, tokens=np.full_like(chunk.tokens, -1)))


LACKING = (
    torch.OutOfMemoryError("CUDA out of memory"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory"),
    MemoryError(),
)


@pytest.mark.parametrize("error", LACKING, ids=lambda error: type(error).__name__)
def test_a_pass_without_memory_says_so_and_leaves_no_trace(
    llama: tuple[Path, Any], error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first, _), (second, _) = small_models.fan_out(np.random.default_rng(12))
    runner = open_small(llama[0])
    runner.run(first)
    before = runner.run(second)
    held: list[weakref.ref[torch.Tensor]] = []

    def fail(_: object, queries: torch.Tensor, *rest: object, **options: object) -> None:
        held.append(weakref.ref(queries))
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(attention, "attend", fail)
        with pytest.raises(OutOfDeviceMemory, match=rf"^a chunk of {len(second)} tokens does not fit on cpu"):
            runner.run(second)
    error.__traceback__ = None
    assert held
    assert held[0]() is None
    runner.run(first)
    assert np.array_equal(runner.run(second), before)


def test_other_faults_of_a_pass_are_not_taken_for_a_lack_of_memory(
    llama: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = open_small(llama[0])

    def fail(*_: object, **options: object) -> None:
        raise RuntimeError("sizes do not match")

    monkeypatch.setattr(attention, "attend", fail)
    with pytest.raises(RuntimeError, match="sizes do not match"):
        runner.run(small_models.fan_out(np.random.default_rng(12))[0][0])


class TestNotFinite:
    """A token whose embedding is infinite spoils its own prompts and nothing else."""

    BAD = 13

    @pytest.fixture
    def runner(self, tmp_path: Path) -> Runner:
        model = make_model(tmp_path, "llama")
        with torch.no_grad():
            model.get_input_embeddings().weight[self.BAD] = torch.inf
        model.save_pretrained(tmp_path)
        return open_small(tmp_path)

    def pack(self, rng: np.random.Generator, token: int) -> Packed:
        packer = HandPacker()
        clean = packer.add(rng.integers(20, 90, 12))
        spoilt = packer.add([*rng.integers(20, 90, 3), token, *rng.integers(20, 90, 3)], None, (2, -1))
        packed = [packer.chunk()]
        for parent in (clean, spoilt, clean, spoilt):
            packer.add(rng.integers(20, 90, 5), parent, (-1,))
        packer.add([*rng.integers(20, 90, 4), token], clean, (3, -1))
        packer.add(rng.integers(20, 90, 5), clean, (-1,))
        packed.append(packer.chunk())
        return packed

    def test_only_its_own_answers_are_lost(self, runner: Runner) -> None:
        spoilt = run_all(runner, self.pack(np.random.default_rng(0), self.BAD))
        healthy = run_all(runner, self.pack(np.random.default_rng(0), 14))
        lost = np.array([False, True, False, True, False, True, False, True, False])
        assert np.isnan(spoilt[lost]).all()
        assert np.isfinite(healthy).all()
        assert np.array_equal(spoilt[~lost], healthy[~lost])

    def test_addresses_heal_when_written_again(self, runner: Runner) -> None:
        before = run_all(runner, self.pack(np.random.default_rng(0), 14))
        run_all(runner, self.pack(np.random.default_rng(0), self.BAD))
        assert np.array_equal(run_all(runner, self.pack(np.random.default_rng(0), 14)), before)

    def test_a_later_reader_is_told(self, runner: Runner) -> None:
        rng, packer = np.random.default_rng(1), HandPacker()
        parent = packer.add([self.BAD, *rng.integers(20, 90, 4)])
        runner.run(packer.chunk()[0])
        child = packer.add(rng.integers(20, 90, 4), parent)
        runner.run(packer.chunk()[0])
        packer.add(rng.integers(20, 90, 4), child, (-1,))
        packer.add(rng.integers(20, 90, 4), None, (-1,))
        logits = runner.run(packer.chunk()[0])
        assert np.isnan(logits[0]).all()
        assert np.isfinite(logits[1]).all()
