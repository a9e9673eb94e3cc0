"""Requests as plain data: what callers hand to the engine and what they get back; never touches torch.

A *work order* asks questions of *anchors*. Every prompt is a path of segments, and two prompts that begin with
the same segments share their computation:

    prefix (literals and anchor arguments)  ->  ask.suffix (literals, anchor or partner arguments)  ->  readout

A filter is a work order without partners: one prompt per anchor and ask. A join has partners: one prompt per
(anchor, partner) pair and ask; the pairs are described, never materialized as objects. The asks of one order form
a decision program: an anchor (or pair) starts at ask 0 and moves on by its answer, so that `A AND B` asks B only
where A is true, while the anchor's prefix is still resident.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

DONE = -1
"""Where an ask program ends."""

MATCH = -2
"""Where an ask program ends with what was looked for: the item matches."""


@dataclass(frozen=True)
class Literal:
    """A segment of fixed tokens: template text, tokenized on its own."""

    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Anchor:
    """A segment taken from the anchor: its `argument`-th slot array selects rows of the token column there."""

    argument: int = 0


@dataclass(frozen=True)
class Partner:
    """A segment taken from the partner: its `argument`-th slot array selects rows of the token column there."""

    argument: int = 0


Part = Literal | Anchor | Partner


@dataclass(frozen=True)
class YesNo:
    """Read a yes/no margin: log-sum-exp of the yes tokens' logits minus log-sum-exp of the no tokens'.

    An answer counts as true in an ask program where margin > zero_point.
    """

    yes: tuple[int, ...]
    no: tuple[int, ...]
    zero_point: float = 0.0


@dataclass(frozen=True)
class Labels:
    """Read the log-probability of each label: the sum of those of its tokens, one after another, after the prompt.

    labels: token tuples, none empty; equal ones get equal scores, and they may begin alike: what they share is
    computed once. A label's last token is never computed. Whether a label ends with an end-of-answer token is the
    caller's choice: without one, a label that another one begins with takes in the probability of both.
    """

    labels: tuple[tuple[int, ...], ...]


Readout = YesNo | Labels


@dataclass(frozen=True)
class Ask:
    """One question: the segments after the shared prefix, how to read the answer, and which ask comes next.

    `on_true` and `on_false` are indices of later asks, or DONE, or MATCH. An ask for labels has no truth: both are
    DONE, and an order that has one has no other kind; each of its asks is put to every item.
    """

    suffix: tuple[Part, ...]
    readout: Readout
    on_true: int = DONE
    on_false: int = DONE


@dataclass(frozen=True)
class Argument:
    """One argument of all anchors (or partners): a token column's folder and a slot per row (int32)."""

    column: str
    slots: NDArray[np.int32]


@dataclass(frozen=True)
class Pairs:
    """Which partners each anchor meets: partners `indices[offsets[a]:offsets[a + 1]]` for anchor a.

    offsets: int64 [anchors + 1]; indices: int32. Absent (`WorkOrder.pairs is None`) means every partner.
    """

    offsets: NDArray[np.int64]
    indices: NDArray[np.int32]


@dataclass(frozen=True)
class WorkOrder:
    """Questions about anchors, or about pairs of anchors and partners.

    `anchors` and `partners` hold the arguments that Anchor and Partner segments refer to; all arrays of one side
    have the same length. A side without rows is an order without prompts. `anchor_count` serves an order whose
    prompts are all literal.

    An order may ask less than all. exists: `each` pairs that match settle their anchor, whose other pairs are not
    asked any more. enough: so many matches (of anchors, where `exists`) end the order; None for no end before all is
    asked. What is not asked has no answer. user: whose order it is; users get equal shares of the device, and of
    each user the queries.
    """

    query: str
    prefix: tuple[Part, ...]
    asks: tuple[Ask, ...]
    anchors: tuple[Argument, ...] = ()
    partners: tuple[Argument, ...] = ()
    pairs: Pairs | None = None
    anchor_count: int = field(default=-1)
    exists: bool = False
    enough: int | None = None
    each: int = 1
    user: str = ""

    def __post_init__(self) -> None:
        if self.anchor_count < 0:
            object.__setattr__(self, "anchor_count", len(self.anchors[0].slots) if self.anchors else 1)

    @property
    def partner_count(self) -> int:
        """Number of partner rows; 0 for a filter."""
        return len(self.partners[0].slots) if self.partners else 0

    @property
    def items(self) -> int:
        """Number of rows an ask can be put to: anchors of a filter, pairs of a join."""
        if not self.partners:
            return self.anchor_count
        return len(self.pairs.indices) if self.pairs is not None else self.anchor_count * self.partner_count


