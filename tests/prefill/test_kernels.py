"""Every kernel against plain torch: values, scales, untouched memory, and rows that are not finite."""

from __future__ import annotations

import pytest
import torch
from covey_engine.prefill.kernels.flags import spoiled
from covey_engine.prefill.kernels.gate import silu_mul
from covey_engine.prefill.kernels.gather import gather_rows
from covey_engine.prefill.kernels.norm import add_rms_norm
from covey_engine.prefill.kernels.precision import Precision
from covey_engine.prefill.kernels.rotary import HeadNorms, KvTarget, PackedTarget, Phases, rotate_and_write
from support import hopper_kernels as support
from support.hopper_kernels import DEVICE, GPU, empty_activation, relative_error, restored, tolerance
from support.kernel_checks import HALF, check, random
from torch import Tensor

ROWS = (1, 3, 130, 4099) if GPU else (3,)
WIDTHS = (128, 576, 2560, 4096) if GPU else (128, 200)


def fp8(*size: int) -> Tensor:
    return (torch.randn(size, device=DEVICE) * 100).clamp_(-448, 448).to(torch.float8_e4m3fn)


def widths(precision: Precision) -> tuple[int, ...]:
    return tuple(width for width in WIDTHS if precision is not Precision.BLOCK or width % 128 == 0)


def normed(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    wide = x.float()
    return wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon) * weight.float()


@pytest.mark.parametrize("precision", Precision)
@pytest.mark.parametrize("rows", ROWS)
def test_add_rms_norm(rows: int, precision: Precision) -> None:
    for columns in widths(precision):
        source, update = random(rows, columns), random(rows, columns, scale=3)
        weight, out = random(columns), empty_activation(rows + 2, columns, precision)
        total = source + update
        add_rms_norm(source, update, weight, source, out, 1e-6, precision)
        assert relative_error(source, total) <= (0 if GPU else tolerance(Precision.BF16))
        check(out, normed(source, weight, 1e-6), precision)


@pytest.mark.parametrize("precision", Precision)
def test_embedding_rows_are_gathered(precision: Precision) -> None:
    rows, columns = ROWS[-1], 128
    table, weight = random(50, columns), random(columns)
    index = torch.randint(0, 50, (rows,), device=DEVICE, dtype=torch.int32)
    residual, out = (
        torch.empty(rows, columns, device=DEVICE).bfloat16(),
        empty_activation(rows, columns, precision),
    )
    add_rms_norm(table, None, weight, residual, out, 1e-5, precision, index)
    assert torch.equal(residual, table[index.long()])
    check(out, normed(residual, weight, 1e-5), precision)


@pytest.mark.parametrize("precision", Precision)
@pytest.mark.parametrize("rows", ROWS)
def test_silu_mul(rows: int, precision: Precision) -> None:
    for width in (*widths(precision), *((9728, 3072) if GPU else ())):
        gate_up, out = random(rows, 2 * width, scale=4), empty_activation(rows + 1, width, precision)
        silu_mul(gate_up, out, precision)
        gate, up = gate_up.float().chunk(2, 1)
        check(out, torch.nn.functional.silu(gate) * up, precision)


def test_outliers_of_ten_thousand_times_stay_in_their_row_and_group() -> None:
    rows = 8 if GPU else 2
    plain = random(rows, 512)
    spiked = plain.clone()
    spiked[0, 5] = 1e4
    for precision in (Precision.ROW, Precision.BLOCK):
        results = []
        for up in (plain, spiked):
            out = empty_activation(rows, 256, precision)
            silu_mul(up, out, precision)
            results.append(restored(out))
        assert torch.equal(results[0][1:], results[1][1:])
        if precision is Precision.BLOCK:
            assert torch.equal(results[0][0, 128:], results[1][0, 128:])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, under Triton's interpreter
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("precision", Precision if GPU else [Precision.BF16])
def test_a_row_that_is_not_finite_says_so_and_leaves_the_others_alone(
    precision: Precision, bad: float
) -> None:
    x, update, weight = random(3, 128), random(3, 128), random(128)
    results = []
    for value in (1.0, bad):
        update[1, 7] = value
        out = empty_activation(3, 128, precision)
        add_rms_norm(x.clone(), update, weight, torch.empty_like(x), out, 1e-6, precision)
        results.append(restored(out))
    assert torch.equal(results[0][[0, 2]], results[1][[0, 2]])
    assert not results[1][1].isfinite().all()


def turned(x: Tensor, positions: Tensor, phases: Phases, weight: Tensor | None) -> Tensor:
    wide = x.float() if weight is None else normed(x, weight, 1e-6)
    low, high = wide.chunk(2, -1)
    cosine, sine = (table[positions.long()][:, None] for table in (phases.cosine, phases.sine))
    return torch.cat([low * cosine - high * sine, high * cosine + low * sine], -1)


