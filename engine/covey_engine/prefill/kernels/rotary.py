"""Head norm, rotation and KV write: projections and positions go in, queries, arena and packed rows come out.

Contract: qkv bfloat16 [rows, (heads + 2 * kv_heads) * head_dim], row-contiguous: query heads, key heads,
value heads; queries are rotated in place, keys (rotated) and values go to keys/values bfloat16 [arena,
kv_heads, head_dim] at address int32 [rows], to rows of packed tensors of that kind, or to both; cosine and
sine float32 [context, head_dim / 2] (a head is first halves, then second halves); query_weight and key_weight
bfloat16 [head_dim] or None. flags uint8 [arena]: 1 where any layer's key or value was not finite; such values
are stored as zero, because attention multiplies masked values by zero weights, and zero times infinity would
poison a neighbour.
"""

from __future__ import annotations

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Phases:
    """Tables of the rotary embedding, float32 [context, head_dim / 2] each."""

    cosine: Tensor
    sine: Tensor


@dataclass(frozen=True, eq=False)
class PackedTarget:
    """A second place of keys and values.

    keys and values: bfloat16 [packed, kv_heads, head_dim]; place: int32 [rows], the packed row of each row, -1 for
    none; stored: int32 [rows], 0 for the rows that go to their packed row alone.
    """

    keys: Tensor
    values: Tensor
    place: Tensor
    stored: Tensor


@dataclass(frozen=True, eq=False)
class KvTarget:
    """Where one layer's keys and values go; a row's flag is at its address wherever they go.

    first: this is the first layer, which starts the flags anew; packed: None where all rows go to the arena alone.
    """

    keys: Tensor
    values: Tensor
    flags: Tensor
    address: Tensor
    first: bool
    packed: PackedTarget | None = None


@dataclass(frozen=True, eq=False)
class HeadNorms:
    """RMSNorm over each query and key head: weights bfloat16 [head_dim]."""

    query: Tensor
    key: Tensor
    epsilon: float


