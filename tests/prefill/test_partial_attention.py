"""Kernels of partial attention, and their merging, against plain torch."""

from __future__ import annotations

import pytest
import torch
from covey_engine.prefill.kernels.merge import fold, merge
from covey_engine.prefill.kernels.precision import Precision
from covey_engine.prefill.kernels.suffix import suffix_attention
from covey_engine.prefill.kernels.tail import tail_attention
from support import hopper_kernels as support
from support.hopper_kernels import DEVICE, GPU, empty_activation, relative_error, restored
from support.kernel_checks import HALF, check, random
from torch import Tensor


def partials(rows: int, heads: int, size: int, count: int) -> tuple[list[tuple[Tensor, Tensor]], Tensor]:
    """Results with very different sums; what a partial does not cover is NaN; every row has one at least."""
    made = [(random(rows, heads * size), torch.randn(heads, rows, device=DEVICE) * 20) for _ in range(count)]
    coverage = torch.randint(1, 1 << count, (rows,), device=DEVICE, dtype=torch.int32)
    for index, (result, lse) in enumerate(made):
        absent = (coverage >> index & 1) == 0
        result[absent] = float("nan")
        lse[:, absent] = float("nan")
    return made, coverage


def merged(made: list[tuple[Tensor, Tensor]], heads: int) -> tuple[Tensor, Tensor]:
    rows = len(made[0][0])
    lse = torch.stack([torch.where(lse.isnan(), float("-inf"), lse) for _, lse in made])
    results = torch.stack([result.float().nan_to_num(0).view(rows, heads, -1) for result, _ in made])
    weights = lse.softmax(0).transpose(1, 2)[..., None]
    return (results * weights).sum(0).flatten(1), lse.logsumexp(0)


@pytest.mark.parametrize("precision", Precision)
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_merge(count: int, precision: Precision) -> None:
    shapes = [(130, 32, 128), (1, 2, 128)] if GPU else [(3, 2, 128)]
    if precision is not Precision.BLOCK:
        shapes.append((5, 9, 64) if GPU else (2, 3, 8))
    for rows, heads, size in shapes:
        made, coverage = partials(rows, heads, size, count)
        out = empty_activation(rows + 1, heads * size, precision)
        merge(made, coverage, out, size, precision)
        check(out, merged(made, heads)[0], precision)


def test_fold_then_merge_equals_one_merge() -> None:
    made, coverage = partials(5, 2, 16, 6)
    expected, _ = merged(made, 2)
    fold(made[:4], coverage, 16)
    again = ((coverage & 15) > 0).int() | coverage >> 4 << 1
    out = empty_activation(5, 32, Precision.BF16)
    merge([made[0], *made[4:]], again, out, 16, Precision.BF16)
    assert relative_error(restored(out), expected) < 2 * HALF


@pytest.mark.parametrize(("heads", "kv_heads", "size"), [(32, 8, 128), (9, 3, 64)] if GPU else [(6, 2, 16)])
@pytest.mark.parametrize("longest", [17, 33])
def test_suffix_attention(heads: int, kv_heads: int, size: int, longest: int) -> None:
    lengths = [longest, 1, 2, 40, 5, 5, longest - 3, *([7] * 90 if GPU else []), 3]
    starts = torch.tensor([0, *lengths], device=DEVICE).cumsum(0).tolist()
    rows, arena = starts[-1], starts[-1] + 20
    queries = random(rows, (heads + 3) * size)[:, : heads * size].unflatten(1, (heads, size))
    keys, values = random(2, arena, kv_heads, size)
    address = torch.randperm(arena, device=DEVICE)[:rows].int()
    first = torch.full((rows,), -1, device=DEVICE, dtype=torch.int32)
    for start, length in zip(starts, lengths, strict=False):
        first[start : start + length] = start if length <= longest else -1
    out, lse = (
        torch.full((rows, heads * size), 7.0, device=DEVICE).bfloat16(),
        torch.full((heads, rows), 7.0, device=DEVICE),
    )
    suffix_attention(queries, keys, values, address, first, out, lse, longest)
    expected = out.clone().view(rows, heads, size)
    ranges = support.ranges(starts[:-1], lengths, starts[:-1], lengths, causal=True)
    total = support.plain_attention(queries, keys[address.long()], values[address.long()], ranges, expected)
    short = first >= 0
    assert relative_error(out[short], expected.flatten(1)[short]) < HALF
    assert torch.allclose(lse[:, short], total[:, short], atol=1e-3)
    assert (out[~short] == 7).all()
    assert (lse[:, ~short] == 7).all()


@pytest.mark.parametrize(("heads", "kv_heads", "size"), [(32, 8, 128), (9, 3, 64)] if GPU else [(6, 2, 16)])
@pytest.mark.parametrize("tile", [16, 32])
def test_tail_attention(heads: int, kv_heads: int, size: int, tile: int) -> None:
    """Groups of segments, cut into tiles, each group with ranges of its own; other rows keep what they hold."""
    groups = [([5, 7, 3], [(40, 130), (0, 9)]), ([33], [(3, 1), (7, 64)]), ([1], [(0, 0), (200, 0)])]
    groups += [([6, 9] * 3, [(10 * n, 90 + n), (250, 11)]) for n in range(9 if GPU else 1)]
    gap, tiles, ranges, first, start = 4, [], [], [], 4
    first += [0] * gap
    for lengths, given in groups:
        rows = sum(lengths)
        tiles += [(start + n, min(tile, rows - n)) for n in range(0, rows, tile)]
        ranges += [given] * -(-rows // tile)
        for length in lengths:
            first += [len(first)] * length
        start += rows
    rows, arena = len(first) + gap, 400
    first += [0] * gap
    queries = random(rows, (heads + 3) * size)[:, : heads * size].unflatten(1, (heads, size))
    own_keys, own_values = random(2, rows + 20, kv_heads, size)
    keys, values = random(2, arena, kv_heads, size)
    address = torch.randperm(rows + 20, device=DEVICE)[:rows].int()
    out = torch.full((rows, heads * size), 7.0, device=DEVICE).bfloat16()
    lse = torch.full((heads, rows), 7.0, device=DEVICE)
    arrays = [torch.tensor(x, device=DEVICE, dtype=torch.int32) for x in (first, tiles, ranges)]
    tail_attention(queries, (own_keys, own_values), (keys, values), address, *arrays, out, lse, tile)
    expected, total = torch.full_like(out, 7.0).view(rows, heads, size), torch.full_like(lse, 7.0)
    for (row, count), given in zip(tiles, ranges, strict=True):
        for each in range(row, row + count):
            places = torch.cat([torch.arange(a, a + n, device=DEVICE) for a, n in given])
            mine = address[first[each] : each + 1].long()
            k, v = torch.cat([keys[places], own_keys[mine]]), torch.cat([values[places], own_values[mine]])
            whole = support.ranges([each], [1], [0], [len(k)], causal=False)
            total[:, each] = support.plain_attention(queries, k, v, whole, expected)[:, each]
    assert relative_error(out, expected.flatten(1)) < HALF
    assert torch.allclose(lse, total, atol=1e-3)
