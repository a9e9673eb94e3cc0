"""A physical plan and statistics in, what each of its steps will cost out; never runs the model.

A step's prompts form a tree of segments, each computed once: what no text precedes once for all, what only the anchor
precedes once for each anchor, and the rest once for each pair. How many anchors and pairs are left is counted before
anything is answered, and multiplied by the odds of the answers they depend on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from covey_planner.cost.statistics import Counted, Counting, Lengths, Selectivity
from covey_planner.cost.work import Work
from covey_planner.physical import (
    MATCH,
    AnchorText,
    AskStep,
    CallKey,
    Domain,
    Given,
    Odds,
    PartnerText,
    PhysicalPlan,
    Question,
    Segment,
    Text,
)

Encode = Callable[[str, bool], Sequence[int]]
"""The tokens of a fixed text; whether special tokens are recognized in it."""

_HEAD, _ANCHOR, _ITEM = range(3)

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
    items is no estimate; tokens_exact: nor are the texts' tokens.
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

    @property
    def shared(self) -> float:
        """Prompt tokens that need no computation of their own."""
        return self.prompt_tokens - self.work.fresh - self.remembered

    @property
    def exact(self) -> bool:
        """Whether the work is counted, not estimated."""
        return self.tokens_exact and all(question.exact for question in self.questions)


def estimate(
    plan: PhysicalPlan, statistics: Counting, encode: Encode, chunk_tokens: int
) -> tuple[StepEstimate, ...]:
    """Each step's estimate. The plan has been lowered with what estimates need. chunk_tokens: of a forward pass."""
    estimator = _Estimator(statistics, encode, chunk_tokens)
    return tuple(map(estimator.step, plan.steps))


@dataclass(frozen=True)
class _Side:
    """The anchors or partners that are left. exact: no answer decides how many."""

    count: float
    exact: bool
    lengths: tuple[Lengths, ...]


@dataclass
class _Estimator:
    statistics: Counting
    encode: Encode
    chunk_tokens: int
    asked: dict[str, float] = field(default_factory=dict)
    steps: dict[CallKey, StepEstimate] = field(default_factory=dict)
    texts: dict[tuple[str, bool], tuple[int, ...]] = field(default_factory=dict)

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
        reach, match = _reach(step.questions, likely)
        items, anchors_asked = _ended(step, items, anchors.count, match)
        exact = exact and step.enough is None and not step.exists
        tree = _Tree(anchors, partners, items, anchors_asked)
        for question, share in zip(step.questions, reach, strict=True):
            if question.kind != "count":
                self._add(tree, step.prefix, question, share)
        lengths = [*anchors.lengths, *(partners.lengths if partners is not None else ())]
        found = StepEstimate(
            anchors=anchors_asked,
            partners=None if partners is None else partners.count,
            items=items,
            questions=tuple(
                Asked(items * part, share, exact and part in (0.0, 1.0))
                for part, share in zip(reach, likely, strict=True)
            ),
            prompts=tree.prompts,
            prompt_tokens=tree.prompt_tokens,
            work=tree.work(self.chunk_tokens),
            rows_exact=exact,
            tokens_exact=all(length.exact for length in lengths),
        )
        for question, asked in zip(step.questions, found.questions, strict=True):
            self.asked[question.answers] = asked.items
            if question.key is not None:
                self.steps[question.key] = found
        return found

    def _counted(self, step: AskStep, anchors: _Side) -> StepEstimate:
        """A step that the tokenizer answers."""
        self.asked[step.questions[0].answers] = anchors.count
        asked = (Asked(anchors.count, None, anchors.exact),)
        return StepEstimate(anchors.count, None, anchors.count, asked, 0, 0, Work(), anchors.exact, True)

    def _side(self, domain: Domain) -> _Side:
        given = domain.given
        assert given is not None, "the plan was lowered without what estimates need"
        counted = self.statistics.domain(given, domain.arguments)
        left = counted.tuples.value - sum(self.asked.get(table, 0.0) for table in given.without)
        left = max(left, 0.0) * self._survivors(given, counted)
        exact = counted.tuples.exact and not given.odds and not given.without
        return _Side(left, exact, counted.lengths)

    def _pairs(self, step: AskStep, anchors: _Side, partners: _Side) -> tuple[float, bool]:
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
            share *= _any_of(each, tries)
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

    def _add(self, tree: _Tree, prefix: Sequence[Segment], question: Question, share: float) -> None:
        """Add a question's prompts to the tree of segments."""
        path: tuple[Segment, ...] = ()
        before = 0.0
        for segment in (*prefix, *question.suffix):
            if segment == Text(""):
                continue
            path = (*path, segment)
            size = len(self._tokens(segment.text, True)) if isinstance(segment, Text) else 0
            before += tree.extend(path, before, size, share)
        ends: dict[tuple[int, ...], int] = {(): 0}
        if question.labels:
            end = self._tokens(question.end, True)
            labels = [self._tokens(text, False) + end for _, text in question.labels]
            ends |= {label[:n]: n for label in labels for n in range(1, len(label))}
        for beginning, depth in ends.items():
            if depth:
                label = Text(f"label {beginning}")
                tree.add((*path, label), _Node(tree.items * share, 1.0, 1.0, before + depth - 1, _ITEM))
            tree.answered(share, before + depth)

    def _tokens(self, text: str, special: bool) -> tuple[int, ...]:
        known = self.texts.get((text, special))
        if known is None:
            known = self.texts[text, special] = tuple(self.encode(text, special))
        return known


@dataclass(frozen=True)
class _Node:
    """A segment below its parents: how often it is computed, its mean tokens and their mean square, the mean tokens
    before it, and whether it belongs to nobody, an anchor, or an item.
    """

    times: float
    tokens: float
    square: float
    before: float
    level: int


