"""Answers that clauses after the filters want as values: their steps, and where the residual finds them; no filters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from covey_planner.binding.volatile import volatile
from covey_planner.call import Argument, Call
from covey_planner.cost.unanswered import OPEN
from covey_planner.language.parse import sites_of
from covey_planner.logical import Value, filters, is_cheap, relations_of
from covey_planner.lowering.asked import join_of, same_calls
from covey_planner.lowering.decision import Decision, chain
from covey_planner.lowering.domains import VALUE, Link, Member, Rows, values
from covey_planner.lowering.ending import Ending
from covey_planner.lowering.frame import Frame
from covey_planner.lowering.fusing import Fused, fused, link
from covey_planner.lowering.guarded import Program
from covey_planner.lowering.ranked import First, Stage, stages
from covey_planner.lowering.residual import Answers, Insertion, grouped_query
from covey_planner.physical import MATCH, Given
from covey_planner.rules.share_documents import same_documents

if TYPE_CHECKING:
    from covey_planner.lowering.lower import Lowering

_GROUPS = "__covey_q"


class Values:
    """The values of a statement's blocks while they are lowered."""

    def __init__(self, lowering: Lowering) -> None:
        self._lowering = lowering

    def of_rows(self, frame: Frame, wanted: Sequence[Value], exact: bool = False) -> None:
        """Answers for the clauses after WHERE: domains look them up, the residual joins them.

        exact: domains show exactly the rows that the filters leave, so that the first of them can be told.
        """
        found = stages(frame.block, wanted) if exact else [Stage(tuple(wanted))]
        for stage in found:
            guards = self._first(frame, stage.first)
            if stage.wanted is not None:
                self._until_enough(frame, stage, guards)
                continue
            for group, answers in self.answers(frame, stage.values, guards):
                self.note(frame, group, answers)

    def _first(self, frame: Frame, first: First | None) -> list[Link]:
        """The rows that may come out, as a condition on all rows; none where it holds an answer that only the residual
        finds.
        """
        if first is None or any(self._lowering.open(expr) for expr in (*first.parts, *first.keys)):
            return []
        write = self._lowering.rewrites.sql
        parts = f"PARTITION BY {', '.join(map(write, first.parts))} " if first.parts else ""
        keys = ", ".join(map(write, first.keys))
        asks = any(not is_cheap(condition) for condition in filters(frame.block.plan)[1])
        asks = asks or any(map(sites_of, first.keys))
        sql = f"{first.function}() OVER ({parts}ORDER BY {keys}) <= {first.count}"
        return [Link(sql, first.relations, odds=OPEN if asks else None, window=True)]

    def _until_enough(self, frame: Frame, stage: Stage, guards: Sequence[Link]) -> None:
        """Ask a question by whose answers rows are put in order until enough of the first ones are found."""
        call, wanted = stage.values[0].call, stage.wanted
        asked = Decision(call, MATCH if wanted else -1, -1 if wanted else MATCH)
        rows = frame.reach([*guards, *self._guards(stage.values)])
        polarity: dict[object, set[bool]] = {call.identity: {True, False}}
        ending = Ending(stage.enough, stage.order)
        found = self._lowering.steps.program(rows, [asked], polarity, ending, len(stage.values))
        self.note(frame, stage.values, found[call.identity])

    def answers(
        self, frame: Frame, wanted: Sequence[Value], guards: Sequence[Link]
    ) -> Iterator[tuple[list[Value], Answers]]:
        """The answers to each question: one step for those about the same documents of the same rows.

        Whoever takes one notes it before asking for the next: later steps look it up.
        """
        waiting = same_calls(wanted)
        while waiting:
            together = self._together(frame.reach(guards), waiting)
            rows = frame.reach([*guards, *together.links])
            waiting = [group for group in waiting if group not in together.groups]
            found = self._lowering.steps.fused(rows, together)
            for group in together.groups:
                yield group, found[group[0].call.identity]

    def _together(self, rows: Rows, waiting: Sequence[list[Value]]) -> Fused:
        """The first group of values and those that one step can ask with it: about its documents."""
        first, call = waiting[0], waiting[0][0].call
        if not self._lowering.optimize:
            return Fused([first], Program(chain([call]), ()), (), tuple(self._guards(first)))
        alike = [group for group in waiting if self._asked_with(group[0].call, call)]
        several = len(alike) > 1 or len(first) > 1
        if several and call.kind in ("boolean", "score") and not self._lowering.steps.answered(call):
            found = fused(self._lowering, rows, alike)
            if found is not None:
                return found
        own = self._guards(first)
        together = [
            group
            for group in alike
            if group is first
            or (
                not any(self._lowering.open(guard.expr) for value in group for guard in value.guards)
                and self._guards(group) == own
            )
        ]
        return Fused(together, Program(chain([group[0].call for group in together]), ()), (), tuple(own))

    def _asked_with(self, other: Call, call: Call) -> bool:
        """Whether one step may ask both, or it is the same call."""
        if other.identity == call.identity:
            return True
        steps = self._lowering.steps
        return same_documents(other, call) and not (steps.answered(call) or steps.answered(other))

    def note(self, frame: Frame, group: Sequence[Value], answers: Answers) -> None:
        """Note where a question's answers are looked up, and where the residual finds them joined in."""
        call, alias = group[0].call, self._lowering.alias()
        text = answers.value(alias)
        self._lowering.rewrites.sites.update({value.call.site: text for value in group})
        self._lowering.note_lists(group, answers, frame)
        # An ON stands before the answers are joined in: it looks them up.
        late = [value for value in group if join_of(frame, value.call) is None]
        late = [value for value in late if not self._lowering.lists.holds(value.call.site)]
        if not (late and call.relations <= frame.source.relations and frame.insertable):
            return
        insertion = Insertion("LEFT", answers, alias, -1)
        self._lowering.rewrites.insertions.setdefault(frame.block.number, []).append(insertion)
        frame.joined.update({value.call.site: f"{alias}.{alias}_answer" for value in late})

    def of_groups(self, frame: Frame, wanted: Sequence[Value]) -> None:
        """Answers about groups: one step a question, looked up by group."""
        for group in same_calls(wanted):
            answers = self._grouped(frame, group[0].call, self._guards(group))
            text = answers.value(self._lowering.alias())
            self._lowering.rewrites.sites.update({value.call.site: text for value in group})

    def _grouped(self, frame: Frame, call: Call, guards: Sequence[Link]) -> Answers:
        """A question about groups: its domain is the SELECT itself, up to HAVING."""
        own = frame.source.relations
        conditions = filters(frame.block.plan)[1]
        having = [guard.sql for guard in guards]
        alone = call.relations <= own and all(relations_of(condition) <= own for condition in conditions)
        outer = None if alone and not frame.source.around else frame.outer

        def query(columns: Sequence[str]) -> str:
            text = grouped_query(self._lowering.rewrites, frame.block.select, columns, having)
            return text if outer is None else _for_each_row(outer, text, len(columns))

        given = self._before_answers(frame) if outer is None else None
        return self._lowering.steps.grouped(query, frame.rows.with_, call, given)

    def _before_answers(self, frame: Frame) -> Callable[[Sequence[Argument]], Given] | None:
        """The groups before anything is answered, for estimates."""
        free, with_ = self._lowering.free, frame.rows.with_free
        if free is None or with_ is None:
            return None

        def given(arguments: Sequence[Argument]) -> Given:
            text = grouped_query(free, frame.block.select, values(arguments), ())
            relations = frozenset().union(*(argument.relations for argument in arguments))
            odds = frame.rows.odds(frame.rows.component(relations))
            return Given(f"{with_(text)}{text}", relations, odds)

        return given

    def _guards(self, wanted: Sequence[Value]) -> list[Link]:
        """Guards of a call's places; with several places, only what all of them share."""
        shared = [guard for guard in wanted[0].guards if all(guard in other.guards for other in wanted)]
        return [
            link(self._lowering, guard)
            for guard in shared
            if not self._lowering.open(guard.expr) and volatile(guard.expr) is None
        ]


def _for_each_row(outer: Rows, query: str, count: int) -> str:
    """A query of groups for each row of the SELECTs around; the last `count` columns of it."""
    name = frozenset({_GROUPS})
    groups = Member(f"LATERAL ({query}) AS {_GROUPS}", name, name, needs=outer.relations)
    rows = replace(outer.known(), members=[*outer.members, groups])
    return rows.select([f"{_GROUPS}.{VALUE}{n}" for n in range(count)], outer.relations | {_GROUPS})
