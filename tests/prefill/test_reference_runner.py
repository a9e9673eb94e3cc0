"""The reference runner against transformers' full-prompt forward pass, with faults that must show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from covey_engine.prefill import attention
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.models.head import log_normalizer
from covey_engine.prefill.runner import Runner
from support import small_models
from support.hand_packing import HandPacker
from support.reference_runners import open_small
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


@pytest.fixture(scope="module", params=MODELS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Runner, Any]:
    architecture, settings = MODELS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    model = make_model(folder, architecture, **settings)
    return open_small(folder), model


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