@pytest.mark.parametrize("with_norm", [True, False])
@pytest.mark.parametrize(
    ("heads", "kv_heads", "size"), [(32, 8, 128), (9, 3, 64), (4, 1, 16)] if GPU else [(3, 1, 16)]
)
@pytest.mark.parametrize("rows", ROWS)
def test_rotate_and_write(rows: int, heads: int, kv_heads: int, size: int, with_norm: bool) -> None:
    arena, width = rows + 9, (heads + 2 * kv_heads) * size
    qkv, positions = random(rows, width), torch.randint(0, 500, (rows,), device=DEVICE, dtype=torch.int32)
    angles = torch.rand(500, size // 2, device=DEVICE) * 7
    phases = Phases(angles.cos(), angles.sin())
    norms = HeadNorms(random(size), random(size), 1e-6) if with_norm else None
    address = torch.randperm(arena, device=DEVICE)[:rows].int()
    keys, values = torch.zeros(2, arena, kv_heads, size, device=DEVICE, dtype=torch.bfloat16)
    flags = torch.ones(arena, device=DEVICE, dtype=torch.uint8)
    q, k, v = (x.clone() for x in qkv.view(rows, -1, size).split([heads, kv_heads, kv_heads], 1))
    v[0, 0, 3] = float("inf")
    qkv.view(rows, -1, size)[0, heads + kv_heads, 3] = float("inf")
    rotate_and_write(qkv, positions, phases, norms, size, heads, KvTarget(keys, values, flags, address, True))
    weights = (None, None) if norms is None else (norms.query, norms.key)
    queries = qkv.view(rows, -1, size)[:, :heads]
    assert relative_error(queries, turned(q, positions, phases, weights[0])) < HALF
    assert relative_error(keys[address.long()], turned(k, positions, phases, weights[1])) < HALF
    assert torch.equal(values[address.long()], torch.where(v.isfinite(), v, 0))
    untouched = torch.ones(arena, dtype=torch.bool, device=DEVICE)
    untouched[address.long()] = False
    assert not keys[untouched].any()
    assert flags[untouched].all()
    assert flags[address.long()].tolist() == [1] + [0] * (rows - 1)


def test_queries_alone_and_keys_alone() -> None:
    phases = Phases(torch.rand(9, 8, device=DEVICE), torch.rand(9, 8, device=DEVICE))
    positions = torch.tensor([2, 8], device=DEVICE, dtype=torch.int32)
    q, kv = random(2, 48), random(2, 32)
    expected_q = turned(q.view(2, 3, 16).clone(), positions, phases, None)
    expected_k = turned(kv.view(2, 2, 16)[:, :1].clone(), positions, phases, None)
    rotate_and_write(q, positions, phases, None, 16, 3, None)
    assert relative_error(q.view(2, 3, 16), expected_q) < HALF
    keys, values = torch.zeros(2, 4, 1, 16, device=DEVICE, dtype=torch.bfloat16)
    flags = torch.tensor([0, 1, 0, 0], device=DEVICE, dtype=torch.uint8)
    address = torch.tensor([3, 1], device=DEVICE, dtype=torch.int32)
    target = KvTarget(keys, values, flags, address, first=False)
    rotate_and_write(kv, positions, phases, None, 16, 0, target)
    assert relative_error(keys[[3, 1]], expected_k) < HALF
    assert flags.tolist() == [0, 1, 0, 0], "later layers add to the flags"


@pytest.mark.parametrize("first", [True, False])
def test_keys_and_values_go_to_packed_rows_or_the_arena_or_both(first: bool) -> None:
    """Rows 0, 3, 6, … go to the arena alone, 1, 4, … to their packed row alone, 2, 5, … to both; bits are the same."""
    rows, kv_heads, size = (4099, 8, 128) if GPU else (5, 3, 16)
    kv, positions = random(rows, 2 * kv_heads * size), torch.arange(rows, device=DEVICE).int() % 9
    kv[1, -1] = float("inf")
    phases = Phases(torch.rand(9, size // 2, device=DEVICE), torch.rand(9, size // 2, device=DEVICE))
    norms = HeadNorms(random(size), random(size), 1e-6)
    address, place = (torch.randperm(rows + 9, device=DEVICE)[:rows].int() for _ in "ap")
    number = torch.arange(rows, device=DEVICE)
    stored, placed = (number % 3 != 1).int(), number % 3 != 0
    place = torch.where(placed, place, -1)
    results = []
    for split in (False, True):
        keys, values, packed_keys, packed_values = random(4, rows + 9, kv_heads, size).fill_(7)
        flags = torch.full((rows + 9,), 2, device=DEVICE, dtype=torch.uint8)
        packed = PackedTarget(packed_keys, packed_values, place, stored) if split else None
        target = KvTarget(keys, values, flags, address, first, packed)
        rotate_and_write(kv, positions, phases, norms, size, 0, target)
        results.append((torch.stack([keys, values]), torch.stack([packed_keys, packed_values]), flags))
    (plain, untouched, flags), (arena, packed_rows, same_flags) = results
    assert (untouched == 7).all()
    assert torch.equal(flags, same_flags), "flags are at the address wherever the row goes"
    assert int(flags[address[1].long()]) == 1
    expected = torch.full_like(plain, 7)
    kept = address[stored == 1].long()
    expected[:, kept] = plain[:, kept]
    assert torch.equal(arena, expected)
    expected = torch.full_like(plain, 7)
    expected[:, place[placed].long()] = plain[:, address[placed].long()]
    assert torch.equal(packed_rows, expected)
    assert packed_rows.isfinite().all()


def test_gather_rows() -> None:
    for kv_heads, size, count in ((8, 128, 4001), (3, 64, 5)) if GPU else ((3, 8, 5),):
        keys, values = random(2, 500, kv_heads, size)
        source = torch.randint(0, 500, (count,), device=DEVICE, dtype=torch.int32)
        target = torch.randperm(count + 9, device=DEVICE)[:count].int()
        packed = torch.zeros(2, count + 9, kv_heads, size, device=DEVICE).bfloat16()
        expected = packed.clone()
        expected[:, target.long()] = torch.stack([keys, values])[:, source.long()]
        gather_rows(keys, values, source, target, *packed)
        assert torch.equal(packed, expected)


def test_spoiled_answers() -> None:
    flags = torch.zeros(5000, device=DEVICE, dtype=torch.uint8)
    flags[[7, 4000]] = 1
    spans = [[(0, 7), (0, 0)], [(0, 8), (0, 0)], [(20, 5), (2900, 1100)], [(20, 5), (2901, 1100)]]
    out = torch.full((4,), 9, device=DEVICE, dtype=torch.uint8)
    spoiled(flags, torch.tensor(spans, device=DEVICE, dtype=torch.int32), out)
    assert out.tolist() == [0, 1, 0, 1]


@pytest.mark.gpu
@pytest.mark.skipif(not GPU, reason="the attention kernel needs a Hopper GPU")
def test_attention_over_scattered_ranges() -> None:
    attention = support.backend().attention
    heads, kv_heads, size, arena = 32, 8, 128, 5000
    queries = random(700, 48 * size)[:, : heads * size].unflatten(1, (heads, size))
    keys, values = random(2, arena, kv_heads, size)
    starts, lengths = [0, 400, 100, 650], [90, 200, 130, 5]
    key_starts, key_lengths = [3000, 17, 3010, 0], [190, 200, 1600, 4999]
    for causal in (True, False):
        ranges = support.ranges(starts, lengths, key_starts, key_lengths, causal)
        out = torch.full((700, heads, size), 7.0, device=DEVICE).bfloat16()
        expected = out.clone()
        lse = attention(queries, keys, values, ranges, out)
        expected_lse = support.plain_attention(queries, keys, values, ranges, expected)
        covered = ~expected_lse[0].isnan()
        assert relative_error(out[covered], expected[covered]) < 5e-3
        assert torch.equal(out[~covered], expected[~covered])
        assert torch.allclose(lse[:, covered], expected_lse[:, covered], atol=1e-3)
        again = torch.empty_like(out)
        attention(queries, keys, values, ranges, again)
        assert torch.equal(again[covered], out[covered])


@pytest.mark.gpu
@pytest.mark.skipif(not GPU, reason="the linear layers need a Hopper GPU")
@pytest.mark.parametrize("rows", [1, 64, 65, 300, 4099])
def test_block_linear_equals_the_product_of_its_operands(rows: int) -> None:
    gemm = support.backend().gemm()
    for outputs, inputs in ((6144, 2560), (2560, 9728), (256, 128)):
        x = empty_activation(rows, inputs, Precision.BLOCK)
        x.values.copy_(fp8(rows, inputs))
        assert x.scale is not None
        x.scale.copy_(torch.rand(x.scale.shape, device=DEVICE) + 0.5)
        weight = fp8(outputs, inputs)
        scale = torch.rand(outputs // 128, inputs // 128, device=DEVICE) + 0.5
        out, expected = (torch.empty(rows, outputs, device=DEVICE, dtype=torch.bfloat16) for _ in "ab")
        gemm((x.values, x.scale), (weight, scale), out)
        support.plain_block_gemm((x.values, x.scale), (weight, scale), expected)
        assert relative_error(out, expected) < 4e-3
