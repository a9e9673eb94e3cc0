"""Applies the rules to every block's filters until none changes anything, and verifies the plan after each
rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from covey_planner.logical import Ask, Block, Cheap, Filter, Logical, Mixed, Node, filters, leaves, map_leaves
from covey_planner.rules import RULES, Rule

_PASSES = 1000

Trace = Callable[[str, Node], None]
"""Told the name of a rule that changed a plan, and the new plan."""


def optimize(logical: Logical, rules: Sequence[Rule] = RULES, trace: Trace | None = None) -> Logical:
    """Rewrite all blocks, those inside expressions too."""
    return Logical(tuple(_block(block, rules, trace) for block in logical.blocks))


def rewrite(node: Node, rules: Sequence[Rule] = RULES, trace: Trace | None = None) -> Node:
    """Rewrite one block's plan: each rule everywhere until it changes nothing, then the next.

    Raises AssertionError naming the rule, where a rule loses or invents something or does not come to an end.
    """
    for rule in rules:
        before = node
        for _ in range(_PASSES):
            changed = _anywhere(node, rule)
            if changed is None:
                break
            node = changed
            if trace is not None:
                trace(rule.__name__, node)
        else:
            raise AssertionError(f"rule {rule.__name__} does not come to an end")
        if node is not before:
            _verify(before, node, rule)
    return node


def _anywhere(node: Node, rule: Rule) -> Node | None:
    """The plan with one application of the rule, the upper nodes first; None where it applies nowhere."""
    changed = rule(node)
    if changed is not None:
        return changed
    if isinstance(node, Filter):
        below = _anywhere(node.input, rule)
        return None if below is None else replace(node, input=below)
    return None


def _verify(before: Node, after: Node, rule: Rule) -> None:
    """The source, the AI calls and the number of ordinary predicates stay."""
    if _inventory(before) != _inventory(after):
        raise AssertionError(f"rule {rule.__name__} changed what the plan reads or asks")


def _inventory(node: Node) -> tuple[object, Counter[object]]:
    source, conditions = filters(node)
    counted: Counter[object] = Counter()
    for leaf in (leaf for condition in conditions for leaf in leaves(condition)):
        match leaf:
            case Ask(call):
                counted[call.site] += 1
            case Cheap(_, relations):
                counted[relations] += 1
            case Mixed(blocks=blocks):
                counted.update([call.site for call in leaf.calls])
                counted.update([f"block {block.number}" for block in blocks])
    return source, counted


def _block(block: Block, rules: Sequence[Rule], trace: Trace | None) -> Block:
    plan = _inside(rewrite(block.plan, rules, trace), rules, trace)
    nested = tuple(_block(inner, rules, trace) for inner in block.nested)
    joins = tuple(
        replace(join, plan=_inside(rewrite(join.plan, rules, trace), rules, trace)) for join in block.joins
    )
    return replace(block, plan=plan, nested=nested, joins=joins)


def _inside(node: Node, rules: Sequence[Rule], trace: Trace | None) -> Node:
    """Rewrite the blocks held by the conditions of a plan."""
    if not isinstance(node, Filter):
        return node

    def enter(leaf: Cheap | Ask | Mixed) -> Cheap | Ask | Mixed:
        if not isinstance(leaf, Mixed) or not leaf.blocks:
            return leaf
        return replace(leaf, blocks=tuple(_block(inner, rules, trace) for inner in leaf.blocks))

    return replace(node, input=_inside(node.input, rules, trace), condition=map_leaves(node.condition, enter))