def rotate_and_write(
    qkv: Tensor,
    positions: Tensor,
    phases: Phases,
    norms: HeadNorms | None,
    head_dim: int,
    query_heads: int,
    target: KvTarget | None,
) -> None:
    """Launch over all rows of qkv.

    query_heads is 0 where qkv holds keys and values alone; target is None where it holds queries alone.
    """
    rows = len(qkv)
    assert qkv.stride(1) == 1
    kv_heads = 0 if target is None else target.keys.shape[1]
    assert qkv.shape[1] == (query_heads + 2 * kv_heads) * head_dim
    some = phases.cosine
    packed = None if target is None else target.packed
    _rotate_and_write[(rows,)](
        qkv,
        positions,
        phases.cosine,
        phases.sine,
        some if norms is None else norms.query,
        some if norms is None else norms.key,
        some if target is None else target.address,
        some if target is None else target.keys,
        some if target is None else target.values,
        some if target is None else target.flags,
        some if packed is None else packed.place,
        some if packed is None else packed.stored,
        some if packed is None else packed.keys,
        some if packed is None else packed.values,
        qkv.stride(0),
        0.0 if norms is None else norms.epsilon,
        HEADS=query_heads,
        KV_HEADS=kv_heads,
        HALF=head_dim // 2,
        HALF_BLOCK=triton.next_power_of_2(head_dim // 2),
        HEAD_BLOCK=triton.next_power_of_2(max(query_heads, 1)),
        KV_BLOCK=triton.next_power_of_2(max(kv_heads, 1)),
        HAS_NORM=norms is not None,
        FIRST=target is not None and target.first,
        PACKED=packed is not None,
        num_warps=4,
    )


@triton.jit  # type: ignore[untyped-decorator]
def _turn(low, high, cosine, sine, gain_low, gain_high, epsilon, HALF: tl.constexpr, HAS_NORM: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    low = low.to(tl.float32)
    high = high.to(tl.float32)
    if HAS_NORM:
        square = tl.sum(low * low, axis=1, keep_dims=True) + tl.sum(high * high, axis=1, keep_dims=True)
        factor = 1.0 / tl.sqrt(square / (2 * HALF) + epsilon)
        low = low * factor * gain_low
        high = high * factor * gain_high
    return low * cosine - high * sine, high * cosine + low * sine


@triton.jit  # type: ignore[untyped-decorator]
def _rotate_and_write(  # type: ignore[no-untyped-def]
    qkv,
    positions,
    cosines,
    sines,
    query_weight,
    key_weight,
    address,
    keys,
    values,
    flags,
    packed_place,
    stored,
    packed_keys,
    packed_values,
    stride,
    epsilon,
    HEADS: tl.constexpr,  # noqa: N803
    KV_HEADS: tl.constexpr,  # noqa: N803
    HALF: tl.constexpr,  # noqa: N803
    HALF_BLOCK: tl.constexpr,  # noqa: N803
    HEAD_BLOCK: tl.constexpr,  # noqa: N803
    KV_BLOCK: tl.constexpr,  # noqa: N803
    HAS_NORM: tl.constexpr,  # noqa: N803
    FIRST: tl.constexpr,  # noqa: N803
    PACKED: tl.constexpr,  # noqa: N803
):
    row = tl.program_id(0)
    lane = tl.arange(0, HALF_BLOCK)[None, :]
    inside = lane < HALF
    start = qkv + row.to(tl.int64) * stride
    # read everything before the first use
    phase = tl.load(positions + row).to(tl.int64) * HALF + lane
    cosine = tl.load(cosines + phase, mask=inside, other=0.0)
    sine = tl.load(sines + phase, mask=inside, other=0.0)
    if HEADS > 0:
        head = tl.arange(0, HEAD_BLOCK)[:, None]
        q_mask = (head < HEADS) & inside
        q_place = start + head * (2 * HALF) + lane
        q_low = tl.load(q_place, mask=q_mask, other=0.0)
        q_high = tl.load(q_place + HALF, mask=q_mask, other=0.0)
    if KV_HEADS > 0:
        kv_head = tl.arange(0, KV_BLOCK)[:, None]
        kv_mask = (kv_head < KV_HEADS) & inside
        k_place = start + (HEADS + kv_head) * (2 * HALF) + lane
        v_place = k_place + KV_HEADS * (2 * HALF)
        k_low = tl.load(k_place, mask=kv_mask, other=0.0)
        k_high = tl.load(k_place + HALF, mask=kv_mask, other=0.0)
        v_low = tl.load(v_place, mask=kv_mask, other=0.0)
        v_high = tl.load(v_place + HALF, mask=kv_mask, other=0.0)
        place = tl.load(address + row).to(tl.int64)
        if PACKED:
            second = tl.load(packed_place + row).to(tl.int64)
            in_arena = tl.load(stored + row) != 0
    # queries, in place
    if HEADS > 0:
        gain_low = cosine
        gain_high = cosine
        if HAS_NORM:
            gain_low = tl.load(query_weight + lane, mask=inside, other=0.0).to(tl.float32)
            gain_high = tl.load(query_weight + HALF + lane, mask=inside, other=0.0).to(tl.float32)
        low, high = _turn(q_low, q_high, cosine, sine, gain_low, gain_high, epsilon, HALF, HAS_NORM)
        tl.store(q_place, low.to(tl.bfloat16), mask=q_mask)
        tl.store(q_place + HALF, high.to(tl.bfloat16), mask=q_mask)
    # keys and values, to the arena and to their packed row
    if KV_HEADS > 0:
        gain_low = cosine
        gain_high = cosine
        if HAS_NORM:
            gain_low = tl.load(key_weight + lane, mask=inside, other=0.0).to(tl.float32)
            gain_high = tl.load(key_weight + HALF + lane, mask=inside, other=0.0).to(tl.float32)
        low, high = _turn(k_low, k_high, cosine, sine, gain_low, gain_high, epsilon, HALF, HAS_NORM)
        k_low = low.to(tl.bfloat16)
        k_high = high.to(tl.bfloat16)
        k_low, bad = _finite(k_low, kv_mask)
        k_high, bad_high = _finite(k_high, kv_mask)
        v_low, bad_low_value = _finite(v_low, kv_mask)
        v_high, bad_high_value = _finite(v_high, kv_mask)
        bad = bad | bad_high | bad_low_value | bad_high_value
        within = kv_head * (2 * HALF) + lane
        target = place * (KV_HEADS * 2 * HALF) + within
        if PACKED:
            _store(keys + target, values + target, k_low, k_high, v_low, v_high, kv_mask & in_arena, HALF)
            target = second * (KV_HEADS * 2 * HALF) + within
            mask = kv_mask & (second >= 0)
            _store(packed_keys + target, packed_values + target, k_low, k_high, v_low, v_high, mask, HALF)
        else:
            _store(keys + target, values + target, k_low, k_high, v_low, v_high, kv_mask, HALF)
        spoiled = tl.max(tl.max(bad.to(tl.int32), axis=1), axis=0)
        if FIRST:
            tl.store(flags + place, spoiled.to(tl.uint8))
        else:
            tl.store(flags + place, spoiled.to(tl.uint8), mask=spoiled > 0)


@triton.jit
def _finite(x, mask):  # type: ignore[no-untyped-def]
    finite = tl.abs(x.to(tl.float32)) < float("inf")
    return tl.where(finite, x, 0.0), (finite == 0) & mask


@triton.jit  # type: ignore[untyped-decorator]
def _store(keys, values, k_low, k_high, v_low, v_high, mask, HALF: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    tl.store(keys, k_low, mask=mask)
    tl.store(keys + HALF, k_high, mask=mask)
    tl.store(values, v_low, mask=mask)
    tl.store(values + HALF, v_high, mask=mask)
