"""The Hopper runner's whole pass, against transformers and against a float32 oracle of its fp8 operands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from covey_engine.prefill.calibration import measure
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.config import EngineConfig
from covey_engine.prefill.errors import EngineError, ModelError, OutOfDeviceMemory
from covey_engine.prefill.hopper.device import out_of_memory
from covey_engine.prefill.hopper.plan import Keys, TailCall
from covey_engine.prefill.hopper.runner import HopperRunner, open_runner
from support import hopper_kernels as kernels
from support import small_models
from support.hand_packing import HandPacker
from support.hopper_kernels import GPU
from support.hopper_runners import needs_gpu, open_small
from support.replayed_plans import in_scratch, pack_eagerly, planned_chunk
from support.small_models import (
    VOCABULARY,
    Packed,
    deviation,
    make_model,
    oracle_logits,
    random_tokens,
    run_all,
)

BF16_TOLERANCE = 0.08
"""bfloat16 has 8 bits: deviation of a logit as a part of the spread of the oracle's logits."""

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "qwen3": ("qwen3", {"tie_word_embeddings": True}),
}


def tiny(rng: np.random.Generator) -> Packed:
    """Two chunks of a few tokens, for interpreted kernels: a merged level, an absorbed one, answers."""
    packer = HandPacker(gap=2)
    head = packer.add(random_tokens(rng, 3))
    near = packer.add(random_tokens(rng, 4), head, after=True)
    far = packer.add(random_tokens(rng, 3), head, (-1, 0))
    packed = [packer.chunk()]
    for length in (2, 1):
        packer.add(random_tokens(rng, length), near, (-1,))
    packer.add(random_tokens(rng, 2), far, (-1,))
    return [*packed, packer.chunk()]


SHAPES: dict[str, Callable[[np.random.Generator], Packed]] = {"tiny": tiny}
if GPU:
    MODELS["qwen3, small chunks recorded"] = MODELS["qwen3"]
    SHAPES |= {
        "fan_out": small_models.fan_out,
        "split_document": small_models.split_document,
        "deep_paths": small_models.deep_paths,
        "random_forest": small_models.random_forest,
    }


@pytest.fixture(scope="module", params=MODELS)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[HopperRunner, Any]:
    architecture, settings = MODELS[request.param]
    folder = tmp_path_factory.mktemp(architecture)
    model = make_model(
        folder, architecture, initializer_range=0.08, num_hidden_layers=3 if GPU else 2, **settings
    )
    runner = open_small(folder, dtype="bfloat16")
    runner.records = "recorded" in request.param
    return runner, model


@pytest.mark.parametrize("shape", SHAPES)
def test_logits_equal_a_full_forward(pair: tuple[HopperRunner, Any], shape: str) -> None:
    runner, model = pair
    packed = SHAPES[shape](np.random.default_rng(1))
    oracle = oracle_logits(model, [prompt for _, prompts in packed for prompt in prompts])
    found = deviation(run_all(runner, packed), oracle)
    print(f"{runner.info.architecture} {shape}: deviation {found:.4f}")
    assert found < BF16_TOLERANCE


def test_small_chunks_padded_to_a_size_equal_a_full_forward(pair: tuple[HopperRunner, Any]) -> None:
    runner, model = pair
    packed = tiny(np.random.default_rng(10))
    recording, runner.records = runner.records, True
    found = run_all(runner, packed)
    runner.records = recording
    oracle = oracle_logits(model, [prompt for _, prompts in packed for prompt in prompts])
    assert deviation(found, oracle) < BF16_TOLERANCE


def asked_twice(rng: np.random.Generator) -> Packed:
    """Under a head, documents with two questions each, then two more on each."""
    documents, length, question = (18, 36, 5) if GPU else (2, 6, 2)
    packer = HandPacker(gap=2)
    head = packer.add(random_tokens(rng, 5))
    packed = [packer.chunk()]
    kept = []
    for _ in range(documents):
        kept.append(packer.add(random_tokens(rng, length), head))
        for extra in range(2):
            packer.add(random_tokens(rng, question + extra), kept[-1], (-1,))
    packed.append(packer.chunk())
    for document in kept:
        for extra in range(2):
            packer.add(random_tokens(rng, question + extra), document, (-1,))
    return [*packed, packer.chunk()]


