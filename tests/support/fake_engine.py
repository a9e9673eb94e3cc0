"""An engine without a model: a prompt's margin is a hash of its exact tokens; figures by brute force.

Equal prompts get equal answers and any other prompt a different one, so a plan that changes what a row's
answer sees is found out by comparing rows with an oracle that computes `truth` of the same tokens.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from covey_engine.prefill import api
from covey_engine.prefill.errors import Cancelled, EngineError, WorkerCrashed
from covey_storage.tokens import TokenColumn

Value = float | list[float]
"""A margin, or the scores of labels."""

SPREAD = 8.0
"""Margins lie within this distance of 0, whatever margin a question takes for true."""


def margin(tokens: Iterable[int], selectivity: float = 0.5) -> float:
    """The margin of a prompt; above 0 for a share `selectivity` of all prompts."""
    data = np.fromiter(tokens, dtype=np.int32).tobytes()
    return _margin(hashlib.blake2b(data, digest_size=8).digest(), selectivity)


def truth(tokens: Iterable[int], selectivity: float = 0.5) -> bool:
    """Whether the answer to a prompt is true."""
    return margin(tokens, selectivity) > 0.0


def _margin(digest: bytes, selectivity: float) -> float:
    uniform = int.from_bytes(digest, "little") / 2.0**64
    return float(np.float32(SPREAD * (selectivity - uniform)))


@dataclass
class Faults:
    """What goes wrong, for tests of what happens then.

    crash_after: the worker dies after so many prompts. poison: prompts whose margin is not finite. gate: no
    answer before it is set. refuse: the message with which `submit` refuses every order.
    """

    crash_after: int | None = None
    poison: Callable[[bytes], bool] | None = None
    gate: threading.Event | None = None
    refuse: str | None = None


class FakeEngine:
    """Implements prefill.api.Engine in process; `orders` keeps every order for inspection."""

    def __init__(
        self,
        selectivity: float = 0.5,
        *,
        context_length: int = 8192,
        answers_at_once: int = 256,
        faults: Faults | None = None,
    ) -> None:
        self.selectivity = selectivity
        self.answers_at_once = answers_at_once
        self.faults = faults or Faults()
        self.orders: list[api.WorkOrder] = []
        self.running: list[FakeRunning] = []
        self._context_length = context_length

    def info(self) -> api.EngineInfo:
        return api.EngineInfo("fake", "hash", "none", "int32", self._context_length, 1 << 20, 1 << 14, 0.0)

    def submit(self, order: api.WorkOrder, cancel: threading.Event | None = None) -> FakeRunning:
        if self.faults.refuse is not None:
            raise EngineError(self.faults.refuse)
        self.orders.append(order)
        self.running.append(self.start(order))
        return self.running[-1]

    def start(self, order: api.WorkOrder) -> FakeRunning:
        """An order on its way."""
        return FakeRunning(self, order)

    def close(self) -> None:
        for running in self.running:
            running.cancel()

    @property
    def figures(self) -> api.Figures:
        """What all orders have cost."""
        return sum((running.figures() for running in self.running), api.Figures())


class FakeRunning:
    """A submitted order, computed by whoever iterates over its answers."""

    def __init__(self, engine: FakeEngine, order: api.WorkOrder) -> None:
        self._engine = engine
        self._order = order
        self._cost = _Cost()
        self._cancelled = threading.Event()
        self._ended = False

    @property
    def cancelled(self) -> bool:
        """Whether the order was cancelled before its end."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        if not self._ended:
            self._cancelled.set()

    def figures(self) -> api.Figures:
        return self._cost.figures()

    def progress(self) -> api.Progress:
        done = self._cost.figures()
        most = self._order.items * len(self._order.asks)
        mean = done.prompt_tokens / done.prompts if done.prompts else 0.0
        to_come = 0 if self._ended else int((most - done.prompts) * mean)
        return api.Progress(done.fresh_tokens, to_come, to_come / 1_000 if done.prompts else None)

    def answers(self) -> Iterator[api.Answers]:
        waiting: dict[int, list[tuple[int, Value]]] = {ask: [] for ask in range(len(self._order.asks))}
        for count, (ask, item, value) in enumerate(self._walk(), 1):
            waiting[ask].append((item, value))
            if count % self._engine.answers_at_once == 0:
                yield from self._flush(waiting)
        yield from self._flush(waiting)
        self._stop_if_asked()
        self._ended = True

    def _flush(self, waiting: dict[int, list[tuple[int, Value]]]) -> Iterator[api.Answers]:
        self._stop_if_asked()
        for ask, found in waiting.items():
            if found:
                items = np.array([item for item, _ in found], dtype=np.int64)
                values = np.array([value for _, value in found], dtype=np.float32)
                error = "the model's output is not finite" if np.isnan(values).any() else None
                found.clear()
                yield api.Answers(ask, items, values, error)

    def _stop_if_asked(self) -> None:
        gate = self._engine.faults.gate
        while gate is not None and not gate.wait(0.005) and not self._cancelled.is_set():
            pass
        if self._cancelled.is_set():
            raise Cancelled("the order was cancelled")

    def _walk(self) -> Iterator[tuple[int, int, Value]]:
        """(ask, item, margin or scores) of everything that the ask program reaches, depth first."""
        order, cost, faults = self._order, self._cost, self._engine.faults
        anchors, partners = _Texts(order.anchors), _Texts(order.partners)
        matches = settled = 0
        for anchor in range(order.anchor_count):
            met = _met(order, anchor)
            prefix = cost.extend(Path(), order.prefix, anchors, anchor, None, None) if len(met) else Path()
            found = 0
            for item, partner in met:
                if (settled if order.exists else matches) == order.enough:
                    return
                ask = 0
                while ask >= 0:
                    chosen = order.asks[ask]
                    path = cost.extend(prefix, chosen.suffix, anchors, anchor, partners, partner)
                    assert 0 < path.length <= self._engine.info().context_length, (
                        "a prompt that can never run"
                    )
                    if faults.crash_after is not None and cost.prompts >= faults.crash_after:
                        raise WorkerCrashed("the engine's worker process ended unexpectedly")
                    cost.count(path)
                    if isinstance(chosen.readout, api.Labels):
                        yield ask, item, self.scores(path, chosen.readout)
                        ask = ask + 1 if ask + 1 < len(order.asks) else api.DONE
                        continue
                    value = self.value(path, chosen.readout)
                    yield ask, item, value
                    ask = chosen.on_true if value > np.float32(chosen.readout.zero_point) else chosen.on_false
                matches += ask == api.MATCH
                found += ask == api.MATCH
                if order.exists and found == order.each:
                    settled += 1
                    break

    def value(self, path: Path, readout: api.YesNo) -> float:
        poison = self._engine.faults.poison
        if poison is not None and poison(path.data):
            return float("nan")
        return _margin(path.digest, self._engine.selectivity)

    def scores(self, path: Path, readout: api.Labels) -> list[float]:
        """A score for each label, by its tokens after the prompt; inner tokens of labels are not counted."""
        texts = [path.data + np.array(label, dtype=np.int32).tobytes() for label in readout.labels]
        poison = self._engine.faults.poison
        if poison is not None and any(map(poison, texts)):
            return [float("nan")] * len(texts)
        return [_margin(Path(text).digest, 0.0) for text in texts]


