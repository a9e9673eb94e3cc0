"""Contenders and the parts of a workload go in; each part is run by one after another, and a table of them comes out.

On a machine that does other work too, whatever slows one contender down for a while slows the others down as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@dataclass
class Contender:
    """One way to do the work of a part.

    run: takes a part's number; returns margins by item (NaN: not computed; None: computes none) and tokens computed.
    times: it runs one so manieth of every part, and what that took counts so often.
    cpu: CPU seconds of the process that does it so far.
    """

    name: str
    run: Callable[[int], tuple[Floats | None, int]]
    times: int = 1
    cpu: Callable[[], float] = time.process_time
    seconds: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)
    tokens: int = 0
    margins: dict[int, Floats] = field(default_factory=dict)

    def take(self, part: int) -> None:
        """Run a part and note what it took."""
        busy, began = self.cpu(), time.perf_counter()
        margins, tokens = self.run(part)
        self.seconds.append(time.perf_counter() - began)
        self.busy.append(self.cpu() - busy)
        self.tokens += tokens * self.times
        if margins is not None:
            self.margins[part] = margins

    @property
    def total(self) -> float:
        """Seconds of all parts."""
        return sum(self.seconds) * self.times

    @property
    def cpu_total(self) -> float:
        """CPU seconds of all parts."""
        return sum(self.busy) * self.times

    def differs_by(self, other: Contender) -> float:
        """The largest difference of two margins that both have; NaN where there are none."""
        gaps = [
            np.abs(self.margins[n] - other.margins[n]) for n in self.margins.keys() & other.margins.keys()
        ]
        return float(np.nanmax(np.concatenate(gaps))) if gaps else float("nan")


def race(contenders: list[Contender], parts: int) -> None:
    """Run every part by every contender, in turns; the first contender one part before, to warm up."""
    contenders[0].run(0)
    for part in range(parts):
        for contender in contenders:
            contender.take(part)


def table(contenders: list[Contender]) -> str:
    """Seconds, CPU seconds and their ratios to the first contender's, tokens, and differences of margins."""
    first = contenders[0]
    lines = [f"{'':34} {'seconds':>8} {'ratio':>6} {'CPU s':>8} {'ratio':>6} {'tokens':>8} {'margins':>8}"]
    for each in contenders:
        gap = each.differs_by(first)
        lines.append(
            f"{each.name:34} {each.total:8.2f} {each.total / first.total:6.2f} {each.cpu_total:8.2f} "
            f"{each.cpu_total / first.cpu_total:6.2f} {each.tokens:8d} {'-' if np.isnan(gap) else f'{gap:.0e}':>8}"
        )
    return "\n".join(lines)
