"""An AI call as the planner sees it: its question, its arguments, and which of them are computed once; runs nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from covey_planner.errors import Position
from covey_planner.language.render import render
from covey_planner.language.spelling import is_plain, spelled_alike
from covey_planner.physical import Above, Kind
from covey_planner.prompts import Template


@dataclass(frozen=True)
class Argument:
    """An argument of an AI call, with every column qualified.

    text: as written. relations: the relations it reads. table, column: set where it is a stored text column.
    known: the expression by which statistics know it, where `expr` only reads its value.
    """

    expr: exp.Expr
    text: str
    relations: frozenset[str]
    table: str | None = None
    column: str | None = None
    known: str | None = None

    @cached_property
    def sql(self) -> str:
        """The expression as SQL."""
        return render(self.expr)

    @cached_property
    def identity(self) -> str:
        """Equal for the same expression, however its names are written."""
        return self.sql if is_plain(self.expr) else render(spelled_alike(self.expr.copy()), copy=False)


@dataclass(frozen=True)
class Call:
    """An AI call site. anchor: the relation that must be the anchor of a join, where an option pins it.

    kind: what its answer is; labels: those of which a label's is one, "" for a parameter without a value.
    selectivity: the share of true answers that an option says, 0 to 1; a hint, no part of the question. chosen: whether
    the anchor was chosen by cost. above, accepted: of a comparison of its answer, which probabilities or labels make it
    true; the call then stands for the comparison, and is of kind "boolean" or "label".
    """

    site: int
    text: str
    template: Template
    arguments: tuple[Argument, ...]
    position: Position
    anchor: str | None = None
    kind: Kind = "boolean"
    labels: tuple[str, ...] = ()
    selectivity: float | None = None
    chosen: bool = False
    above: Above | None = None
    accepted: tuple[str, ...] | None = None

    @cached_property
    def identity(self) -> tuple[object, ...]:
        """Equal for two sites that ask the same question about the same expressions."""
        return (self.template, self.arguments_identity, self.anchor, self.kind, self.labels, self.test)

    @property
    def test(self) -> object:
        """What of its answer makes it true, where that is not the answer itself."""
        return self.above, self.accepted

    @property
    def is_condition(self) -> bool:
        """Whether its answer is true or false."""
        return self.kind == "boolean" or self.accepted is not None

    @cached_property
    def arguments_identity(self) -> tuple[str, ...]:
        """Equal for two sites about the same expressions, in the same order."""
        return tuple(argument.identity for argument in self.arguments)

    @property
    def relations(self) -> frozenset[str]:
        """All relations that the arguments read."""
        return frozenset().union(*(argument.relations for argument in self.arguments))

    @cached_property
    def sides(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Argument numbers of the anchor and of the partner; a call about one relation has no partner.

        Arguments that share a relation stand on one side. The anchor is the relation mentioned first, unless
        an option pins another: the written call decides, so that a plan never changes a prompt.
        """
        groups: list[tuple[set[str], list[int]]] = []
        mentioned = list(dict.fromkeys(part for part in self.template.parts if isinstance(part, int)))
        for number in mentioned:
            names, members = set(self.arguments[number].relations), [number]
            for group in [group for group in groups if group[0] & names]:
                groups.remove(group)
                names, members = names | group[0], group[1] + members
            groups.append((names, members))
        loose = [member for names, members in groups if not names for member in members]
        groups = [group for group in groups if group[0]]
        if len(groups) < 2:
            return tuple(range(len(self.arguments))), ()
        groups.sort(
            key=lambda group: (
                self.anchor not in group[0],
                mentioned.index(min(group[1], key=mentioned.index)),
            )
        )
        anchors = sorted([*groups[0][1], *loose])
        return tuple(anchors), tuple(sorted(set(mentioned) - set(anchors)))

    @property
    def from_other_side(self) -> Call | None:
        """The call with its partner as the anchor; None where its sides cannot be exchanged."""
        anchors, partners = self.sides
        names = sorted(name for number in partners for name in self.arguments[number].relations)
        turned = replace(self, anchor=names[0]) if names else self
        return turned if turned.sides == (partners, anchors) else None

    @property
    def is_join(self) -> bool:
        """Whether the question is about pairs of rows of two relations."""
        return bool(self.sides[1])
