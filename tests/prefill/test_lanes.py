"""Chunks cut at any rows: the parts say of each row what the whole did, and threads compute the same logits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from covey_engine.prefill import attention, lanes
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.config import EngineConfig
from covey_engine.prefill.errors import OutOfDeviceMemory
from covey_engine.prefill.lanes import Lanes, chunk_tokens, cut_chunk, even_bounds, lane_count, needs
from covey_engine.prefill.loader import open_runner
from covey_engine.prefill.reference import ReferenceRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from support import small_models
from support.hand_packing import HandPacker
from support.small_models import TOLERANCE, VOCABULARY, Packed, deviation, make_model, oracle_logits, run_all

Shape = Callable[[np.random.Generator], Packed]
SHAPES: tuple[Shape, ...] = (
    small_models.fan_out,
    small_models.split_document,
    small_models.deep_paths,
    small_models.random_forest,
)


def seen(chunk: Chunk) -> list[tuple[int, int, int, list[int]]]:
    """Of every row: token, position, address and the addresses that it attends to."""
    rows: list[list[int]] = [[] for _ in range(len(chunk))]
    for first, length, address in chunk.segments.tolist():
        for row in range(length):
            rows[first + row] += range(address, address + row + 1)
    for first, count, address, keys in chunk.contexts.tolist():
        for row in range(first, first + count):
            rows[row] += range(address, address + keys)
    columns = (chunk.tokens.tolist(), chunk.positions.tolist(), chunk.kv_address.tolist())
    return list(zip(*columns, map(sorted, rows), strict=True))


def chunks(seed: int) -> list[Chunk]:
    shape = SHAPES[seed % len(SHAPES)]
    return [chunk for chunk, _ in shape(np.random.default_rng(seed)) if len(chunk) > 1]


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 1000), count=st.integers(1, 5))
def test_parts_say_of_every_row_what_the_chunk_does(seed: int, count: int) -> None:
    for chunk in chunks(seed):
        bounds = sorted(Random(seed).sample(range(1, len(chunk)), min(count, len(chunk) - 1)))
        parts = cut_chunk(chunk, bounds)
        assert [len(part) for part in parts] == np.diff([0, *bounds, len(chunk)]).tolist()
        assert [row for part in parts for row in seen(part)] == seen(chunk)
        starts = np.repeat([0, *bounds], [len(part.answers) for part in parts])
        answers = np.concatenate([part.answers for part in parts]) + starts
        assert sorted(answers.tolist()) == sorted(chunk.answers.tolist())


def test_parts_cost_alike() -> None:
    packer = HandPacker()
    packer.add(range(400), answers=[399])
    chunk, _ = packer.chunk()
    assert even_bounds(chunk, 2, 1e9) == (200,)
    (bound,) = even_bounds(chunk, 2, 0)
    assert abs(bound - 400 / 2**0.5) < 2, "later rows attend to more keys"
    assert len(even_bounds(chunk, 4, 10)) == 3


def test_lanes_share_the_threads_evenly_and_have_rows_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "LANE_ROWS", 100)
    assert [lane_count(rows, 16) for rows in (1, 199, 200, 799, 800, 1_600, 9_999)] == [1, 1, 2, 4, 8, 16, 16]
    assert [lane_count(rows, 6) for rows in (300, 500, 600)] == [3, 3, 6]
    assert [lane_count(rows, 7) for rows in (699, 700)] == [1, 7]


def test_chunks_grow_with_the_threads_but_not_for_long_or_above_what_is_used() -> None:
    small, large = 2e8, 2e10
    assert [chunk_tokens(threads, small) for threads in (1, 2, 4, 8, 64)] == [512, 1_024, 2_048, 4_096, 4_096]
    assert [chunk_tokens(threads, large) for threads in (1, 8, 128)] == [512, 512, 960]


@pytest.fixture(scope="module", params=["llama", "qwen3"])
def model(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, torch.nn.Module]:
    folder = tmp_path_factory.mktemp("lanes")
    return folder, make_model(folder, request.param)


def open_lanes(folder: Path, threads: int = 3) -> ReferenceRunner:
    runner = open_runner(EngineConfig(str(folder), device="cpu", arena_bytes=1 << 21, threads=threads))
    assert isinstance(runner, ReferenceRunner)
    runner.set_answer_tokens(tuple(range(VOCABULARY)))
    return runner


@pytest.fixture(autouse=True)
def short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "LANE_ROWS", 2)


@pytest.mark.parametrize("shape", SHAPES)
def test_logits_equal_a_full_forward(model: tuple[Path, torch.nn.Module], shape: Shape) -> None:
    folder, plain = model
    packed = shape(np.random.default_rng(2))
    oracle = oracle_logits(plain, [prompt for _, prompts in packed for prompt in prompts])
    assert deviation(run_all(open_lanes(folder), packed), oracle) < TOLERANCE


def test_answers_stand_as_the_chunk_has_them(model: tuple[Path, torch.nn.Module]) -> None:
    (chunk, prompts), *_ = small_models.deep_paths(np.random.default_rng(3))
    order = np.random.default_rng(4).permutation(len(prompts))
    oracle = oracle_logits(model[1], prompts)[order]
    logits = open_lanes(model[0]).run(replace(chunk, answers=chunk.answers[order]))
    assert deviation(logits, oracle) < TOLERANCE


def test_a_part_without_memory_fails_the_chunk_and_no_other(
    model: tuple[Path, torch.nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    (chunk, _), *_ = small_models.deep_paths(np.random.default_rng(5))
    runner = open_lanes(model[0])
    before = runner.run(chunk)
    failed: list[int] = []

    def fail(*_: object, **options: object) -> None:
        failed.append(1)
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(attention, "attend", fail)
        with pytest.raises(OutOfDeviceMemory, match=rf"^a chunk of {len(chunk)} tokens does not fit on cpu"):
            runner.run(chunk)
    assert failed
    assert np.array_equal(runner.run(chunk), before)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 1000), count=st.integers(1, 5))
def test_a_part_needs_the_parts_whose_addresses_its_rows_see(seed: int, count: int) -> None:
    for chunk in chunks(seed):
        bounds = sorted(Random(seed).sample(range(1, len(chunk)), min(count, len(chunk) - 1)))
        parts = cut_chunk(chunk, bounds)
        expected = []
        for number, part in enumerate(parts):
            read = {address for *_, addresses in seen(part) for address in addresses}
            others = (other for other, each in enumerate(parts) if read & set(each.kv_address.tolist()))
            expected.append(tuple(other for other in others if other != number))
        assert needs(parts) == tuple(expected)


def test_a_part_waits_for_those_it_needs_and_no_other() -> None:
    side_by_side = Lanes(3)
    first, order = threading.Event(), []

    def work(part: str, step: Callable[[], object]) -> str:
        if part == "slow":
            assert first.wait(60), "who needs nobody waited"
        for _ in range(3):
            order.append(part)
            step()
        if part == "free":
            first.set()
        return part

    assert side_by_side.run(work, ("free", "slow", "needing"), ((), (), (1,))) == ["free", "slow", "needing"]
    assert order.index("slow") > 2
    for step in range(1, 3):
        slow, needing = (
            [n for n, part in enumerate(order) if part == which] for which in ("slow", "needing")
        )
        assert needing[step] > slow[step - 1], "it went on before the other's keys were there"


@pytest.mark.parametrize("rows", [2, 12, 10_000])
def test_lanes_of_several_threads_compute_the_same(
    model: tuple[Path, torch.nn.Module], monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    folder, plain = model
    monkeypatch.setattr(lanes, "LANE_ROWS", rows)
    before = torch.get_num_threads()
    runner = open_lanes(folder, 4)
    packed = small_models.fan_out(np.random.default_rng(6))
    oracle = oracle_logits(plain, [prompt for _, prompts in packed for prompt in prompts])
    assert deviation(run_all(runner, packed), oracle) < TOLERANCE
    assert torch.get_num_threads() == 4, "a lane changed the threads of others"
    torch.set_num_threads(before)


def test_one_that_fails_releases_those_that_wait() -> None:
    side_by_side = Lanes(2)

    def work(part: int, step: Callable[[], object]) -> int:
        if part:
            raise ValueError("part 1")
        step()
        raise AssertionError("went on without what it needs")

    with pytest.raises(ValueError, match="part 1"):
        side_by_side.run(work, (0, 1), ((1,), ()))
    assert side_by_side.run(lambda part, step: (step(), part)[1], (5, 6), ((1,), (0,))) == [5, 6]
