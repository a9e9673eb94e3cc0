"""A block's AI conditions in, the abstract problem of their order out; never reorders anything itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from covey_planner.binding.deciding import test_of
from covey_planner.call import Call
from covey_planner.logical import All, Ask, Block, Condition, Mixed, Value, filters, is_cheap, leaves
from covey_planner.ordering.costing import Costing
from covey_planner.ordering.labels import accepted, labelled
from covey_planner.ordering.problem import Documents, Predicate, Problem, Prompt, Share, Side
from covey_planner.ordering.sides import Sides
from covey_planner.ordering.sources import Sources
from covey_planner.ordering.trees import Odds, shortest
from covey_planner.profiles import PromptProfile
from covey_planner.rules.share_documents import documents

_UNKNOWN = Share(0.5, 0.05, 0.95)


@dataclass(frozen=True)
class Unit:
    """A condition or a value that is one predicate of the problem.

    call: the one that decides how it is asked; calls: the call as asked from each side, None where it is not asked by
    itself. anchors: of a tree of calls that may be asked from several sides, a relation of each anchor.
    """

    condition: Condition | None
    call: Call | None = None
    calls: tuple[Call, ...] = ()
    anchors: tuple[str, ...] = ()


class Poser:
    """Poses the problem of one block. cheapest: whether anchors are chosen; decided: those that are."""

    def __init__(
        self,
        sources: Sources,
        costing: Costing,
        profile: PromptProfile,
        cheapest: bool,
        decided: Sides,
    ) -> None:
        self._sources = sources
        self._costing = costing
        self._profile = profile
        self._cheapest = cheapest
        self._decided = decided
        self._documents: list[Documents] = []
        self._numbers: dict[object, int] = {}
        # Of a subquery of which some rows decide its relations: then a first match settles rows of the others.
        self._own: frozenset[str] | None = None

    def pose(self, block: Block) -> tuple[Problem, tuple[Unit, ...]]:
        """The problem and, for each of its predicates, what it stands for; conditions in their order, then values."""
        if test_of(block.select) is not None:
            self._own = filters(block.plan)[0].relations
        units: list[Unit] = []
        predicates: list[Predicate] = []
        barrier: int | None = None
        for condition in filters(block.plan)[1]:
            for part in () if is_cheap(condition) else self._parts(condition):
                before = frozenset(range(len(units)))
                unit, predicate = self._condition(part)
                if predicate is None:
                    # What cannot be told comes where it stands: after what is before it, before what is after it.
                    barrier, predicate = len(units), _unknown(before)
                elif barrier is not None:
                    predicate = replace(predicate, after=predicate.after | {barrier})
                units.append(unit)
                predicates.append(predicate)
        every = frozenset(range(len(units)))
        shared = {side.prompt.shared for predicate in predicates for side in predicate.sides}
        asked = {unit.call.identity for unit in units if unit.call is not None}
        for value in _values(block):
            if value.call.identity in asked:
                continue
            posed = self._asked(value.call, every)
            if posed is None:
                continue
            unit, predicate = posed
            if len(predicate.sides) > 1 or predicate.sides[0].prompt.shared in shared:
                asked.add(value.call.identity)
                units.append(replace(unit, condition=None))
                predicates.append(replace(predicate, effect="none"))
        known = self._documents or [Documents(0, 1.0, 1.0)]
        problem = Problem(
            self._sources.relations,
            tuple(known),
            tuple(predicates),
            tuple(self._sources.links),
            float(self._costing.chunk_tokens),
        )
        return problem, tuple(units)

    def odds(self, condition: Condition) -> Odds:
        """Of a tree of calls, with its parts in the order that they have."""
        return shortest(condition, self._question, self._share, keep=True)[1]

    def _condition(self, condition: Condition) -> tuple[Unit, Predicate | None]:
        """A condition as a predicate; None where it is no tree of calls about the same documents."""
        found = [leaf.call for leaf in leaves(condition) if isinstance(leaf, Ask)]
        if documents(condition) is not None:
            posed = self._asked(found[0], frozenset())
            if posed is not None:
                unit, predicate = posed
                if found[0].kind == "label":
                    predicate = _alone(predicate)
                condition, odds = shortest(condition, self._question, self._share)
                if len({call.identity for call in found}) > 1:
                    # The calls of a tree stay on one side, whichever that is.
                    unit, predicate = self._tree(unit, predicate, found)
                return replace(unit, condition=condition), replace(
                    predicate, selectivity=odds.true, asks=odds.asks
                )
        answer = labelled(condition)
        if answer is not None and (posed := self._asked(answer, frozenset())) is not None:
            unit, predicate = posed
            share = self._labels(condition, answer)
            return replace(unit, condition=condition), replace(_alone(predicate), selectivity=share)
        match condition:
            case Mixed(values=(value,), blocks=()) if (
                posed := self._asked(value.call, frozenset())
            ) is not None:
                unit, predicate = posed
                return replace(unit, condition=condition), replace(_alone(predicate), selectivity=_UNKNOWN)
            case Mixed(values=(), blocks=(block,)) if (posed := self._exists(condition, block)) is not None:
                return posed
        return Unit(condition), None

    def _parts(self, condition: Condition) -> tuple[Condition, ...]:
        """What can be ordered by itself; a subquery ends early with what one step asks, which stays together."""
        if self._own is not None and documents(condition) is not None:
            return (condition,)
        return conjuncts(condition)

    def _tree(self, unit: Unit, predicate: Predicate, calls: Sequence[Call]) -> tuple[Unit, Predicate]:
        """A tree of calls like its first one, from any side where all may be asked from it, else from the first."""
        free = all(call.anchor is None and self._decided.of(call) is None for call in calls)
        anchors = tuple(_anchor(call) for call in unit.calls)
        unit = replace(unit, call=None, calls=())
        if self._own is not None and free and len(anchors) > 1:
            return replace(unit, anchors=anchors), predicate
        return unit, _from_first(predicate)

    def _asked(
        self, call: Call, after: frozenset[int], early: frozenset[str] | None = None
    ) -> tuple[Unit, Predicate] | None:
        """A call as a predicate, from each side that it may be asked from. early: the relations whose rows are settled
        by a first match, if they are the anchor.
        """
        if early is None and self._own is not None:
            early = call.relations - self._own
        calls = [call]
        decided = self._decided.of(call)
        if decided is not None:
            calls = [replace(call, anchor=decided)]
        elif call.is_join and call.anchor is None and self._cheapest:
            partner = call.arguments[call.sides[1][0]].relations
            calls.append(replace(call, anchor=min(partner, default=None)))
        found: list[tuple[Call, Side]] = []
        for each in calls:
            side = self._side(each)
            if side is not None:
                anchors = frozenset().union(*(each.arguments[n].relations for n in each.sides[0]))
                found.append((each, replace(side, early=anchors == early)))
        if len(found) < len(calls) or (call.kind == "label" and not call.labels):
            return None
        predicate = Predicate(tuple(side for _, side in found), self._share(call), after=after)
        return Unit(Ask(call), call, tuple(each for each, _ in found)), predicate

    def _side(self, call: Call) -> Side | None:
        anchors, partners = call.sides
        anchor = self._number(call, anchors)
        partner = self._number(call, partners) if partners else None
        if anchor is None or (partners and partner is None):
            return None
        prompt = self._costing.prompt(call, self._profile)
        if call.kind == "label":
            inner = {label[:n] for label in call.labels for n in range(1, len(label))}
            more = sum(len(self._costing.encode(label, False)) for label in call.labels) if inner else 0
            # They follow the last document.
            if partners:
                prompt = replace(prompt, pair=prompt.pair + more)
            else:
                prompt = replace(prompt, question=prompt.question + more)
        key = (call.arguments_identity, call.sides, call.kind == "label", prompt.shared)
        return Side(anchor, partner, replace(prompt, shared=key))

    def _number(self, call: Call, numbers: Sequence[int]) -> int | None:
        """The number of the documents of a side."""
        arguments = [call.arguments[number] for number in numbers]
        key = (call.kind == "count", *((argument.sql, argument.relations) for argument in arguments))
        if key not in self._numbers:
            found = self._sources.documents(arguments)
            if found is None:
                return None
            if call.kind == "count":
                found = replace(found, tokens=0.0)
            self._numbers[key] = len(self._documents)
            self._documents.append(found)
        return self._numbers[key]

    def _share(self, call: Call) -> Share:
        if not call.is_condition:
            return _UNKNOWN
        found = self._costing.selectivity(call)
        return Share(found.value, found.low, found.high)

    def _labels(self, condition: Condition, call: Call) -> Share:
        """How often the label is one for which a condition is true."""
        labels = accepted(condition, call.labels)
        if not labels:
            return _UNKNOWN
        found = self._costing.any_label(call, labels)
        return Share(found.value, found.low, found.high)

    def _question(self, call: Call) -> float:
        """The fixed tokens that a question adds to its documents."""
        prompt = self._costing.prompt(call, self._profile)
        return prompt.question + prompt.pair

    def _exists(self, condition: Mixed, block: Block) -> tuple[Unit, Predicate] | None:
        """A subquery that asks whether there is a partner, as a join that keeps rows of the SELECT around it."""
        expr, kept = condition.expr, True
        while isinstance(expr, exp.Paren | exp.Not):
            kept ^= isinstance(expr, exp.Not)
            expr = expr.this
        asked = [each for each in filters(block.plan)[1] if not is_cheap(each)]
        if not isinstance(expr, exp.Exists) or len(asked) != 1 or not isinstance(asked[0], Ask):
            return None
        call, own = asked[0].call, filters(block.plan)[0].relations
        outer = call.relations - own
        if not call.is_join or len(outer) != 1 or len(call.relations & own) != 1:
            return None
        before, self._sources = self._sources, self._sources.inside(block)
        posed = self._asked(call, frozenset(), outer)
        if posed is None:
            self._sources = before
            return None
        unit, predicate = posed
        number = self._sources.numbers[next(iter(outer))]
        predicate = replace(predicate, effect="semi" if kept else "anti", outer=number)
        return replace(unit, condition=condition), predicate


def conjuncts(condition: Condition) -> tuple[Condition, ...]:
    """The parts of a condition that rows must pass one by one."""
    return condition.parts if isinstance(condition, All) else (condition,)


def _anchor(call: Call) -> str:
    """A relation that a call's anchor is of."""
    return min(relation for number in call.sides[0] for relation in call.arguments[number].relations)


def _values(block: Block) -> list[Value]:
    return [value for value in block.values if not value.grouped]


def _from_first(predicate: Predicate) -> Predicate:
    return replace(predicate, sides=predicate.sides[:1])


def _alone(predicate: Predicate) -> Predicate:
    """What has a step of its own."""
    prompts = [replace(side.prompt, shared=(side.prompt.shared, object())) for side in predicate.sides]
    sides = (replace(side, prompt=prompt) for side, prompt in zip(predicate.sides, prompts, strict=True))
    return replace(predicate, sides=tuple(sides))


def _unknown(after: frozenset[int]) -> Predicate:
    """What costs nothing and does nothing, where it stands."""
    return Predicate((Side(0, None, Prompt(shared=object())),), Share.sure(1.0), effect="none", after=after)
