"""Rates of a device: what is measured of a runner whose rates are known, how long it takes, when it is kept."""

from __future__ import annotations

import itertools
import json
import math
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import pytest
from covey_engine.prefill.api import EngineInfo, Rates
from covey_engine.prefill.calibration import fit, measure, synthetic_chunks, work
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.config import EngineConfig
from covey_engine.prefill.errors import OutOfDeviceMemory
from covey_engine.prefill.loader import open_runner
from covey_engine.prefill.process.client import EngineClient
from covey_engine.prefill.runner import Computed
from covey_engine.prefill.stored_rates import describe, rates_of
from hypothesis import given
from hypothesis import strategies as st
from support.fake_runner import FakeRunner
from support.fake_worker import OPENER
from support.small_models import make_model

TESTS = Path(__file__).resolve().parents[1]
KNOWN = Rates(3e-4, 4e-8, 2e-7, 5e-3)


class Device:
    """A runner of known rates with a clock of its own; computes nothing. slower: times, after `warm` seconds."""

    def __init__(
        self, rates: Rates = KNOWN, chunk_tokens: int = 1024, *, slower: float = 1.0, warm: float = math.inf
    ) -> None:
        self.arena_tokens = 2 * chunk_tokens
        self.info = EngineInfo("fake", "fake", "fake", "none", 1 << 20, self.arena_tokens, chunk_tokens, 0.0)
        self.now = 0.0
        self.largest = self.launched = 0
        self._rates, self._slower, self._warm = rates, slower, warm

    def set_answer_tokens(self, ids: tuple[int, ...], normalizer: bool = False) -> None:
        assert ids

    def launch(self, chunk: Chunk) -> Computed:
        self.largest, self.launched = max(self.largest, len(chunk)), self.launched + 1
        seconds = sum(np.multiply(astuple(self._rates), work(chunk)))
        seconds *= self._slower if self.now > self._warm else 1.0
        self.now += seconds
        return Computed(np.zeros((len(chunk.answers), 1), np.float32), seconds)

    def clock(self) -> float:
        return self.now


def equal(found: Rates | None, rates: Rates) -> bool:
    assert found is not None
    return astuple(found) == pytest.approx(astuple(rates), rel=1e-6, abs=1e-15)


positive = st.floats(1e-2, 1e2)


@given(positive, positive, positive, positive, st.sampled_from([64, 500, 4096, 16384]))
def test_the_rates_of_a_device_are_found(
    fresh: float, pair: float, read: float, chunk: float, tokens: int
) -> None:
    rates = Rates(fresh * 1e-5, pair * 1e-9, read * 1e-8, chunk * 1e-2)
    chunks = synthetic_chunks(tokens)
    assert equal(fit(chunks, [sum(np.multiply(astuple(rates), work(one))) for one in chunks]), rates)


@pytest.mark.parametrize("free", ["pair_s", "read_token_s", "chunk_s"])
def test_what_costs_nothing_is_found_to_cost_nothing(free: str) -> None:
    device = Device(replace(KNOWN, **{free: 0.0}))
    assert equal(measure(device, clock=device.clock), replace(KNOWN, **{free: 0.0}))


@given(st.lists(st.floats(0.0, 10.0), min_size=5, max_size=5))
def test_no_rate_is_below_zero_whatever_was_measured(seconds: list[float]) -> None:
    assert all(rate >= 0 and math.isfinite(rate) for rate in astuple(fit(synthetic_chunks(512), seconds)))


def test_a_device_too_slow_to_be_measured_in_time_is_not() -> None:
    device = Device(Rates(2e-2, 0.0, 0.0, 0.0))
    assert measure(device, 3.0, device.clock) is None
    assert device.now <= 3.0


@pytest.mark.parametrize("fresh", [1e-6, 1e-4, 1.5e-3, 5e-3])
def test_a_device_of_any_speed_is_measured_in_time(fresh: float) -> None:
    rates = Rates(fresh, fresh / 1e4, fresh / 1e3, fresh * 10)
    device = Device(rates, 16384)
    assert equal(measure(device, 3.0, device.clock), rates)
    assert device.now <= 3.0


def test_a_fast_device_is_measured_with_its_largest_chunks_and_a_slow_one_with_smaller() -> None:
    fast, slow = Device(Rates(7e-6, 6e-10, 3e-8, 5e-3), 16384), Device(Rates(2e-3, 1e-6, 1e-6, 1e-2), 16384)
    for device in (fast, slow):
        measure(device, clock=device.clock)
    assert fast.largest == 16384
    assert 64 <= slow.largest < 1024
    assert fast.launched > 20


def test_the_rates_of_a_device_that_has_become_warm_count() -> None:
    device = Device(Rates(7e-6, 6e-10, 3e-8, 5e-3), 16384, slower=1.25, warm=1.0)
    found = measure(device, 3.0, device.clock)
    assert equal(found, Rates(7e-6 * 1.25, 6e-10 * 1.25, 3e-8 * 1.25, 5e-3 * 1.25))


@pytest.mark.parametrize(
    ("arena", "chunk", "context"), [(100, 1024, 4096), (4096, 63, 4096), (4096, 1024, 80)]
)
def test_too_small_a_device_is_not_measured(arena: int, chunk: int, context: int) -> None:
    assert measure(FakeRunner(arena, chunk, context)) is None