class _Tree:
    """The segments of a step's prompts, each with how often it is computed."""

    def __init__(self, anchors: _Side, partners: _Side | None, items: float, asked: float) -> None:
        self.prompts = 0.0
        self.prompt_tokens = 0.0
        self.items = items
        self._anchors, self._partners, self._asked = anchors, partners, asked
        self._nodes: dict[tuple[Segment, ...], _Node] = {}

    def extend(self, path: tuple[Segment, ...], before: float, fixed: int, share: float) -> float:
        """Add the last segment of a path; its mean tokens in a prompt."""
        match path[-1]:
            case Text():
                mean, square, each = float(fixed), float(fixed) ** 2, float(fixed)
            case AnchorText(argument):
                mean, square, each = _moments(self._anchors, argument)
            case PartnerText(argument):
                assert self._partners is not None
                mean, square, each = _moments(self._partners, argument)
        anchors = {part.argument for part in path if isinstance(part, AnchorText)}
        partners = {part.argument for part in path if isinstance(part, PartnerText)}
        if partners:
            assert self._partners is not None
            times = self.items * share * _distinct(self._partners, partners)
            node = _Node(times, mean, square, before, _ITEM)
        elif anchors:
            times = self._anchors_of(share) * _distinct(self._anchors, anchors)
            node = _Node(times, mean, square, before, _ANCHOR)
        else:
            node = _Node(1.0 if self.items * share else 0.0, mean, square, before, _HEAD)
        self.add(path, node)
        return each

    def add(self, path: tuple[Segment, ...], node: _Node) -> None:
        """Add a segment; of questions that share it, the one that needs it most often counts."""
        known = self._nodes.get(path)
        if known is None or known.times < node.times:
            self._nodes[path] = node

    def answered(self, share: float, tokens: float) -> None:
        """Count the prompts of a question, each of so many tokens."""
        self.prompts += self.items * share
        self.prompt_tokens += self.items * share * tokens

    def work(self, chunk_tokens: int) -> Work:
        """All of it."""
        nodes = self._nodes.values()
        fresh = math.fsum(node.times * node.tokens for node in nodes)
        pairs = math.fsum(
            node.times * (node.tokens * node.before + (node.square + node.tokens) / 2) for node in nodes
        )
        head = math.fsum(node.times * node.tokens for node in nodes if node.level == _HEAD)
        below = math.fsum(node.times * node.tokens for node in nodes if node.level == _ITEM)
        anchors, each = self._shared_anchors()
        chunks = fresh / chunk_tokens
        read = head * max(chunks, 1.0) if fresh > head else 0.0
        read += anchors * each * max(1.0, below / max(self._asked, 1.0) / chunk_tokens) if each else 0.0
        held = head if fresh > head else 0.0
        return Work(fresh, pairs, read, held + (min(anchors * each, max(chunk_tokens, each)) if each else 0))

    def _anchors_of(self, share: float) -> float:
        if self._partners is None or share in (0.0, 1.0) or not self._asked:
            return self._asked * share
        return self._asked * _any_of(share, self.items / self._asked)

    def _shared_anchors(self) -> tuple[float, float]:
        """Anchors whose tokens several prompts go on from, and the tokens of each; 0 where none is shared."""
        parents = {path[:-1] for path in self._nodes}
        several = {path for path in parents if sum(other[:-1] == path for other in self._nodes) > 1}
        paired = self._partners is not None
        nodes = [
            node
            for path, node in self._nodes.items()
            if node.level == _ANCHOR and (paired or any(path == end[: len(path)] for end in several))
        ]
        return self._asked, math.fsum(node.tokens for node in nodes)


def _moments(side: _Side, argument: int) -> tuple[float, float, float]:
    """Of an argument's texts: mean tokens, mean square, and mean tokens over all tuples."""
    lengths = side.lengths[argument]
    square = lengths.squares / lengths.texts if lengths.texts else 0.0
    return lengths.mean, square, lengths.mean if lengths.each is None else lengths.each


def _distinct(side: _Side, arguments: set[int]) -> float:
    """The share of a side's tuples that differ in the first of its arguments, up to the last of these."""
    last = side.lengths[-1].texts
    return side.lengths[max(arguments)].texts / last if last else 0.0


def _reach(questions: Sequence[Question], likely: Sequence[Selectivity | None]) -> tuple[list[float], float]:
    """The share of items that each question is put to, and the share that ends with a match."""
    reach = [1.0, *[0.0] * (len(questions) - 1)]
    match = 0.0
    for number, (question, found) in enumerate(zip(questions, likely, strict=True)):
        share = 1.0 if found is None else found.value
        branches = {question.on_true: share, question.on_false: 1 - share}
        if len(branches) == 1:
            branches[question.on_true] = 1.0
        for target, part in branches.items():
            if target == MATCH:
                match += reach[number] * part
            elif target >= 0:
                reach[target] += reach[number] * part
    return reach, min(match, 1.0)


def _ended(step: AskStep, items: float, anchors: float, match: float) -> tuple[float, float]:
    """Items and anchors that are asked where a step ends early."""
    partners = items / anchors if anchors else 0.0
    if step.exists and match:
        items = min(items, anchors * _any_of(match, partners) / match)
    if step.enough is not None and match:
        each = _any_of(match, partners) if step.exists else match * max(partners, 1.0)
        wanted = min(anchors, step.enough / each) if each else anchors
        items, anchors = items * wanted / anchors if anchors else 0.0, wanted
    return items, anchors


def _any_of(share: float, tries: float) -> float:
    """The odds that one of so many is true."""
    return 1.0 - float((1.0 - share) ** tries)
