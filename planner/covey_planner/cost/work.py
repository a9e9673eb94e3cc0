"""Work for the model in device-independent units, which add up; knows neither a device nor a plan."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """What some prompts cost, however fast a device is; estimates may be fractions.

    fresh: tokens computed. pairs: query-key pairs of attention, as the engine counts them (`Figures.attention_pairs`).
    read: cached tokens whose KV a chunk reads besides its own: every ask of a chunk on a resident prefix reads that
    prefix's. held: most KV tokens that are resident at once.
    """

    fresh: float = 0.0
    pairs: float = 0.0
    read: float = 0.0
    held: float = 0.0

    def __add__(self, other: Work) -> Work:
        """One after the other: the work adds up, and what is held at once is the greater of the two."""
        return Work(
            self.fresh + other.fresh,
            self.pairs + other.pairs,
            self.read + other.read,
            max(self.held, other.held),
        )

    def scaled(self, times: float) -> Work:
        """The same work so many times, one after the other."""
        return Work(self.fresh * times, self.pairs * times, self.read * times, self.held)

    def dominates(self, other: Work) -> bool:
        """Whether this is no dearer in any unit, so that no device prefers the other; true of equal work."""
        return (
            self.fresh <= other.fresh
            and self.pairs <= other.pairs
            and self.read <= other.read
            and self.held <= other.held
        )