def test_questions_that_read_their_documents_in_one_call(
    pair: tuple[HopperRunner, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    runner, model = pair
    packed = asked_twice(np.random.default_rng(6))
    if not GPU:
        pack_eagerly(monkeypatch)
    for (chunk, _), keys in zip(packed[1:], (Keys.PACKED, Keys.ARENA), strict=True):
        calls = planned_chunk(chunk).every.calls
        assert [call.keys for call in calls if isinstance(call, TailCall)] == [keys]
    oracle = oracle_logits(model, [prompt for _, prompts in packed for prompt in prompts])
    assert deviation(run_all(runner, packed), oracle) < BF16_TOLERANCE


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("fault", ["key address", "position", "context"])
def test_a_fault_shows(pair: tuple[HopperRunner, Any], fault: str) -> None:
    runner, model = pair
    packed = tiny(np.random.default_rng(2))
    oracle = oracle_logits(model, packed[1][1])
    runner.run(packed[0][0])
    chunk = packed[1][0]
    match fault:
        case "key address":
            wrong = replace(chunk, contexts=chunk.contexts + np.array([0, 0, 1, 0]))
        case "position":
            wrong = replace(chunk, positions=chunk.positions + np.arange(len(chunk), dtype=np.int32) % 5)
        case _:
            wrong = replace(chunk, contexts=chunk.contexts[1:])
    assert deviation(runner.run(wrong), oracle) > 2 * BF16_TOLERANCE


@pytest.mark.gpu
@needs_gpu
def test_answers_come_in_the_order_asked(pair: tuple[HopperRunner, Any]) -> None:
    runner, _ = pair
    chunk = tiny(np.random.default_rng(3))[0][0]
    straight = runner.run(chunk)
    assert np.array_equal(runner.run(replace(chunk, answers=chunk.answers[::-1])), straight[::-1])


def test_the_normalizer_is_the_log_sum_exp_of_all_tokens(pair: tuple[HopperRunner, Any]) -> None:
    runner, _ = pair
    chunk = tiny(np.random.default_rng(3))[1][0]
    every = runner.run(chunk)
    runner.set_answer_tokens((5, 3), normalizer=True)
    found = runner.run(chunk)
    runner.set_answer_tokens(tuple(range(VOCABULARY)))
    np.testing.assert_allclose(found[:, :2], every[:, [5, 3]], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found[:, 2], np.logaddexp.reduce(every, axis=1), rtol=1e-4)


@pytest.mark.gpu
@needs_gpu
def test_two_chunks_in_flight(pair: tuple[HopperRunner, Any]) -> None:
    runner, _ = pair
    first, second = (chunk for chunk, _ in tiny(np.random.default_rng(4)))
    expected = [runner.run(first), runner.run(second), runner.run(first)]
    pending = [runner.launch(first), runner.launch(second), runner.launch(first)]
    for found, want in zip(pending, expected, strict=True):
        assert np.array_equal(found.result(), want)
        assert found.ready()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, under Triton's interpreter
def test_a_spoiled_row_gets_its_own_error_and_no_other(
    pair: tuple[HopperRunner, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    runner, _ = pair
    packer = HandPacker()
    rng = np.random.default_rng(5)
    ids = rng.permutation(np.arange(1, VOCABULARY))
    clean, ill = packer.add(ids[:4], answers=(-1,)), packer.add([*ids[4:6], 0, *ids[6:8]], answers=(1, -1))
    packed = [packer.chunk()[0]]
    packer.add(ids[8:10], clean, (-1,))
    packer.add(ids[10:12], ill, (-1,))
    packed.append(packer.chunk()[0])
    expected = [runner.run(chunk) for chunk in packed]
    embedding = runner.weights.embedding
    kept = embedding[0].clone()
    embedding[0, 3] = float("inf")
    found = [runner.run(chunk) for chunk in packed]
    embedding[0] = kept
    for logits, want, good in zip(found, expected, ([True, True, False], [True, False]), strict=True):
        assert np.isnan(logits[np.logical_not(good)]).all()
        assert np.array_equal(logits[good], want[good])
    again = [runner.run(chunk) for chunk in packed]
    assert all(np.array_equal(a, b) for a, b in zip(again, expected, strict=True)), (
        "flags outlived their rows"
    )


def below_a_head(rng: np.random.Generator) -> list[Chunk]:
    """A head, then documents with questions behind them, all in scratch; the second one has the only token 0."""
    packer = HandPacker()
    head = packer.add(rng.integers(1, VOCABULARY, 3))
    chunks = [packer.chunk()[0]]
    for number in range(3):
        document = rng.integers(1, VOCABULARY, 4)
        document[1] *= number != 1
        packer.add(rng.integers(1, VOCABULARY, 2), packer.add(document, head), (-1,))
    chunks.append(packer.chunk()[0])
    return list(in_scratch(chunks, rng, 1.0))[::-1]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, under Triton's interpreter
def test_rows_that_skip_the_arena_answer_the_same_bits_and_spoil_no_other(
    pair: tuple[HopperRunner, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    runner, _ = pair
    pack_eagerly(monkeypatch)
    head, chunk = below_a_head(np.random.default_rng(7))
    assert not planned_chunk(chunk).placement.stored.any()
    runner.run(head)
    embedding = runner.weights.embedding
    kept = embedding[0].clone()
    embedding[0, 3] = float("inf")
    ill = runner.run(chunk)
    embedding[0] = kept
    well, by_the_arena = runner.run(chunk), runner.run(replace(chunk, scratch=0))
    assert np.array_equal(well, by_the_arena)
    assert np.array_equal(ill[[0, 2]], well[[0, 2]])
    assert np.isnan(ill[1]).all()


@pytest.mark.gpu
@needs_gpu
def test_warming_leaves_no_trace(pair: tuple[HopperRunner, Any]) -> None:
    runner, _ = pair
    chunk = tiny(np.random.default_rng(6))[0][0]
    before = runner.run(chunk)
    runner.warm()
    runner.set_answer_tokens(tuple(range(VOCABULARY)))
    assert np.array_equal(runner.run(chunk), before)


@pytest.mark.gpu
@needs_gpu
def test_its_rates_can_be_measured(pair: tuple[HopperRunner, Any]) -> None:
    runner, _ = pair
    rates = measure(runner)
    assert rates is not None
    # So small a model waits for its launches alone.
    assert rates.chunk_s > 0
    assert min(rates.fresh_token_s, rates.pair_s, rates.read_token_s) >= 0
    runner.set_answer_tokens(tuple(range(VOCABULARY)))


def test_tokens_outside_the_vocabulary_are_refused(pair: tuple[HopperRunner, Any]) -> None:
    chunk = tiny(np.random.default_rng(0))[0][0]
    with pytest.raises(EngineError, match="token 97 is outside the model's vocabulary of 97"):
        pair[0].run(replace(chunk, tokens=np.full_like(chunk.tokens, VOCABULARY)))


def test_settings_that_cannot_be(tmp_path: Path) -> None:
    make_model(tmp_path, "llama", mlp_bias=True)
    with pytest.raises(ModelError, match="not 'float32'"):
        open_small(tmp_path, dtype="float32")
    with pytest.raises(ModelError, match="bias"):
        open_small(tmp_path, dtype="fp8")
    config = EngineConfig(str(tmp_path), arena_bytes=1000, chunk_tokens=64, dtype="bfloat16")
    with pytest.raises(OutOfDeviceMemory, match=r"at least .* GB for one chunk of 64 tokens"):
        open_runner(config, kernels.backend())


def test_a_full_device_is_described_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (int(0.3e9), int(150e9)))
    said = (
        "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 139.81 GiB of which …"
    )
    error = out_of_memory("for a chunk of 7 tokens", torch.cuda.OutOfMemoryError(said))
    assert str(error) == (
        "the GPU has too little memory for a chunk of 7 tokens: 2.50 GiB more is needed, "
        "and 0.3 GB of 150.0 GB is free"
    )
    assert ": 0.3 GB of 150.0 GB is free" in str(out_of_memory("to start", torch.cuda.OutOfMemoryError()))
