"""A SELECT on its way from blocks to steps: what is known of its rows so far; holds no SQL of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from covey_planner.logical import Block, Source
from covey_planner.lowering.domains import Link, Rows
from covey_planner.lowering.ending import Ending


@dataclass(frozen=True)
class Frame:
    """A block while it is lowered; rows and joined grow.

    outer: the rows of the SELECT around a subquery; ending: what may end its last filter early; joined: by site, what
    the residual reads where an answer table is joined in; lists: the same, by the sites of a list of labels; inside:
    it is the pairs of a join, whose ON sees no answer table that is joined into the block.
    """

    block: Block
    source: Source
    rows: Rows
    outer: Rows | None
    ending: Ending | None
    joined: dict[int, str] = field(default_factory=dict)
    lists: dict[tuple[int, ...], str] = field(default_factory=dict)
    inside: bool = False

    def reach(self, guards: Sequence[Link]) -> Rows:
        """The rows for a domain query: this block's and those around it, under additional conditions."""
        rows = replace(self.rows, links=[*self.rows.links, *guards])
        return rows.known() if self.outer is None else rows.inside(self.outer)

    @property
    def insertable(self) -> bool:
        """Whether answer tables can be joined into the block's FROM."""
        return self.source.insertable and bool(self.source.items) and not self.inside
