"""Seconds of work on a device: published peaks give the limits that are known, measured rates the prediction."""

from __future__ import annotations

import pytest
from covey_planner.cost.devices import DATASHEETS, DeviceProfile, datasheet, measure_cpu
from covey_planner.cost.roofline import Pricing, Rates, Roofline
from covey_planner.cost.shape import ModelShape
from covey_planner.cost.work import Work

QWEN3_4B = ModelShape(36, 2560, 32, 8, 128, 9728, linear="fp8", numbers="bfloat16")
CHUNK = 16_384


def limit(shape: ModelShape = QWEN3_4B, device: str = "NVIDIA H200", chunk: int = CHUNK) -> Roofline:
    found = datasheet(device)
    assert found is not None
    return Roofline(shape, found, chunk)


def test_a_token_costs_what_its_matrices_have() -> None:
    layer = 2 * (2560 * (32 + 2 * 8) * 128 + 32 * 128 * 2560 + 3 * 2560 * 9728)
    assert QWEN3_4B.linear_flops == 36 * layer
    assert QWEN3_4B.linear_flops == pytest.approx(7.27e9, rel=1e-3)
    assert QWEN3_4B.kv_bytes == 2 * 36 * 8 * 128 * 2


@pytest.mark.parametrize(("tokens", "documents", "seconds"), [(1.51e6, 5000, 5.7), (1.62e6, 5000, 6.1)])
def test_limits_of_a_filter_on_an_h200(tokens: float, documents: int, seconds: float) -> None:
    each = tokens / documents
    work = Work(fresh=tokens, pairs=documents * each * (each + 1) / 2)
    assert limit().seconds(work) == pytest.approx(seconds, abs=0.1)


def test_each_module_is_bound_by_the_slower_of_bytes_and_operations() -> None:
    shape = ModelShape(1, 8, 2, 1, 4, 16, linear="float32", numbers="float32")
    fast, slow = (DeviceProfile("test", 1.0, 1.0, peak, 1e3) for peak in (1e9, 1.0))
    outs = [(8, 16), (8, 8), (8, 32), (16, 8)]
    moved = sum(4 * (i * o / 10 + i + o) for i, o in outs)
    written = 2 * 4 * 4
    assert Roofline(shape, fast, 10).fresh_token_s == pytest.approx((moved + written) / 1e3)
    flops = sum(2 * i * o for i, o in outs)
    assert Roofline(shape, slow, 10).fresh_token_s == pytest.approx(flops / 1.0 + written / 1e3)
    assert Roofline(shape, slow, 10).pair_s == 4 * 2 * 4
    assert Roofline(shape, slow, 10).answer_s == 2 * 2 * 8


def test_small_chunks_are_bound_by_reading_the_matrices() -> None:
    assert limit(chunk=16).fresh_token_s > 5 * limit().fresh_token_s


def test_attention_is_bound_by_pairs_or_by_reading() -> None:
    roof = limit()
    computing, reading = Work(pairs=1e9, read=1), Work(pairs=1, read=1e9)
    assert roof.seconds(computing) == pytest.approx(1e9 * 4 * 36 * 32 * 128 / 989e12)
    assert roof.seconds(reading) == pytest.approx(1e9 * QWEN3_4B.kv_bytes / 4.8e12)


def test_rates_predict_each_unit_and_whole_chunks() -> None:
    rates = Rates(1e-3, 1e-6, 1e-4, 0.5, 100)
    assert rates.seconds(Work(fresh=250, pairs=1000, read=10, held=1e9)) == pytest.approx(
        0.25 + 0.001 + 0.001 + 3 * 0.5
    )
    assert rates.seconds(Work()) == 0


@pytest.mark.parametrize(
    ("driver", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000"),
        ("NVIDIA-L40S", "L40S"),
        ("NVIDIA L40", None),
        ("cpu", None),
    ],
)
def test_devices_are_known_by_their_drivers_name(driver: str, name: str | None) -> None:
    found = datasheet(driver)
    assert (found and found.name) == name


def test_published_peaks_are_dense() -> None:
    for profile in DATASHEETS:
        assert profile.fp8 / profile.bfloat16 == pytest.approx(2, rel=0.02)
        assert profile.bfloat16 > profile.float32
        assert not profile.measured


def test_this_machine_is_measured() -> None:
    profile = measure_cpu(size=64, repeats=2)
    assert profile.measured
    assert profile.peak("fp8") == profile.peak("bfloat16") == profile.peak("float32") > 1e6
    assert profile.bandwidth > 1e6


def test_a_price_needs_seconds_and_dollars() -> None:
    work = Work(fresh=1000, pairs=10)
    rates = Rates(3.6, 0.0, 0.0, 0.0, 1000)
    priced = Pricing(limit(), rates, dollars_per_hour=2.0)
    assert priced.seconds(work) == 3600
    assert priced.dollars(priced.seconds(work)) == 2.0
    assert priced.limit_seconds(work) == limit().seconds(work)
    assert Pricing(limit()).seconds(work) == limit().seconds(work)
    assert Pricing(limit(), rates).dollars(1.0) is None
    assert Pricing().seconds(work) is Pricing().limit_seconds(work) is None
    assert Pricing(dollars_per_hour=2.0).dollars(None) is None
