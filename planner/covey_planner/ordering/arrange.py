"""Bound blocks in, the same blocks with their AI conditions in the cheapest order and the cheapest anchors out.

What conditions there are, and what they ask, stays; only which side of a question about pairs is the anchor changes,
where the options leave that to cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from covey_planner.logical import (
    All,
    Ask,
    Block,
    Cheap,
    Condition,
    Filter,
    Logical,
    Mixed,
    Node,
    Not,
    filters,
    is_cheap,
    leaves,
    map_leaves,
)
from covey_planner.lowering.ending import Ending, ending_of
from covey_planner.ordering.agreeing import Attempt, agree
from covey_planner.ordering.costing import Costing
from covey_planner.ordering.doubt import Posed
from covey_planner.ordering.limited import limited
from covey_planner.ordering.posing import Poser, Unit, conjuncts
from covey_planner.ordering.problem import Ordered, Problem
from covey_planner.ordering.search import MOST, order
from covey_planner.ordering.sides import Sides
from covey_planner.ordering.sources import Sources, Stored
from covey_planner.profiles import PromptProfile
from covey_planner.rules.share_documents import documents


def arrange(
    logical: Logical,
    tree: exp.Query,
    profile: PromptProfile,
    costing: Costing,
    columns: Mapping[str, Mapping[str, str]],
    cheapest: bool = True,
    posed: list[Posed] | None = None,
) -> Logical:
    """Order all blocks. tree: the whole statement. columns: of stored tables and views. cheapest: whether anchors
    that no option pins are chosen by cost. posed: gets the blocks that were ordered and are asked to their ends.
    """
    if settled(logical, cheapest):
        return logical
    arranger = _Arranger(tree, profile, costing, cheapest, [] if posed is None else posed)
    sources = Sources(costing.statistics, Stored.of(columns))
    return arranger.anchored(Logical(tuple(arranger.block(block, sources) for block in logical.blocks)))


def settled(logical: Logical, cheapest: bool = True) -> bool:
    """Whether there is nothing to be ordered or chosen."""
    return all(_one_way(block, cheapest) for block in logical.blocks)


def _one_way(block: Block, cheapest: bool) -> bool:
    """Whether a block asks one question at most before its values, and each from one side: nothing is to be chosen, so
    nothing need be counted.
    """
    asked = [condition for condition in filters(block.plan)[1] if not is_cheap(condition)]
    if block.nested or block.joins or len(asked) > 1:
        return False
    calls = [value.call for value in block.values]
    for condition in asked:
        while isinstance(condition, Not):
            condition = condition.part
        if not isinstance(condition, Ask):
            return False
        calls.append(condition.call)
    return not any(call.is_join and call.anchor is None and cheapest for call in calls)


@dataclass
class _Arranger:
    """decided: the anchors that were chosen."""

    tree: exp.Query
    profile: PromptProfile
    costing: Costing
    cheapest: bool
    posed: list[Posed]
    decided: Sides = field(default_factory=Sides)

    def block(self, block: Block, around: Sources) -> Block:
        """A block and those inside it, outer ones first: they choose the sides of what asks about their rows."""
        sources = around.inside(block)
        ending = ending_of(block, self.tree)

        def attempt(decided: Sides) -> Attempt:
            problem, units = self._poser(sources, decided)(self.costing).pose(block)
            asked = problem.relations and 0 < len(units) <= MOST
            found = self._order(ending, problem, units) if asked else Ordered(())
            return Attempt(decided, problem, units, found)

        best, chosen = agree(attempt, self.decided, self.costing.seconds)
        if best.found.choices:
            self.decided = chosen
            if ending is None or ending.enough is None:
                poser = self._poser(sources, best.decided)
                self.posed.append(Posed(block, poser, self.costing, best.problem, best.units, best.found))
            block = replace(block, plan=self._ordered(block.plan, best.units, best.found))
        return replace(
            block,
            plan=self._inside(block.plan, sources),
            nested=tuple(self.block(inner, sources) for inner in block.nested),
            joins=tuple(replace(join, plan=self._inside(join.plan, sources)) for join in block.joins),
        )

    def anchored(self, logical: Logical) -> Logical:
        """All calls on the sides that were chosen."""
        return Logical(tuple(map(self._anchored, logical.blocks)))

    def _poser(self, sources: Sources, decided: Sides) -> Callable[[Costing], Poser]:
        return lambda costing: Poser(sources, costing, self.profile, self.cheapest, decided)

    def _order(self, ending: Ending | None, problem: Problem, units: Sequence[Unit]) -> Ordered:
        if ending is None or ending.enough is None:
            return order(problem, self.costing.seconds)
        asked = [unit.condition is not None and documents(unit.condition) is not None for unit in units]
        endings = [number for number, can in enumerate(asked) if can]
        return limited(problem, ending.enough, self.costing.seconds, endings)

    def _ordered(self, plan: Node, units: Sequence[Unit], found: Ordered) -> Node:
        """The filters in their new order, neighbours on the same documents together."""
        source, conditions = filters(plan)
        asked: list[Condition] = []
        for choice in found.choices:
            condition = units[choice.predicate].condition
            if condition is None:
                continue
            shared = documents(map_leaves(condition, self._leaf))
            if asked and shared is not None and shared == documents(map_leaves(asked[-1], self._leaf)):
                asked[-1] = All((*conjuncts(asked[-1]), condition))
            else:
                asked.append(condition)
        node: Node = source
        for condition in [*filter(is_cheap, conditions), *asked]:
            node = Filter(node, condition)
        assert _inventory(node) == _inventory(plan), "ordering changed what the plan asks"
        return node

    def _inside(self, plan: Node, sources: Sources) -> Node:
        """Order the blocks that conditions hold."""

        def enter(leaf: Cheap | Ask | Mixed) -> Condition:
            if not isinstance(leaf, Mixed) or not leaf.blocks:
                return leaf
            return replace(leaf, blocks=tuple(self.block(inner, sources) for inner in leaf.blocks))

        return _mapped(plan, enter)

    def _anchored(self, block: Block) -> Block:
        return replace(
            block,
            plan=_mapped(block.plan, self._leaf),
            values=tuple(replace(value, call=self.decided.on(value.call)) for value in block.values),
            nested=tuple(map(self._anchored, block.nested)),
            joins=tuple(replace(join, plan=_mapped(join.plan, self._leaf)) for join in block.joins),
        )

    def _leaf(self, leaf: Cheap | Ask | Mixed) -> Condition:
        match leaf:
            case Ask(call):
                return Ask(self.decided.on(call))
            case Mixed(values=values, blocks=blocks):
                changed = tuple(replace(value, call=self.decided.on(value.call)) for value in values)
                return replace(leaf, values=changed, blocks=tuple(map(self._anchored, blocks)))
        return leaf


def _mapped(plan: Node, change: Callable[[Cheap | Ask | Mixed], Condition]) -> Node:
    if not isinstance(plan, Filter):
        return plan
    return Filter(_mapped(plan.input, change), map_leaves(plan.condition, change))


def _inventory(plan: Node) -> Counter[object]:
    """What a plan asks and filters by."""
    counted: Counter[object] = Counter()
    for condition in filters(plan)[1]:
        for leaf in leaves(condition):
            counted[leaf.call.site if isinstance(leaf, Ask) else id(leaf)] += 1
    return counted
