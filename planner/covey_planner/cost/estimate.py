"""A physical plan and statistics in, what each of its steps will cost out; never runs the model.

A step's prompts form a tree of segments, each computed once: what no text precedes once for all, what only the anchor
precedes once for each anchor, and the rest once for each pair. How many anchors and pairs are left is counted before
anything is answered, and multiplied by the odds of the answers they depend on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from covey_planner.cost.prompted import Encode, Prompted
from covey_planner.cost.reach import any_of, ended, reach
from covey_planner.cost.segments import Side
from covey_planner.cost.statistics import Counted, Counting, Selectivity
from covey_planner.cost.work import Work
from covey_planner.physical import (
    AskStep,
    CallKey,
    Domain,
    Given,
    Odds,
    PhysicalPlan,
    Question,
)

_UNKNOWN = 0.5
"""The share of rows left by a condition of which nothing is known."""


@dataclass(frozen=True)
class Asked:
    """A question's part of an estimate: of how many anchors or pairs it is asked, and the share of true answers
    (None where an answer is no truth). exact: no answer decides how many.
    """

    items: float
    selectivity: Selectivity | None
    exact: bool = True


@dataclass(frozen=True)
class StepEstimate:
    """What a step will cost.

    anchors, partners: distinct tuples of either side; items: anchors of a filter, pairs of a join. prompts and
    prompt_tokens: as `Figures` counts them. remembered: prompt tokens whose answers are known already. rows_exact:
    items is no estimate; tokens_exact: nor are the texts' tokens. alike: texts begin alike, and how much of that is
    computed once is an estimate.
    """

    anchors: float
    partners: float | None
    items: float
    questions: tuple[Asked, ...]
    prompts: float
    prompt_tokens: float
    work: Work
    rows_exact: bool
    tokens_exact: bool
    remembered: float = 0.0
    alike: bool = False

    @property
    def shared(self) -> float:
        """Prompt tokens that need no computation of their own."""
        return self.prompt_tokens - self.work.fresh - self.remembered

    @property
    def exact(self) -> bool:
        """Whether the work is counted, not estimated."""
        return self.tokens_exact and not self.alike and all(question.exact for question in self.questions)


def estimate(
    plan: PhysicalPlan, statistics: Counting, encode: Encode, chunk_tokens: int
) -> tuple[StepEstimate, ...]:
    """Each step's estimate. The plan has been lowered with what estimates need. chunk_tokens: of a forward pass."""
    estimator = _Estimator(statistics, Prompted(encode), chunk_tokens)
    return tuple(map(estimator.step, plan.steps))


@dataclass
class _Estimator:
    statistics: Counting
    prompted: Prompted
    chunk_tokens: int
    asked: dict[str, float] = field(default_factory=dict)
    steps: dict[CallKey, StepEstimate] = field(default_factory=dict)

    def step(self, step: AskStep) -> StepEstimate:
        anchors = self._side(step.anchors)
        partners = None if step.partners is None else self._side(step.partners)
        if partners is None:
            items, exact = anchors.count, anchors.exact
        else:
            items, exact = self._pairs(step, anchors, partners)
        if step.questions[0].kind == "count":
            return self._counted(step, anchors)
        likely = [self._likely(question) for question in step.questions]
        # As if each text had rows of all kinds by which it is decided what it is asked.
        shares, match = reach(step.questions, likely, step.entries[-1] if step.entries else 0)
        items, anchors_asked = ended(step, items, anchors.count, match)
        exact = exact and not step.entries and step.enough is None and not step.exists and step.groups is None
        tree = self.prompted.tree(step, (anchors, partners), items, anchors_asked, shares)
        lengths = [*anchors.lengths, *(partners.lengths if partners is not None else ())]
        found = StepEstimate(
            anchors=anchors_asked,
            partners=None if partners is None else partners.count,
            items=items,
            questions=tuple(
                Asked(items * part, share, exact and part in (0.0, 1.0))
                for part, share in zip(shares, likely, strict=True)
            ),
            prompts=tree.prompts,
            prompt_tokens=tree.prompt_tokens,
            work=tree.work(self.chunk_tokens),
            rows_exact=exact,
            tokens_exact=all(length.exact for length in lengths),
            alike=tree.alike,
        )
        for question, asked in zip(step.questions, found.questions, strict=True):
            self.asked[question.answers] = asked.items
            if question.key is not None:
                self.steps[question.key] = found
        return found

    def _counted(self, step: AskStep, anchors: Side) -> StepEstimate:
        """A step that the tokenizer answers."""
        self.asked[step.questions[0].answers] = anchors.count
        asked = (Asked(anchors.count, None, anchors.exact),)
        return StepEstimate(anchors.count, None, anchors.count, asked, 0, 0, Work(), anchors.exact, True)

    def _side(self, domain: Domain) -> Side:
        given = domain.given
        assert given is not None, "the plan was lowered without what estimates need"
        counted = self.statistics.domain(given, domain.arguments)
        left = counted.tuples.value - sum(self.asked.get(table, 0.0) for table in given.without)
        left = max(left, 0.0) * self._survivors(given, counted)
        exact = counted.tuples.exact and not given.odds and not given.without
        return Side(left, exact, counted.lengths)

    def _pairs(self, step: AskStep, anchors: Side, partners: Side) -> tuple[float, bool]:
        every = anchors.count * partners.count
        if step.pairs is None or step.pairs_given is None:
            return every, anchors.exact and partners.exact
        given = step.pairs_given
        pairs = self.statistics.tuples(given)
        counted = Counted(pairs, pairs, ())
        left = min(pairs.value * self._survivors(given, counted), every)
        return left, pairs.exact and not given.odds

    def _survivors(self, given: Given, counted: Counted) -> float:
        """The share of the tuples that are left by the answers they depend on."""
        rows = counted.rows.value / counted.tuples.value if counted.tuples.value else 1.0
        share = 1.0
        for odds in given.odds:
            each, tries = self._share(odds, given.relations, max(rows, 1.0))
            share *= any_of(each, tries)
        return share

    def _share(self, odds: Odds, relations: frozenset[str], rows: float) -> tuple[float, float]:
        """The share of rows for which the odds hold, and how many rows a tuple has to find one among."""
        if odds.kind == "open":
            return _UNKNOWN, 1.0
        if odds.kind == "ask":
            return self._answer(odds, relations, rows)
        parts = [self._share(part, relations, rows) for part in odds.parts]
        tries = max((tries for _, tries in parts), default=1.0)
        shares = [share for share, _ in parts]
        match odds.kind:
            case "not":
                return 1 - shares[0], tries
            case "all":
                return math.prod(shares), tries
            case "any":
                return 1 - math.prod(1 - share for share in shares), tries

    def _answer(self, odds: Odds, relations: frozenset[str], rows: float) -> tuple[float, float]:
        assert odds.key is not None
        share = self.statistics.selectivity(odds.key, odds.hint).value
        about, before = odds.anchors | odds.partners, self.steps.get(odds.key)
        if about <= relations:
            return share, 1.0
        if before is not None and odds.partners:
            if odds.anchors <= relations:
                return share, before.items / before.anchors if before.anchors else 1.0
            if odds.partners <= relations:
                return share, before.items / before.partners if before.partners else 1.0
        return share, rows

    def _likely(self, question: Question) -> Selectivity | None:
        if question.kind != "boolean" or question.key is None:
            return None
        return self.statistics.selectivity(question.key, question.hint)
