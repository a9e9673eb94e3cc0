"""Rewrites of logical nodes, one a file: a rule sees one node and returns its replacement, or None for no
change.
"""

from __future__ import annotations

from collections.abc import Callable

from covey_planner.logical import Node
from covey_planner.rules.fold_comparisons import fold_comparisons
from covey_planner.rules.join_last import join_last
from covey_planner.rules.order_parts import order_parts
from covey_planner.rules.push_down_cheap import push_down_cheap
from covey_planner.rules.push_down_negations import push_down_negations
from covey_planner.rules.share_documents import share_documents
from covey_planner.rules.split_conjunctions import split_conjunctions

Rule = Callable[[Node], Node | None]

RULES: tuple[Rule, ...] = (
    fold_comparisons,  # first: `AI_FILTER(…) = TRUE` is an AI call like any other
    push_down_negations,  # the split needs conjunctions that are not under NOT
    split_conjunctions,  # everything below moves one conjunct at a time
    push_down_cheap,  # what costs nothing decides which rows the model sees
    join_last,  # answers about one document come before answers about pairs
    order_parts,  # the same two orders inside each boolean tree
    share_documents,  # needs neighbours that the orders above have brought together
)

NEEDED: tuple[Rule, ...] = (
    push_down_negations,  # what is under NOT cannot be lowered; all other rules only save work
)
