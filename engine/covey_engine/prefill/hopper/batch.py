"""A planned chunk goes in, its arrays on the device come out, by one copy; computes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.hopper.plan import AttentionPlan, Call, ChunkPlan, Keys, TailCall
from covey_engine.prefill.hopper.staging import StagingSlot
from covey_engine.prefill.kernels.attention import Ranges

Arrays = list[NDArray[np.integer]]


@dataclass(frozen=True, eq=False)
class DeviceCall:
    """A Call on the device."""

    keys: Keys
    ranges: Ranges


@dataclass(frozen=True, eq=False)
class DeviceTails:
    """A TailCall on the device: tiles and ranges as in Tails, size: rows of a tile."""

    keys: Keys
    tiles: Tensor
    ranges: Tensor
    size: int


@dataclass(frozen=True, eq=False)
class DevicePlan:
    """An AttentionPlan on the device."""

    calls: tuple[DeviceCall | DeviceTails, ...]
    apart: bool
    coverages: tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class Batch:
    """A chunk on the device.

    tokens, positions, address, first, alone: int32 [rows]; answer_rows: int32 [padded answers], padded with row 0;
    answer_positions: int32 [answers]; spans: int32 [answers, ranges, 2]; placed, stored, copied: as in Placement,
    and packed: whether any call reads packed rows.
    """

    rows: int
    answers: int
    tokens: Tensor
    positions: Tensor
    address: Tensor
    first: Tensor
    alone: Tensor
    answer_rows: Tensor
    answer_positions: Tensor
    spans: Tensor
    packed: bool
    placed: Tensor
    stored: Tensor
    copied: Tensor
    every: DevicePlan
    answering: DevicePlan


def stage(chunk: Chunk, plan: ChunkPlan, padded_answers: int, slot: StagingSlot) -> Batch:
    """Copy a chunk and its plan to the device."""
    answer_rows = np.zeros(padded_answers, np.int32)
    answer_rows[: len(chunk.answers)] = chunk.answers
    arrays: Arrays = [
        chunk.tokens,
        chunk.positions,
        chunk.kv_address,
        plan.first,
        plan.alone,
        answer_rows,
        chunk.positions[chunk.answers],
        plan.spans,
        plan.placement.placed,
        plan.placement.stored,
        plan.placement.copied,
    ]
    views = iter(slot.put([*arrays, *_arrays(plan.every), *_arrays(plan.answers)]))
    fixed = [next(views) for _ in arrays]
    every, answering = (
        _on_device(part, [next(views) for _ in _arrays(part)]) for part in (plan.every, plan.answers)
    )
    tokens, positions, address, first, alone, rows, answer_positions, spans, placed, stored, copied = fixed
    return Batch(
        len(chunk),
        len(chunk.answers),
        tokens,
        positions,
        address,
        first,
        alone,
        rows,
        answer_positions,
        spans,
        plan.placement.packed > 0,
        placed,
        stored,
        copied,
        every,
        answering,
    )


def _arrays(plan: AttentionPlan) -> Arrays:
    return [*plan.coverages, *(array for call in plan.calls for array in _arrays_of(call))]


def _arrays_of(call: Call | TailCall) -> Arrays:
    """Starts carry one more element, which the attention kernels' interface asks for and never uses."""
    if isinstance(call, TailCall):
        return list(call.tails.tiles())
    query_start, query_length, key_start, key_length = call.pairs.T
    return [np.append(query_start, 0), query_length, np.append(key_start, 0), key_length]


def _on_device(plan: AttentionPlan, arrays: list[Tensor]) -> DevicePlan:
    views = iter(arrays)
    coverages = tuple(next(views) for _ in plan.coverages)
    return DevicePlan(tuple(_device_call(call, views) for call in plan.calls), plan.apart, coverages)


def _device_call(call: Call | TailCall, views: Iterator[Tensor]) -> DeviceCall | DeviceTails:
    if isinstance(call, TailCall):
        return DeviceTails(call.keys, next(views), next(views), call.tails.size)
    query_start, query_length, key_start, key_length = (next(views) for _ in range(4))
    longest_query, longest_key = int(call.pairs[:, 1].max()), int(call.pairs[:, 3].max())
    ranges = Ranges(query_start, query_length, key_start, key_length, longest_query, longest_key, call.causal)
    return DeviceCall(call.keys, ranges)
