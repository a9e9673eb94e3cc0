"""What is to be ordered, as numbers: relations, the ordinary joins between them, AI conditions; no SQL, no statistics.

Whatever needs no model holds from the beginning: relations count the rows that their ordinary predicates leave, links
are the joins among them. Each AI condition (predicate) then reduces what the ones after it are asked about.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Literal

from covey_planner.cost.work import Work


@dataclass(frozen=True)
class Relation:
    """A relation. rows: how many its ordinary predicates leave."""

    name: str
    rows: float


@dataclass(frozen=True)
class Documents:
    """Texts of a relation (by number) that questions are about: different ones, and mean tokens of each."""

    relation: int
    distinct: float
    tokens: float


@dataclass(frozen=True)
class Link:
    """An ordinary join of two relations (by number).

    left_share: the share of the left rows that meet any right row, left_fan: how many those meet on average; and so
    the other way round.
    """

    left: int
    right: int
    left_share: float
    left_fan: float
    right_share: float
    right_fan: float

    @staticmethod
    def equal(
        left: int, right: int, rows: tuple[float, float], keys: tuple[float, float], common: float
    ) -> Link:
        """An equality. rows of both sides; keys: different values of both, `common` of them on both sides."""
        ours, theirs = max(keys[0], 1.0), max(keys[1], 1.0)
        common = min(common, ours, theirs)
        return Link(
            left,
            right,
            common / ours,
            max(1.0, rows[1] / theirs),
            common / theirs,
            max(1.0, rows[0] / ours),
        )

    @staticmethod
    def of(left: int, right: int, rows: tuple[float, float], selectivity: float) -> Link:
        """Any other predicate, true for a share of the pairs."""
        shares = [1 - (1 - min(selectivity, 1.0)) ** max(count, 1.0) for count in (rows[1], rows[0])]
        fans = [
            selectivity * count / share if share else 1.0
            for count, share in zip((rows[1], rows[0]), shares, strict=True)
        ]
        return Link(left, right, shares[0], fans[0], shares[1], fans[1])


@dataclass(frozen=True)
class Prompt:
    """Fixed tokens of a prompt.

    head: before the first document, computed once. document: for each anchor, in what the questions about it share.
    question: for each anchor, the question's own, before the partner. pair: for each pair, after the partner. shared:
    equal for prompts that one step can ask while their documents are there. again: whether the documents stand behind
    the question, so that each question computes them again.
    """

    head: float = 0.0
    document: float = 0.0
    question: float = 0.0
    pair: float = 0.0
    shared: Hashable = None
    again: bool = False


@dataclass(frozen=True)
class Side:
    """A way to ask a predicate: the numbers of the anchor's documents and, of a join, of the partner's.

    early: whether an anchor's first match settles it.
    """

    anchor: int
    partner: int | None
    prompt: Prompt
    early: bool = False


@dataclass(frozen=True)
class Share:
    """The share of true answers, surely between low and high."""

    value: float
    low: float
    high: float

    @staticmethod
    def sure(value: float) -> Share:
        """One that is known."""
        return Share(value, value, value)


@dataclass(frozen=True)
class Predicate:
    """An AI condition, or a value to be asked of the rows that are left.

    sides: how it may be asked, what is preferred among equals first; a join from either side, unless one is pinned.
    effect: what it does to the rows: "keep" those that it is true of (of a join, pairs), keep those of the outer side
    that have a true partner ("semi") or none ("anti"), or nothing ("none"). outer: the relation that such a join
    keeps rows of; its partners are nobody else's. asks: questions for each document; a boolean tree has several.
    after: predicates that must come before it, by number.
    """

    sides: tuple[Side, ...]
    selectivity: Share
    effect: Literal["keep", "semi", "anti", "none"] = "keep"
    outer: int = -1
    asks: float = 1.0
    after: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Problem:
    """All of it; the order of the predicates is the one that is kept among equals. chunk: tokens of one."""

    relations: tuple[Relation, ...]
    documents: tuple[Documents, ...]
    predicates: tuple[Predicate, ...]
    links: tuple[Link, ...] = ()
    chunk: float = 16_384.0


@dataclass(frozen=True)
class Choice:
    """One predicate in its place.

    side: the number of the chosen one; joined: whether it is asked while the documents of the one before it are
    there; documents, pairs: how many are expected (no pairs: a filter).
    """

    predicate: int
    side: int
    joined: bool
    documents: float
    pairs: float


@dataclass(frozen=True)
class Ordered:
    """An order and what it is expected to cost. complete: whether no order was left out."""

    choices: tuple[Choice, ...]
    work: Work = field(default_factory=Work)
    complete: bool = True
