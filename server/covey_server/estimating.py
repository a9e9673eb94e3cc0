"""What estimates need to know: the device and its price, the model's tokens, what is stored and what was answered.

Engine and configuration in, options and statistics for the planner out; never runs the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import get_args

import duckdb
from covey_engine.prefill.api import Engine, EngineInfo, ModelSizes
from covey_planner.cost.devices import DeviceProfile, datasheet, measure_cpu
from covey_planner.cost.kept import KeptFigures
from covey_planner.cost.roofline import Pricing, Rates, Roofline
from covey_planner.cost.shape import ModelShape, Precision
from covey_planner.cost.stored import StoredStatistics
from covey_planner.plan import PlanOptions
from covey_storage.library import TokenLibrary

from covey_server.remembered import Remembered


@dataclass(frozen=True)
class Prices:
    """Dollars for an hour of a device. by_device: by a part of its name, whatever case; else `otherwise`; 0: none."""

    otherwise: float = 0.0
    by_device: Mapping[str, float] = field(default_factory=dict)

    def of(self, device: str) -> float:
        """The price of a device by its driver's name."""
        named = (price for name, price in self.by_device.items() if name.lower() in device.lower())
        return next(named, self.otherwise)


@dataclass(frozen=True)
class Estimating:
    """The running model as estimates see it. remembered: what it was asked before, and how often that was true; kept:
    what was counted of tables.
    """

    engine: Engine
    library: TokenLibrary
    prices: Prices = field(default_factory=Prices)
    remembered: Remembered = field(default_factory=Remembered)
    kept: KeptFigures = field(default_factory=KeptFigures)

    def changed(self, names: frozenset[str], tables: frozenset[str]) -> None:
        """A statement with these words in it (lower case) has written something. tables: those that are there."""
        self.remembered.forget(names, tables)
        self.kept.forget(names)

    def options(self, options: PlanOptions) -> PlanOptions:
        """The options with what estimates need; waits where the model is being loaded."""
        return replace(
            options,
            encode=self.library.tokenizer.encode,
            chunk_tokens=self._info.chunk_tokens,
            pricing=self.pricing,
        )

    def statistics(self, cursor: duckdb.DuckDBPyConnection) -> StoredStatistics:
        """Statistics of what a cursor sees, for one statement."""
        return StoredStatistics(cursor, self.library, in_transaction(cursor), self.remembered, kept=self.kept)

    @cached_property
    def pricing(self) -> Pricing:
        """The device's peaks, known or measured, its measured rates, and its price."""
        info = self._info
        shape, device = _shape(info.sizes), _device(info.device)
        limit = None
        if shape is not None and device is not None:
            limit = Roofline(shape, device, info.chunk_tokens)
        rates = None
        if info.rates is not None:
            rates = Rates(
                info.rates.fresh_token_s,
                info.rates.pair_s,
                info.rates.read_token_s,
                info.rates.chunk_s,
                info.chunk_tokens,
            )
        return Pricing(limit, rates, self.prices.of(info.device))

    @cached_property
    def _info(self) -> EngineInfo:
        return self.engine.info()


def in_transaction(cursor: duckdb.DuckDBPyConnection) -> bool:
    """Whether a transaction is open; outside one every statement has its own."""
    first, second = (cursor.execute("SELECT txid_current()").fetchall() for _ in range(2))
    return bool(first == second)


def _shape(sizes: ModelSizes | None) -> ModelShape | None:
    """The sizes as the cost model has them; None for a precision that it does not know."""
    if sizes is None:
        return None
    precisions: dict[str, Precision] = {name: name for name in get_args(Precision)}
    linear, numbers = precisions.get(sizes.linear), precisions.get(sizes.numbers)
    if linear is None or numbers is None:
        return None
    return ModelShape(
        layers=sizes.layers,
        width=sizes.hidden,
        heads=sizes.heads,
        kv_heads=sizes.kv_heads,
        head_width=sizes.head_dim,
        mlp_width=sizes.intermediate,
        linear=linear,
        numbers=numbers,
    )


def _device(name: str) -> DeviceProfile | None:
    return measure_cpu() if name == "cpu" else datasheet(name)
