"""Chunks go in, logits of the answer tokens come out, from one Hopper GPU; never decides what runs when.

`launch` plans, copies and enqueues a chunk and returns at once; its `Pending.result` waits. Two chunks may be
in flight: the second is staged while the first runs. Small chunks are replays of recorded launches (`small`).
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from covey_engine.prefill.api import EngineInfo
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.config import EngineConfig
from covey_engine.prefill.errors import EngineError, OutOfDeviceMemory
from covey_engine.prefill.hopper.batch import stage
from covey_engine.prefill.hopper.device import Backend, hopper_backend, multiprocessors, out_of_memory
from covey_engine.prefill.hopper.forward import Decoder, DeviceArena
from covey_engine.prefill.hopper.pending import Pending
from covey_engine.prefill.hopper.plan import plan_chunk
from covey_engine.prefill.hopper.sizes import (
    chunk_rows,
    compile_linears,
    first_chunks,
    padded_rows,
    small_chunks,
)
from covey_engine.prefill.hopper.small import ROWS, Size, SmallPass, plan_small
from covey_engine.prefill.hopper.staging import StagingSlot
from covey_engine.prefill.hopper.weights import Weights, choose_precision, load_weights, open_checkpoint
from covey_engine.prefill.hopper.workspace import Workspace
from covey_engine.prefill.kernels.flags import spoiled
from covey_engine.prefill.kernels.merge import MERGED
from covey_engine.prefill.kernels.precision import Precision
from covey_engine.prefill.models.head import CutHead
from covey_engine.prefill.models.shape import ModelShape

RESERVE_BYTES = 2 << 30
"""Device memory left to the libraries, to partial attention results and to answer rows."""

IN_FLIGHT = 2
"""Chunks launched and not yet collected."""

SPARE = 1
"""Arena tokens behind the last one, where rows that only pad a chunk are written."""


def open_runner(config: EngineConfig, backend: Backend | None = None) -> HopperRunner:
    """Load the model and set up the arena. Raises ModelError, EngineError or OutOfDeviceMemory."""
    began = time.perf_counter()
    backend = hopper_backend() if backend is None else backend
    source = open_checkpoint(Path(config.model))
    precision = choose_precision(source, config.dtype)
    rows = config.chunk_tokens or chunk_rows(multiprocessors(backend.device))
    try:
        gemm = backend.gemm() if precision is Precision.BLOCK else None
        weights = load_weights(source, backend.device, precision, gemm)
        workspace = Workspace(weights.shape, padded_rows(rows), precision, backend.device)
        arena = _allocate_arena(weights.shape, backend.device, config.arena_bytes, rows)
    except torch.cuda.OutOfMemoryError as error:
        raise out_of_memory(f"to load {config.model}", error) from error
    runner = HopperRunner(Path(config.model).name, weights, arena, workspace, backend, rows)
    if backend.device.type == "cuda":
        runner.warm()
    runner.loaded_in(time.perf_counter() - began)
    return runner


def _allocate_arena(shape: ModelShape, device: torch.device, wanted: int, rows: int) -> DeviceArena:
    per_token = shape.layers * 2 * shape.kv_width * 2 + 1
    available = wanted
    if device.type == "cuda":
        free = torch.cuda.mem_get_info(device)[0] - RESERVE_BYTES
        available = min(wanted, free) if wanted else free
    tokens = min(available // per_token, 2**31 - 1)
    if tokens <= rows:
        raise OutOfDeviceMemory(
            f"the KV arena needs at least {rows * per_token / 1e9:.1f} GB for one chunk of {rows} tokens, "
            f"and {max(available, 0) / 1e9:.1f} GB are available: lower chunk_tokens or use a smaller model"
        )
    size = (shape.layers, 2, tokens + SPARE, shape.kv_heads, shape.head_dim)
    cache = torch.zeros(size, dtype=torch.bfloat16, device=device)
    return DeviceArena(cache, torch.zeros(tokens + SPARE, dtype=torch.uint8, device=device))


def _ascending(chunk: Chunk) -> tuple[Chunk, NDArray[np.intp] | None]:
    """The chunk with ascending answers, and their order in it where it had to change."""
    if (np.diff(chunk.answers) >= 0).all():
        return chunk, None
    order = np.argsort(chunk.answers, kind="stable")
    return replace(chunk, answers=chunk.answers[order]), order


class HopperRunner:
    """A model on one Hopper GPU with its KV arena.

    records: whether small chunks go through recorded launches; may be changed between chunks.
    """

    def __init__(
        self,
        name: str,
        weights: Weights,
        arena: DeviceArena,
        workspace: Workspace,
        backend: Backend,
        rows: int,
    ) -> None:
        self.weights = weights
        self._name = name
        self._arena = arena
        self._workspace = workspace
        self._backend = backend
        self._device = backend.device
        self._on_gpu = backend.device.type == "cuda"
        self._rows = rows
        self._room = len(workspace.packed[0])
        self._pad = padded_rows if weights.precision is Precision.BLOCK else int
        self._decoder = Decoder(weights, arena, workspace, backend.attention, self._pad)
        self._head = CutHead.of(weights.head, ())
        self._staging = [StagingSlot(backend.device, 8 * rows) for _ in range(IN_FLIGHT)]
        self._next = 0
        self._small: dict[Size, SmallPass] = {}
        self._pool = torch.cuda.graph_pool_handle() if self._on_gpu else None
        self.records = True
        self._load_seconds = 0.0

    def with_weights(self, weights: Weights) -> HopperRunner:
        """A runner with other weights of this shape on the same arena; use one of them at a time."""
        runner = HopperRunner(self._name, weights, self._arena, self._workspace, self._backend, self._rows)
        runner._head = self._head
        return runner

    def warm(self) -> None:
        """Compile, or load, the kernels that queries will need. Raises OutOfDeviceMemory."""
        if self.weights.precision is Precision.BLOCK:
            compile_linears(self.weights, self._workspace, self._rows)
        self.set_answer_tokens((0,))
        most = min(self._rows, self.arena_tokens - 1)
        self.records = False
        for chunk in first_chunks(most):
            self.run(chunk)
        self.records = True
        for chunk in small_chunks(ROWS, most):
            self.run(chunk)

    def loaded_in(self, seconds: float) -> None:
        """Record how long loading took, for `info`."""
        self._load_seconds = seconds

    @property
    def info(self) -> EngineInfo:
        """Facts about the model and the sizes it was set up with."""
        shape = self.weights.shape
        return EngineInfo(
            model=self._name,
            architecture=shape.architecture,
            device=torch.cuda.get_device_name(self._device) if self._on_gpu else "cpu",
            dtype=self.weights.precision.title,
            context_length=shape.context_length,
            arena_tokens=self.arena_tokens,
            chunk_tokens=self._rows,
            load_seconds=self._load_seconds,
            sizes=shape.sizes("bfloat16" if self.weights.precision is Precision.BF16 else "fp8", "bfloat16"),
        )

    @property
    def shape(self) -> ModelShape:
        """The model's sizes."""
        return self.weights.shape

    @property
    def arena_tokens(self) -> int:
        """Token positions of the KV arena."""
        return len(self._arena.flags) - SPARE

    def set_answer_tokens(self, ids: tuple[int, ...], normalizer: bool = False) -> None:
        """Cut the output head to these token ids; logits come in this order.

        normalizer: one more column, the log-sum-exp of the logits of all tokens.
        """
        self._head = CutHead.of(self.weights.head, ids, normalizer)

    def run(self, chunk: Chunk) -> NDArray[np.float32]:
        """One forward pass: logits [len(chunk.answers), len(answer tokens)] and the normalizer, float32."""
        return self.launch(chunk).result()

    def launch(self, chunk: Chunk) -> Pending:
        """Enqueue one forward pass and return. Raises EngineError for a token outside the vocabulary."""
        self._check(chunk)
        chunk, order = _ascending(chunk)
        try:
            with torch.inference_mode():
                began = self._event()
                hidden, spans = self._forward(chunk)
                logits = self._mark(self._head.logits(hidden), spans)
                received = torch.empty(logits.shape, dtype=torch.float32, pin_memory=self._on_gpu)
                received.copy_(logits, non_blocking=True)
                ended = self._event()
        except torch.cuda.OutOfMemoryError as error:
            raise out_of_memory(f"for a chunk of {len(chunk)} tokens", error) from error
        return Pending(received, order, began, ended)

    def _forward(self, chunk: Chunk) -> tuple[Tensor, Tensor]:
        """Hidden states [answers, hidden] and the arena ranges that the answers read."""
        small = plan_small(chunk, padded_rows(self._rows)) if self.records else None
        if small is not None:
            size, planned = small
            return self._pass_of(size).forward(chunk, planned)
        plan, staging = plan_chunk(chunk, self._room, MERGED), self._staging[self._next]
        self._next = (self._next + 1) % IN_FLIGHT
        batch = stage(chunk, plan, self._pad(max(len(chunk.answers), 1)), staging)
        return self._decoder.forward(batch), batch.spans

    def _pass_of(self, size: Size) -> SmallPass:
        if size not in self._small:
            spare, reach = self.arena_tokens, self.weights.shape.context_length
            self._small[size] = SmallPass(size, self._decoder, spare, reach, self._device, self._pool)
        return self._small[size]

    def _check(self, chunk: Chunk) -> None:
        assert 0 < len(chunk) <= self._rows, f"a chunk of {len(chunk)} tokens, not 1..{self._rows}"
        assert chunk.kv_address.max() < self.arena_tokens, "a chunk writes outside the arena"
        size = self.weights.shape.vocabulary
        wrong = chunk.tokens[(chunk.tokens < 0) | (chunk.tokens >= size)]
        if len(wrong):
            raise EngineError(f"token {wrong[0]} is outside the model's vocabulary of {size}")

    def _mark(self, logits: Tensor, spans: Tensor) -> Tensor:
        """Answers that are not finite, or that saw a spoiled key or value, become NaN."""
        bad = torch.empty(len(logits), dtype=torch.uint8, device=self._device)
        spoiled(self._arena.flags, spans, bad)
        bad |= ~logits.isfinite().all(1)
        return logits.masked_fill_(bad[:, None] != 0, float("nan"))

    def _event(self) -> torch.cuda.Event | None:
        if not self._on_gpu:
            return None
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event