@pytest.mark.parametrize(
    ("arena", "chunk", "context"), [(128, 64, 96), (2000, 700, 1 << 20), (600, 1024, 290)]
)
def test_chunks_keep_what_every_chunk_must(arena: int, chunk: int, context: int) -> None:
    # The runner fails on a key that is read before it is written, and on a wrong position.
    runner = FakeRunner(arena, chunk, context)
    assert measure(runner, clock=itertools.count(0.0, 0.01).__next__) is not None
    assert runner.chunks >= 7


def test_a_small_model_on_the_cpu_is_measured(tmp_path: Path) -> None:
    make_model(tmp_path, "llama")
    runner = open_runner(EngineConfig(str(tmp_path), device="cpu", arena_bytes=1 << 22, threads=1))
    found = measure(runner, clock=itertools.count(0.0, 0.5).__next__)
    assert found is not None
    assert all(rate >= 0 and math.isfinite(rate) for rate in astuple(found))
    assert sum(astuple(found)) > 0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "shop.rates.json"


def config(file: Path | str, **settings: str) -> EngineConfig:
    return EngineConfig("fake", rates_file=str(file), **settings)  # type: ignore[arg-type]


class Unready(Device):
    """A device that lacks memory for the measurement."""

    def launch(self, chunk: Chunk) -> Computed:
        raise OutOfDeviceMemory("2 GiB are needed, 1 GiB is free")


def test_stored_rates_are_used_until_they_are_asked_for_again(file: Path) -> None:
    first, second, third = Device(), Device(replace(KNOWN, pair_s=0.0)), Device(replace(KNOWN, chunk_s=1e-3))
    measured = rates_of(first, config(file))
    assert measured is not None
    assert rates_of(second, config(file)) == measured
    assert second.launched == 0
    again = rates_of(third, config(file, calibrate="always"))
    assert third.launched > 0
    assert rates_of(second, config(file)) == again
    assert rates_of(Device(), config(file, calibrate="never")) is None


def test_rates_of_another_setup_are_measured_and_kept_beside_those(file: Path) -> None:
    small, large, again = Device(), Device(chunk_tokens=2048), Device()
    for device in (small, large, again):
        assert rates_of(device, config(file)) is not None
    assert large.launched > 0
    assert again.launched == 0
    assert len(json.loads(file.read_text("utf-8"))) == 2


def test_without_a_file_rates_are_measured_only_if_always() -> None:
    device = Device()
    assert rates_of(device, config("")) is None
    assert device.launched == 0
    assert rates_of(device, config("", calibrate="always")) is not None


@pytest.mark.parametrize("content", ["", "[]", "{", '{"SETUP": 3}', '{"SETUP": {"pair_s": 1.0}}', "\xff"])
def test_a_damaged_file_is_as_good_as_none(file: Path, content: str) -> None:
    setup = describe(Device(), config(file))
    file.write_text(content.replace('"SETUP"', json.dumps(setup)), "latin-1")
    device = Device()
    found = rates_of(device, config(file))
    assert device.launched > 0
    assert found is not None
    assert json.loads(file.read_text("utf-8"))[setup]["pair_s"] == found.pair_s


def test_a_file_that_cannot_be_written_and_a_device_that_cannot_be_measured_stop_nothing(
    tmp_path: Path, file: Path
) -> None:
    assert rates_of(Device(), config(tmp_path / "gone" / "rates.json")) is not None
    assert rates_of(Unready(), config(file)) is None
    assert not file.exists()


def test_a_setup_is_told_by_device_model_kind_numbers_and_chunks(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    said = set()
    for content in ("{}", '{"a": 1}'):
        (model / "config.json").write_text(content)
        said.add(describe(Device(), EngineConfig(str(model))))
    (model / "weights.safetensors").write_bytes(b"1234")
    said.add(describe(Device(), EngineConfig(str(model))))
    for change in ({"device": "cpu"}, {"model": "m"}, {"dtype": "fp8"}, {"chunk_tokens": 7}):
        device = Device()
        device.info = replace(device.info, **change)
        said.add(describe(device, EngineConfig(str(model))))
    device = Device()
    device.info = replace(device.info, device="cpu")
    said.add(describe(device, EngineConfig(str(model), threads=99)))
    said.add(describe(Unready(), EngineConfig(str(model))))
    assert len(said) == 9


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch, file: Path) -> Iterator[EngineClient]:
    monkeypatch.setenv("PYTHONPATH", str(TESTS), prepend=os.pathsep)
    client = EngineClient.start(EngineConfig("fake", rates_file=str(file), calibrate="always"), OPENER)
    yield client
    client.close()


def test_a_worker_says_its_rates_and_the_next_one_need_not_measure_again(
    client: EngineClient, file: Path
) -> None:
    rates = client.info().rates
    assert rates is not None
    (stored,) = json.loads(file.read_text("utf-8")).values()
    assert Rates(**stored) == rates
    file.unlink()
    pid = client.worker_pid
    os.kill(pid, signal.SIGKILL)
    while client.worker_pid == pid:
        time.sleep(0.01)
    assert client.info().rates == rates
    assert not file.exists()
