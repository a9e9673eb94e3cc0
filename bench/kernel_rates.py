"""Shapes go in, the bandwidth of each memory-bound kernel comes out, beside the copy rate of the same device.

    python bench/kernel_rates.py [--rows 16384]

Shapes are those of Qwen3-4B; buffers rotate, so that no run finds its input in the cache.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from covey_engine.prefill.kernels.gate import silu_mul
from covey_engine.prefill.kernels.gather import gather_rows
from covey_engine.prefill.kernels.merge import merge
from covey_engine.prefill.kernels.norm import add_rms_norm
from covey_engine.prefill.kernels.precision import Activation, Precision, block_scales
from covey_engine.prefill.kernels.rotary import HeadNorms, KvTarget, PackedTarget, Phases, rotate_and_write
from covey_engine.prefill.kernels.suffix import suffix_attention
from measure import copy_rate

HIDDEN, HEADS, KV_HEADS, SIZE, WIDTH = 2560, 32, 8, 128, 9728
DEVICE = torch.device("cuda")
SETS = 4


def activation(rows: int, columns: int, precision: Precision) -> Activation:
    values = torch.empty(rows, columns, dtype=precision.dtype, device=DEVICE)
    match precision:
        case Precision.BF16:
            return Activation(values)
        case Precision.ROW:
            return Activation(values, torch.empty(rows, 1, device=DEVICE))
        case Precision.BLOCK:
            return Activation(values, block_scales(rows, columns, DEVICE))


def half(*size: int) -> torch.Tensor:
    return torch.randn(size, device=DEVICE, dtype=torch.bfloat16)


def seconds(calls: list[Callable[[], None]]) -> float:
    for call in calls:
        call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    graph.replay()
    began, ended = (torch.cuda.Event(enable_timing=True) for _ in "ab")
    began.record()
    for _ in range(10):
        graph.replay()
    ended.record()
    ended.synchronize()
    return float(began.elapsed_time(ended)) / 1e3 / 10 / len(calls)


def norm(rows: int, precision: Precision) -> tuple[list[Callable[[], None]], int]:
    weight = half(HIDDEN)
    sets = [
        (half(rows, HIDDEN), half(rows, HIDDEN), activation(rows, HIDDEN, precision)) for _ in range(SETS)
    ]
    calls = [
        lambda x=x, u=u, out=out: add_rms_norm(x, u, weight, x, out, 1e-6, precision)  # type: ignore[misc]
        for x, u, out in sets
    ]
    return calls, rows * HIDDEN * (6 + precision.dtype.itemsize)


def gate(rows: int, precision: Precision) -> tuple[list[Callable[[], None]], int]:
    sets = [(half(rows, 2 * WIDTH), activation(rows, WIDTH, precision)) for _ in range(2)]
    calls = [lambda x=x, out=out: silu_mul(x, out, precision) for x, out in sets]  # type: ignore[misc]
    return calls, rows * WIDTH * (4 + precision.dtype.itemsize)


def merging(rows: int, precision: Precision, count: int) -> tuple[list[Callable[[], None]], int]:
    coverage = torch.full((rows,), (1 << count) - 1, dtype=torch.int32, device=DEVICE)
    sets = [
        (
            [(half(rows, HEADS * SIZE), torch.randn(HEADS, rows, device=DEVICE)) for _ in range(count)],
            activation(rows, HEADS * SIZE, precision),
        )
        for _ in range(SETS)
    ]
    calls = [lambda p=p, out=out: merge(p, coverage, out, SIZE, precision) for p, out in sets]  # type: ignore[misc]
    each = 2 * HEADS * SIZE + (4 * HEADS if count > 1 else 0)
    return calls, rows * (count * each + HEADS * SIZE * precision.dtype.itemsize)


def rotary(rows: int, places: str) -> tuple[list[Callable[[], None]], int]:
    """places: where keys and values go, "arena", "packed" or "both"."""
    width = (HEADS + 2 * KV_HEADS) * SIZE
    phases = Phases(torch.rand(40960, SIZE // 2, device=DEVICE), torch.rand(40960, SIZE // 2, device=DEVICE))
    norms = HeadNorms(half(SIZE), half(SIZE), 1e-6)
    positions = torch.arange(rows, device=DEVICE, dtype=torch.int32) % 300
    calls = []
    for _ in range(SETS):
        cache = torch.zeros(2, rows, KV_HEADS, SIZE, dtype=torch.bfloat16, device=DEVICE)
        flags = torch.zeros(rows, dtype=torch.uint8, device=DEVICE)
        address = torch.arange(rows, device=DEVICE, dtype=torch.int32)
        copy, stored = torch.zeros_like(cache), torch.full_like(address, places == "both")
        packed = None if places == "arena" else PackedTarget(copy[0], copy[1], address, stored)
        target, qkv = KvTarget(cache[0], cache[1], flags, address, False, packed), half(rows, width)
        calls.append(
            lambda qkv=qkv, target=target: rotate_and_write(  # type: ignore[misc]
                qkv, positions, phases, norms, SIZE, HEADS, target
            )
        )
    return calls, rows * 4 * width + (rows * 4 * KV_HEADS * SIZE if places == "both" else 0)


def suffix(rows: int, length: int) -> tuple[list[Callable[[], None]], int]:
    """Segments of one length; the bytes are queries, keys, values and results, each once."""
    address = torch.arange(rows, device=DEVICE, dtype=torch.int32)
    first, lse = address // length * length, torch.empty(HEADS, rows, device=DEVICE)
    calls = []
    for _ in range(SETS):
        queries = half(rows, (HEADS + 2 * KV_HEADS) * SIZE)[:, : HEADS * SIZE].view(rows, HEADS, SIZE)
        keys, values, out = half(rows, KV_HEADS, SIZE), half(rows, KV_HEADS, SIZE), half(rows, HEADS * SIZE)
        calls.append(
            lambda q=queries, k=keys, v=values, out=out: suffix_attention(  # type: ignore[misc]
                q, k, v, address, first, out, lse, length
            )
        )
    return calls, rows * SIZE * (4 * HEADS + 4 * KV_HEADS)


def gather(rows: int) -> tuple[list[Callable[[], None]], int]:
    place = torch.arange(rows, device=DEVICE, dtype=torch.int32)
    sets = [[half(rows, KV_HEADS, SIZE) for _ in range(4)] for _ in range(SETS)]
    calls = [lambda s=s: gather_rows(s[0], s[1], place, place, s[2], s[3]) for s in sets]  # type: ignore[misc]
    return calls, rows * 8 * KV_HEADS * SIZE


def main() -> None:
    parser = argparse.ArgumentParser(description="bandwidth of the memory-bound kernels")
    parser.add_argument("--rows", type=int, default=16384)
    rows = parser.parse_args().rows
    rate = copy_rate()
    print(f"copy {rate / 1e12:.2f} TB/s, {rows} rows")
    cases = {
        "rotary + KV write": rotary(rows, "arena"),
        "rotary + packed KV write": rotary(rows, "packed"),
        "rotary + both KV writes": rotary(rows, "both"),
        "KV gather": gather(rows),
        "suffix attention, 5": suffix(rows, 5),
        "suffix attention, 32": suffix(rows, 32),
    }
    for precision in Precision:
        cases[f"add + norm, {precision.title}"] = norm(rows, precision)
        cases[f"SiLU x up, {precision.title}"] = gate(rows, precision)
        for count in (1, 2, 3):
            cases[f"merge {count}, {precision.title}"] = merging(rows, precision, count)
    for name, (calls, size) in cases.items():
        spent = seconds(calls)
        achieved = size / spent
        print(f"{name:<28} {spent * 1e6:8.1f} us {achieved / 1e12:6.2f} TB/s {achieved / rate:6.0%} of copy")


if __name__ == "__main__":
    main()
