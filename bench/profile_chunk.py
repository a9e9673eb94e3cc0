"""Steady-state chunks go through the Hopper runner; time per kernel kind comes out, beside its bound.

    python bench/profile_chunk.py MODEL_FOLDER [--dtype auto|fp8|bfloat16] [--chunk 16384] [--json FILE]

First a sustained run (chunk after chunk for two seconds, energy from the driver's counter), then one profiled
chunk. Bounds: linear layers at the rates that the power limit allows, attention at the datasheet's,
everything else at the measured copy rate.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import time
from collections import defaultdict
from pathlib import Path

import torch
from chunks import anchor_chunk, filter_chunk, join_chunk
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.config import EngineConfig
from covey_engine.prefill.hopper.runner import HopperRunner, open_runner
from covey_engine.prefill.models.shape import ModelShape
from measure import copy_rate, energy
from torch.profiler import ProfilerActivity, profile

FP8_FLOPS = 1979e12
BF16_FLOPS = 989e12
SUSTAINED_US = {"fp8 (blocks)": 6.27, "fp8 (rows)": 5.79}
"""Microseconds a token in the linear layers of a 4B Qwen3 at the power limit of an H200."""

KINDS = {
    "attention": ("flash", "_suffix_attention", "_tail_attention"),
    "linear": ("gemm", "cutlass", "nvjet", "cublas", "_scaled_mm"),
    "norm": ("_add_rms_norm",),
    "rotary": ("_rotate_and_write",),
    "gate": ("_silu_mul",),
    "merge": ("_merge",),
    "heads": ("_gather_rows",),
    "copies": ("Memcpy", "Memset"),
}


def kind_of(name: str) -> str:
    lowered = name.lower()
    return next((k for k, marks in KINDS.items() if any(m.lower() in lowered for m in marks)), "other")


def sustained(runner: HopperRunner, chunk: Chunk, seconds: float) -> dict[str, float]:
    """Chunk after chunk, two in flight; what a token costs in time, energy and host time."""
    runner.run(chunk)
    host, count, pending = 0.0, 0, []
    began, joules = time.perf_counter(), energy()
    while time.perf_counter() - began < seconds:
        entered = time.perf_counter()
        pending.append(runner.launch(chunk))
        host += time.perf_counter() - entered
        count += 1
        if len(pending) > 1:
            pending.pop(0).result()
    pending[-1].result()
    wall, used = time.perf_counter() - began, energy() - joules
    tokens = count * len(chunk)
    return {
        "tokens": len(chunk),
        "us_per_token": wall / tokens * 1e6,
        "mj_per_token": used / tokens * 1e3,
        "launch_ms": host / count * 1e3,
    }


def kernels(runner: HopperRunner, chunk: Chunk) -> tuple[dict[str, float], dict[str, float]]:
    """Microseconds of each kind, and of each kernel, in one chunk; and the busy part of the pass."""
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as record:
        for _ in range(3):
            runner.run(chunk)
    kinds: dict[str, float] = defaultdict(float)
    names: dict[str, float] = defaultdict(float)
    for event in record.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            spent = event.device_time / 3
            kinds[kind_of(event.name)] += spent
            names[event.name[:90]] += spent
    return dict(kinds), dict(names)


def bounds(shape: ModelShape, chunk: Chunk, dtype: str, rate: float) -> dict[str, float]:
    """Microseconds at best: kinds as in KINDS."""
    rows, layers = len(chunk), shape.layers
    qkv, q, i = shape.query_width + 2 * shape.kv_width, shape.query_width, shape.intermediate
    weights = shape.hidden * (qkv + q + 3 * i)
    act = 2 if dtype == "bfloat16" else 1
    peak = BF16_FLOPS if dtype == "bfloat16" else FP8_FLOPS
    scale = weights * layers / 3.633e9
    linear = (
        rows * SUSTAINED_US[dtype] * scale if dtype in SUSTAINED_US else 2e6 * weights * layers * rows / peak
    )
    move = {
        "norm": 2 * shape.hidden * (6 + act),
        "rotary": 4 * qkv,
        "gate": i * (4 + act),
        "merge": q * (2 + act),
    }
    attention = 4e6 * q * chunk.attention_pairs * layers / BF16_FLOPS
    return {"linear": linear, "attention": attention} | {
        kind: bytes_ * layers * rows / rate * 1e6 for kind, bytes_ in move.items()
    }


def workloads(runner: HopperRunner, budget: int, vocabulary: int) -> dict[str, Chunk]:
    """The chunks to profile; anchors of the joins are computed first, so that their KV is real."""
    for index in range(2):
        runner.run(anchor_chunk(budget, vocabulary, 4000, budget + index * 4000))
    return {
        "filter": filter_chunk(budget, vocabulary),
        "filter, shared head": filter_chunk(budget, vocabulary, head=20),
        "join 4000 x 600": join_chunk(budget, vocabulary, 4000, 5.4, 600 * 6),
        "join 230 x 150": join_chunk(budget, vocabulary, 230, 15, 150),
        "half a chunk": filter_chunk(budget // 2, vocabulary),
        "small": filter_chunk(2048, vocabulary),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="time per kernel kind of one chunk on the Hopper runner")
    parser.add_argument("model")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--chunk", type=int, default=16384)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--host", type=Path, help="also profile the host's launches, into this file")
    wished = parser.parse_args()
    rate = copy_rate()
    began = time.perf_counter()
    runner = open_runner(EngineConfig(wished.model, dtype=wished.dtype, chunk_tokens=wished.chunk))
    info = runner.info
    runner.set_answer_tokens((9454, 2753, 7414, 902))
    print(f"copy {rate / 1e12:.2f} TB/s; {info}; opened in {time.perf_counter() - began:.1f} s")
    results = {}
    for name, chunk in workloads(runner, wished.chunk, runner.shape.vocabulary).items():
        if wished.only and wished.only not in name:
            continue
        began = time.perf_counter()
        runner.run(chunk)
        first = time.perf_counter() - began
        figures = sustained(runner, chunk, wished.seconds)
        kinds, names = kernels(runner, chunk)
        best = bounds(runner.shape, chunk, info.dtype, rate)
        results[name] = {"figures": figures, "kinds": kinds, "bounds": best, "kernels": names}
        report(name, chunk, figures, kinds, best, first)
        if wished.host:
            host_profile(runner, chunk, wished.host)
    if wished.json:
        wished.json.write_text(json.dumps(results, indent=1))


def host_profile(runner: HopperRunner, chunk: Chunk, file: Path) -> None:
    """Where the host spends its time while it launches twenty chunks."""
    record = cProfile.Profile()
    record.enable()
    pending = [runner.launch(chunk) for _ in range(20)]
    record.disable()
    for each in pending:
        each.result()
    with file.open("w") as out:
        pstats.Stats(record, stream=out).sort_stats("tottime").print_stats(45)


def report(
    name: str,
    chunk: Chunk,
    figures: dict[str, float],
    kinds: dict[str, float],
    best: dict[str, float],
    first: float,
) -> None:
    """Print one workload's table."""
    rows, busy = len(chunk), sum(kinds.values())
    print(
        f"\n{name}: {rows} tokens, {len(chunk.answers)} answers; first run {first:.2f} s; sustained "
        f"{figures['us_per_token']:.3f} us/token, {figures['mj_per_token']:.2f} mJ/token, "
        f"launch {figures['launch_ms']:.1f} ms; kernels {busy / rows:.3f} us/token"
    )
    for kind, spent in sorted(kinds.items(), key=lambda pair: -pair[1]):
        bound = f"{best[kind] / rows:8.3f} {best[kind] / spent:6.0%}" if kind in best else ""
        print(f"  {kind:<10} {spent / rows:8.3f} us/token {spent / busy:6.1%}   bound {bound}")


if __name__ == "__main__":
    main()