@dataclass(frozen=True)
class Path:
    """A prompt so far: its tokens as bytes (int32, little endian)."""

    data: bytes = b""

    @property
    def length(self) -> int:
        return len(self.data) // 4

    @property
    def digest(self) -> bytes:
        return hashlib.blake2b(self.data, digest_size=8).digest()


class _Texts:
    """The token bytes of one side's texts."""

    def __init__(self, arguments: Sequence[api.Argument]) -> None:
        self._arguments = arguments
        self._columns = [TokenColumn(argument.column) for argument in arguments]
        self._known: dict[tuple[int, int], bytes] = {}

    def data(self, argument: int, row: int) -> bytes:
        slot = int(self._arguments[argument].slots[row])
        known = self._known.get((argument, slot))
        if known is None:
            known = self._known[argument, slot] = self._columns[argument].tokens(slot).tobytes()
        return known


@dataclass
class _Cost:
    """A trie of all prompts, cut at segment boundaries: a node's tokens are computed once."""

    prompts: int = 0
    prompt_tokens: int = 0
    fresh_tokens: int = 0
    attention_pairs: int = 0
    nodes: set[bytes] = field(default_factory=set)

    def extend(
        self,
        path: Path,
        parts: Sequence[api.Part],
        anchors: _Texts,
        anchor: int,
        partners: _Texts | None,
        partner: int | None,
    ) -> Path:
        for part in parts:
            match part:
                case api.Literal(tokens):
                    data = np.array(tokens, dtype=np.int32).tobytes()
                case api.Anchor(argument):
                    data = anchors.data(argument, anchor)
                case api.Partner(argument):
                    assert partners is not None, "a partner in the shared prefix"
                    assert partner is not None, "a partner in a filter"
                    data = partners.data(argument, partner)
            before, path = path.length, Path(path.data + data)
            if path.digest not in self.nodes:
                self.nodes.add(path.digest)
                fresh = path.length - before
                self.fresh_tokens += fresh
                self.attention_pairs += fresh * before + fresh * (fresh + 1) // 2
        return path

    def count(self, path: Path) -> None:
        self.prompts += 1
        self.prompt_tokens += path.length

    def figures(self) -> api.Figures:
        return api.Figures(
            prompts=self.prompts,
            prompt_tokens=self.prompt_tokens,
            fresh_tokens=self.fresh_tokens,
            attention_pairs=self.attention_pairs,
        )


def _met(order: api.WorkOrder, anchor: int) -> list[tuple[int, int | None]]:
    """(item, partner) of everything asked about an anchor."""
    if not order.partners:
        return [(anchor, None)]
    if order.pairs is None:
        first = anchor * order.partner_count
        return [(first + partner, partner) for partner in range(order.partner_count)]
    begin, end = order.pairs.offsets[anchor : anchor + 2].tolist()
    return list(zip(range(begin, end), order.pairs.indices[begin:end].tolist(), strict=True))


def set_once_asked(cancel: threading.Event, engine: FakeEngine) -> None:
    """Set an event as soon as the engine has been asked something."""

    def watch() -> None:
        while not engine.running:
            time.sleep(0.01)
        cancel.set()

    threading.Thread(target=watch, daemon=True).start()
