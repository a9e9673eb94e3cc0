"""Of a SELECT: whether it groups, and which of its expressions are evaluated before that; binds nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property

from sqlglot import exp

from covey_planner.binding.clauses import clause_parts, own_nodes
from covey_planner.binding.columns import qualify
from covey_planner.binding.scope import Scope
from covey_planner.errors import BindError
from covey_planner.language.calls import is_aggregate
from covey_planner.language.parse import site_number
from covey_planner.language.render import render
from covey_planner.language.spelling import spelled_alike


class Grouping:
    """What a SELECT groups by. scope: of its names; function: the name of a call, by its number."""

    def __init__(self, select: exp.Select, scope: Scope, function: Callable[[int], str]) -> None:
        self._select = select
        self._scope = scope
        self._function = function
        # By the identity of nodes of the statement's tree, which outlives this.
        self._spellings: dict[int, str] = {}

    @cached_property
    def aggregates(self) -> bool:
        """Whether the SELECT has groups, one of all rows included."""
        if self._select.args.get("group") is not None or self._select.args.get("having") is not None:
            return True
        clauses = [item for key in ("expressions", "order") for item in clause_parts(self._select, key)]
        return any(is_aggregate(part) for item in clauses for part in own_nodes(item, calls=True))

    def before_grouping(self, node: exp.Expr) -> bool:
        """Whether a call is evaluated on rows: inside an aggregate, or in what rows are grouped by."""
        group = self._select.args.get("group")
        keys = self._group_keys
        part: exp.Expr = node
        while part is not self._select:
            parent = part.parent
            assert parent is not None
            filtered = isinstance(part, exp.Filter) and is_aggregate(part.this)
            if parent is group or filtered or is_aggregate(part) or self._spelled(part) in keys:
                return True
            if parent is self._select and part in self._select.expressions and group is not None:
                return self._is_key(part, group)
            part = parent
        return False

    @cached_property
    def _group_keys(self) -> frozenset[str]:
        """What rows are grouped by, spelled out; an item of the SELECT list where its number or alias stands for it."""
        group = self._select.args.get("group")
        if group is None:
            return frozenset()
        items = (item for item in self._select.expressions if self._is_key(item, group))
        return frozenset(self._spelled(key) for key in (*_keys(group), *(item.unalias() for item in items)))

    def _is_key(self, item: exp.Expr, group: exp.Group) -> bool:
        """Whether a projection is a grouping key by its number, its alias, or GROUP BY ALL."""
        if group.args.get("all"):
            return not any(is_aggregate(part) for part in own_nodes(item, calls=True))
        number = str(1 + next(n for n, other in enumerate(self._select.expressions) if other is item))
        keys = {key.name.lower() for key in _keys(group) if isinstance(key, exp.Literal | exp.Column)}
        return number in keys or item.alias.lower() in keys - {""}

    def _spelled(self, node: exp.Expr) -> str:
        """A spelling that is equal for the same expression at two places, whatever its calls' numbers and however its
        columns are written.
        """
        if id(node) not in self._spellings:
            copy = node.copy()
            for part in copy.walk():
                number = site_number(part)
                if number is not None:
                    part.set("this", self._function(number))
            with suppress(BindError):  # a name of the SELECT list
                qualify(copy, self._scope)
            self._spellings[id(node)] = render(spelled_alike(copy), copy=False)
        return self._spellings[id(node)]


def _keys(group: exp.Group) -> Iterator[exp.Expr]:
    """What rows are grouped by, also in ROLLUP, CUBE and GROUPING SETS."""
    waiting = [node for value in group.args.values() if isinstance(value, list) for node in value]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, exp.Tuple | exp.Paren | exp.Rollup | exp.Cube | exp.GroupingSets):
            waiting = [*node.iter_expressions(), *waiting]
        else:
            yield node