@dataclass(frozen=True)
class Answers:
    """What one ask found for some items, in the order in which they were computed.

    items: int64, the anchor's index (filter), or the pair's: its position in `pairs.indices`, or
    anchor * partner_count + partner where every pair is asked. values: float32, the margins [items] of a YesNo, the
    scores [items, labels] of Labels, of which an item's come together; NaN where `Answers.error` says why.
    """

    ask: int
    items: NDArray[np.int64]
    values: NDArray[np.float32]
    error: str | None = None

    @property
    def margins(self) -> NDArray[np.float32]:
        """The margin of each item: float32 [items]."""
        assert self.values.ndim == 1, "an ask for labels has scores"
        return self.values

    @property
    def scores(self) -> NDArray[np.float32]:
        """The log-probability of each label for each item: float32 [items, labels]."""
        assert self.values.ndim == 2, "a yes/no ask has margins"
        return self.values


@dataclass(frozen=True)
class Figures:
    """What a work order (or a query: figures add up) cost.

    prompts: of an ask for labels, one for each beginning of labels after which a token is read; prompt_tokens: length
    of all prompts as if each were computed alone; fresh_tokens: positions that entered the embedding; attention_pairs:
    query-key pairs; recomputed_tokens: the part of fresh_tokens computed again because the arena was too small to keep
    it; device_seconds: time of the chunks, split by their tokens. prefix_tokens_saved: what more would have been
    computed, had only whole segments been shared and not what texts begin with alike.
    """

    prompts: int = 0
    prompt_tokens: int = 0
    fresh_tokens: int = 0
    recomputed_tokens: int = 0
    attention_pairs: int = 0
    device_seconds: float = 0.0
    prefix_tokens_saved: int = 0

    @property
    def shared_tokens(self) -> int:
        """Prompt tokens that needed no computation of their own."""
        return self.prompt_tokens - self.fresh_tokens

    def __add__(self, other: Figures) -> Figures:
        return self.plus(other)

    def plus(self, other: Figures, device_seconds: float = 0.0) -> Figures:
        """The sum, with so many seconds more."""
        return Figures(
            self.prompts + other.prompts,
            self.prompt_tokens + other.prompt_tokens,
            self.fresh_tokens + other.fresh_tokens,
            self.recomputed_tokens + other.recomputed_tokens,
            self.attention_pairs + other.attention_pairs,
            self.device_seconds + other.device_seconds + device_seconds,
            self.prefix_tokens_saved + other.prefix_tokens_saved,
        )


@dataclass(frozen=True)
class Progress:
    """How far a running work order is: tokens computed and an upper bound of the tokens still to come.

    seconds_to_come: how long those take at the order's own rate so far, on a device that it shares with the others
    that run; None before anything is computed.
    """

    fresh_tokens: int
    tokens_to_come: int
    seconds_to_come: float | None = None


@dataclass(frozen=True)
class Rates:
    """What the device was measured to take, in seconds: a fresh token (linear layers and all else that grows with
    tokens), a query-key pair of attention, a cached token whose keys and values a chunk reads besides its own, and a
    chunk, whatever is in it.
    """

    fresh_token_s: float
    pair_s: float
    read_token_s: float
    chunk_s: float


@dataclass(frozen=True)
class ModelSizes:
    """Sizes of the loaded decoder, and the precision of its matrices and of everything else (`fp8`, `bfloat16` or
    `float32`); from these a planner knows what work costs.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    linear: str
    numbers: str


@dataclass(frozen=True)
class EngineInfo:
    """What the worker says of itself once the model is loaded. rates: None where none were measured; sizes: None where
    there is no model.
    """

    model: str
    architecture: str
    device: str
    dtype: str
    context_length: int
    arena_tokens: int
    chunk_tokens: int
    load_seconds: float
    rates: Rates | None = None
    sizes: ModelSizes | None = None


class Running(Protocol):
    """A submitted work order."""

    def answers(self) -> Iterator[Answers]:
        """Block for the next answers; ends when all are in. Raises EngineError if the worker fails."""
        ...

    def cancel(self) -> None:
        """Stop at the next chunk; `answers` then raises Cancelled. Harmless after the end."""
        ...

    def figures(self) -> Figures:
        """Cost so far; final once `answers` has ended."""
        ...

    def progress(self) -> Progress:
        """How far the order is."""
        ...


class Engine(Protocol):
    """The engine as its callers see it; every method may be called from any thread."""

    def info(self) -> EngineInfo:
        """Facts about the loaded model; blocks while it is loaded for the first time."""
        ...

    def submit(self, order: WorkOrder, cancel: threading.Event | None = None) -> Running:
        """Queue an order. Raises EngineError where the order can never run (a prompt over the context), and Cancelled
        where `cancel` is set while it waits for a worker.
        """
        ...

    def close(self) -> None:
        """Stop the worker; running orders fail."""
        ...
