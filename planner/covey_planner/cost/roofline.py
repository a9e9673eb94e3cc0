"""Work in, seconds on a device out: its limit by published peaks, and a prediction by measured rates.

The roofline of each module is max(bytes / bandwidth, FLOPs / peak at its precision); modules run one after another,
so theirs add up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from covey_planner.cost.devices import DeviceProfile
from covey_planner.cost.shape import BYTES, Linear, ModelShape
from covey_planner.cost.work import Work


@dataclass(frozen=True)
class Rates:
    """What a device was measured to take, in seconds: a fresh token, a query-key pair, a cached token read, and a
    chunk, whatever is in it. chunk_tokens: tokens of a chunk.
    """

    fresh_token_s: float
    pair_s: float
    read_token_s: float
    chunk_s: float
    chunk_tokens: int

    def seconds(self, work: Work) -> float:
        """Predicted seconds of some work."""
        chunks = math.ceil(work.fresh / self.chunk_tokens)
        return (
            work.fresh * self.fresh_token_s
            + work.pairs * self.pair_s
            + work.read * self.read_token_s
            + chunks * self.chunk_s
        )


@dataclass(frozen=True)
class Roofline:
    """The least seconds that a device can take for a model's work. chunk_tokens: tokens of one forward pass, by which
    the matrices are read once.
    """

    shape: ModelShape
    device: DeviceProfile
    chunk_tokens: int

    @property
    def fresh_token_s(self) -> float:
        """All matrices and the writing of keys and values, a fresh token."""
        linears = sum(self._linear_s(linear) for linear in self.shape.linears)
        return self.shape.layers * linears + self.shape.kv_bytes / self.device.bandwidth

    @property
    def pair_s(self) -> float:
        """Attention, a query-key pair; its operands stay on the chip."""
        return self.shape.pair_flops / self.device.peak(self.shape.numbers)

    @property
    def read_token_s(self) -> float:
        """Reading the keys and values of a cached token."""
        return self.shape.kv_bytes / self.device.bandwidth

    @property
    def answer_s(self) -> float:
        """The cut output head, an answer."""
        return self.shape.head_rows * self.shape.width * 2 / self.device.peak(self.shape.numbers)

    def seconds(self, work: Work, answers: float = 0.0) -> float:
        """The limit of some work that gives so many answers: attention computes or reads, whichever takes longer."""
        attention = max(work.pairs * self.pair_s, work.read * self.read_token_s)
        return work.fresh * self.fresh_token_s + attention + answers * self.answer_s

    def _linear_s(self, linear: Linear) -> float:
        """A matrix, a token: its share of the matrix's bytes, and what goes in and comes out."""
        shape = self.shape
        moved = linear.inputs * linear.outputs * BYTES[shape.linear] / self.chunk_tokens
        moved += linear.inputs * BYTES[shape.linear] + linear.outputs * BYTES[shape.numbers]
        return max(moved / self.device.bandwidth, linear.flops / self.device.peak(shape.linear))


@dataclass(frozen=True)
class Pricing:
    """A device as plans see it. limit: None where its peaks are not known; rates: None where nothing was measured;
    dollars_per_hour: 0 for no price.
    """

    limit: Roofline | None = None
    rates: Rates | None = None
    dollars_per_hour: float = 0.0

    def limit_seconds(self, work: Work, answers: float = 0.0) -> float | None:
        """The least that the device can take by its peaks."""
        return None if self.limit is None else self.limit.seconds(work, answers)

    def seconds(self, work: Work, answers: float = 0.0) -> float | None:
        """What it is likely to take: by measured rates, else the limit; None where neither is known."""
        return self.limit_seconds(work, answers) if self.rates is None else self.rates.seconds(work)

    def dollars(self, seconds: float | None) -> float | None:
        """The price of the device for so long; None where there is none."""
        return (
            None if seconds is None or not self.dollars_per_hour else seconds * self.dollars_per_hour / 3600
        )
