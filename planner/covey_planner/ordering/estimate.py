"""Sets of applied predicates in, distinct documents and pairs left of each out; numbers only, many sets at once.

Survival spreads along the joins like belief along a tree: a row lives if its own conditions hold and each neighbour
has a row for it that lives without it. That is exact in expectation for independent answers where the joins have no
cycle, and an upper bound in practice where they have one. Rows become distinct documents and pairs by Yao's formula:
a document lives while one of its rows does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covey_planner.ordering.problem import Predicate, Problem

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]
Masks = NDArray[np.int64]
"""Sets of predicates: bit p for number p."""

_LEAST = 1e-12


@dataclass(frozen=True)
class Left:
    """What is left of each set. documents: [sets, documents]; pairs: [sets, predicates], 0 for filters."""

    documents: Floats
    pairs: Floats


class Estimator:
    """The estimates of one problem and of others that differ in shares only: cases, by number."""

    def __init__(self, problem: Problem, *others: Problem) -> None:
        self._problem = problem
        self.true = np.array(
            [[each.selectivity.value for each in case.predicates] for case in (problem, *others)]
        )
        self._weights = np.log(np.maximum(self.true, _LEAST))
        size = len(problem.relations)
        self._rows = np.array([max(relation.rows, _LEAST) for relation in problem.relations])
        self._home = np.array([each.relation for each in problem.documents], np.int64)
        self._distinct = np.array([max(each.distinct, _LEAST) for each in problem.documents])
        self._copies = np.maximum(1.0, self._rows[self._home] / self._distinct)
        count = len(problem.predicates)
        # What selectivities count for: a relation, documents, a pair of relations; and which pairs become joined.
        self._own = np.zeros((count, size))
        self._text = np.zeros((count, len(self._home)))
        self._pair = np.zeros((count, size, size))
        self._joins = np.zeros((count, size, size))
        self._share, self._fan = np.ones((size, size)), np.tile(self._rows, (size, 1))
        self._linked = np.zeros((size, size), np.bool_)
        self._anti = [n for n, each in enumerate(problem.predicates) if each.effect == "anti"]
        for number, predicate in enumerate(problem.predicates):
            self._note(number, predicate)
        for link in problem.links:
            self._link(link.left, link.right, link.left_share, link.left_fan)
            self._link(link.right, link.left, link.right_share, link.right_fan)
        asked = [n for n, each in enumerate(problem.predicates) if each.sides[0].partner is not None]
        self._asked = np.array(asked, np.int64)
        self._anchor = np.array([problem.predicates[n].sides[0].anchor for n in asked], np.int64)
        self._partner = np.array([problem.predicates[n].sides[0].partner for n in asked], np.int64)
        self._bits = np.int64(1) << np.arange(count, dtype=np.int64)

    def _note(self, number: int, predicate: Predicate) -> None:
        side = predicate.sides[0]
        ours = self._home[side.anchor]
        if side.partner is None:
            if predicate.effect == "keep":
                self._own[number, ours] = self._text[number, side.anchor] = 1.0
            return
        theirs = self._home[side.partner]
        for here, there, documents in ((ours, theirs, side.partner), (theirs, ours, side.anchor)):
            self._fan[here, there] = min(self._fan[here, there], self._distinct[documents])
            if predicate.effect in ("keep", "semi"):
                self._pair[number, here, there] = self._joins[number, here, there] = 1.0

    def _link(self, here: int, there: int, share: float, fan: float) -> None:
        """Add one direction of a link; a second one between two relations thins out what the first one joins."""
        if self._linked[here, there]:
            known = self._share[here, there] * self._fan[here, there]
            mean = known * share * fan / self._rows[there]
            self._share[here, there] = min(self._share[here, there], share, mean)
            self._fan[here, there] = max(1.0, mean / max(self._share[here, there], _LEAST))
        else:
            self._share[here, there], self._fan[here, there] = share, fan
            self._linked[here, there] = True

    def left(self, masks: Masks, cases: Ints | int = 0) -> Left:
        """What is left once all predicates of a set hold, for each set. cases: whose shares hold."""
        applied = ((masks[:, None] & self._bits) != 0).astype(np.float64)
        weighted, shares = applied * self._weights[cases], np.broadcast_to(self.true[cases], applied.shape)
        size = len(self._rows)
        joined = self._linked | ((applied @ self._joins.reshape(len(self._bits), -1)) > 0).reshape(
            -1, size, size
        )
        true = np.exp((weighted @ self._pair.reshape(len(self._bits), -1)).reshape(-1, size, size))
        own = weighted @ self._own
        for number in self._anti:
            own += applied[:, number, None] * self._without(number, np.exp(own), shares[:, number])
        message, gates = self._spread(own, joined, true)
        documents = self._documents(own, weighted @ self._text, gates)
        pairs = np.zeros((len(masks), len(self._bits)))
        if len(self._asked):
            reach = _Reach(joined, true, message, own, self)
            pairs[:, self._asked] = self._pairs(reach, documents)
        return Left(documents, pairs)

    def _without(self, number: int, own: Floats, shares: Floats) -> Floats:
        """What a predicate that keeps rows without a partner leaves of each relation, as logarithms."""
        predicate = self._problem.predicates[number]
        side = predicate.sides[0]
        assert side.partner is not None
        ends = (self._home[side.anchor], self._home[side.partner])
        here, there = ends if predicate.outer == ends[0] else ends[::-1]
        meets = _any(own[:, there] * shares, self._fan[here, there])
        kept = np.zeros_like(own)
        kept[:, here] = np.log(np.maximum(1 - self._share[here, there] * meets, _LEAST))
        return kept

    def _spread(self, own: Floats, joined: Flags, true: Floats) -> tuple[Floats, Floats]:
        """Survival of each relation's rows apart from one neighbour [sets, relation, neighbour]; and the logarithm of
        the share that each neighbour leaves.
        """
        size = len(self._rows)
        message = np.exp(np.repeat(own[:, :, None], size, axis=2))
        gates = np.zeros_like(message)
        if not joined.any():
            return message, gates
        for _ in range(max(1, size - 1)):
            meets = self._share * _any(true * message.transpose(0, 2, 1), self._fan)
            gates = np.where(joined, np.log(np.maximum(meets, _LEAST)), 0.0)
            after = np.exp((own + gates.sum(axis=2))[:, :, None] - gates)
            settled = np.abs(after - message).max(initial=0.0) < 1e-6
            message = after
            if settled:
                break
        return message, gates

    def _documents(self, own: Floats, text: Floats, gates: Floats) -> Floats:
        """Documents left: conditions on the text hold for all of its rows alike, others for each by itself."""
        alike = np.where(self._linked, 0.0, gates).sum(axis=2)
        alone = (own + gates.sum(axis=2) - alike)[:, self._home] - text
        together = np.exp(alike[:, self._home] + text)
        found: Floats = self._distinct * together * _any(np.exp(np.minimum(alone, 0.0)), self._copies)
        return found

    def _pairs(self, reach: _Reach, documents: Floats) -> Floats:
        """Pairs left for each question about pairs."""
        anchor, partner = self._anchor, self._partner
        ours, theirs = self._home[anchor], self._home[partner]
        possible = documents[:, anchor] * documents[:, partner]
        # Answers about two texts hold for all pairs of rows with them alike, whatever else links rows for each pair.
        alike = reach.joined[:, ours, theirs] & ~self._linked[ours, theirs]
        rows = np.where(
            alike, self._distinct[anchor] * self._distinct[partner], self._rows[ours] * self._rows[theirs]
        )
        copies = np.where(alike, 1.0, self._copies[anchor] * self._copies[partner])
        each = rows * reach.share(ours, theirs) / np.maximum(possible * copies, _LEAST)
        linked = possible * _any(np.minimum(each, 1.0), copies)
        found: Floats = np.where(reach.connected[:, ours, theirs], linked, possible)
        return found


class _Reach:
    """Which relations are connected, and which share of two relations' row pairs."""

    def __init__(
        self, joined: Flags, true: Floats, message: Floats, own: Floats, estimator: Estimator
    ) -> None:
        self.joined = joined
        self._message = message
        rows = estimator._rows
        pair = np.minimum(estimator._share * estimator._fan / rows, 1.0)
        direct = np.where(joined, true * np.where(estimator._linked, pair, 1.0), 0.0)
        size = len(rows)
        self.connected = joined.copy()
        self._direct = direct
        self._share = direct
        weight = rows * np.exp(own)
        for _ in range(size - 2):
            more = self.connected | ((self.connected.astype(np.int8) @ joined.astype(np.int8)) > 0)
            if (more == self.connected).all():
                break
            ways = np.log1p(-np.minimum(self._share[:, :, :, None] * direct[:, None, :, :], 1 - 1e-9))
            through = -np.expm1((ways * weight[:, None, :, None]).sum(axis=2))
            self._share = np.where(self._share > 0, self._share, through)
            self.connected = more

    def share(self, ours: Ints, theirs: Ints) -> Floats:
        """The share of all row pairs of two relations that live, where they are connected: [sets, pairs]."""
        direct = self._direct[:, ours, theirs] > 0
        if direct.all():
            first, last = np.broadcast_to(theirs, direct.shape), np.broadcast_to(ours, direct.shape)
        else:
            ways = self._direct[:, ours, :] * self._share.transpose(0, 2, 1)[:, theirs, :]
            back = self._direct[:, theirs, :] * self._share.transpose(0, 2, 1)[:, ours, :]
            first = np.where(direct, theirs, ways.argmax(axis=2))
            last = np.where(direct, ours, back.argmax(axis=2))
        sets = np.arange(len(direct))[:, None]
        lives = self._message[sets, ours, first] * self._message[sets, theirs, last]
        found: Floats = self._share[:, ours, theirs] * lives
        return found


def _any(each: Floats, times: Floats | float) -> Floats:
    """The probability that one of so many happens, each with this probability."""
    found: Floats = -np.expm1(times * np.log1p(-np.minimum(each, 1 - 1e-12)))
    return found
