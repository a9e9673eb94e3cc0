"""The reference runner where a pass cannot be: tokens outside the vocabulary, no memory, values that are not finite."""

from __future__ import annotations

import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from covey_engine.prefill import attention
from covey_engine.prefill.errors import EngineError, OutOfDeviceMemory
from covey_engine.prefill.runner import Runner
from support import small_models
from support.hand_packing import HandPacker
from support.reference_runners import open_small
from support.small_models import VOCABULARY, Packed, make_model, run_all


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
