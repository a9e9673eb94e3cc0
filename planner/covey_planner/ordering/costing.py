"""What ordering goes by, in one record: statistics, a price for work, and how fixed text becomes tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from covey_planner.call import Call
from covey_planner.cost.prompted import Encode
from covey_planner.cost.statistics import DEFAULT, CallKey, Selectivity, Statistics, call_key
from covey_planner.cost.work import Work
from covey_planner.lowering.steps import prompt_of
from covey_planner.ordering.lengths import lengths
from covey_planner.ordering.problem import Prompt
from covey_planner.profiles import PromptProfile


@dataclass(frozen=True)
class Costing:
    """price: seconds of some work, None where no device is known; then fresh tokens decide, and pairs a little.

    chunk_tokens: of one forward pass. assumed: shares of true answers, whatever the statistics say. What prompts take
    is kept.
    """

    statistics: Statistics
    encode: Encode
    price: Callable[[Work], float | None] | None = None
    chunk_tokens: int = 16_384
    assumed: Mapping[CallKey, Selectivity] = field(default_factory=dict)
    _prompts: dict[object, Prompt] = field(default_factory=dict)

    def prompt(self, call: Call, profile: PromptProfile) -> Prompt:
        """The fixed tokens of a call's prompt; profile: always the same one."""
        if call.identity not in self._prompts:
            self._prompts[call.identity] = lengths(prompt_of(call, profile), self.encode)
        return self._prompts[call.identity]

    def selectivity(self, call: Call) -> Selectivity:
        """The share of true answers to a call."""
        key = call_key(call)
        found = self.assumed.get(key) or self.statistics.selectivity(key, call.selectivity)
        if call.accepted is not None and found.source == "default":
            return self.any_label(call, call.accepted)
        return found

    def any_label(self, call: Call, labels: Sequence[str]) -> Selectivity:
        """The share of answers that are one of some labels; all labels are equally likely where nothing is known."""
        key = call_key(call)
        keys = [replace(key, label=label) for label in labels]
        known = [self.assumed.get(each) or self.statistics.selectivity(each) for each in keys]
        if not known or any(each.source in ("hint", "default") for each in known):
            share = len(labels) / len(call.labels)
            return Selectivity(share, min(share, DEFAULT.low), max(share, DEFAULT.high), "default")
        value, low, high = (
            min(1.0, sum(getattr(each, name) for each in known)) for name in ("value", "low", "high")
        )
        return Selectivity(value, low, high, known[0].source, known[0].answers)

    def seconds(self, work: Work) -> float:
        """The price, in seconds or in tokens."""
        seconds = None if self.price is None else self.price(work)
        return work.fresh + 1e-4 * work.pairs + 1e-3 * work.read if seconds is None else seconds
