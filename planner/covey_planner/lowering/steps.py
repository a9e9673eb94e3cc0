"""Builds the steps of a physical plan: questions, their domains and answer tables; knows no syntax tree of a
statement.

A question that a statement asks at several places is asked once for each value: later steps leave out the
tuples that an earlier answer table holds. Pairs, and questions asked together, stay in the domain: the operators know
what steps before have found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from covey_planner.call import Argument, Call
from covey_planner.cost.statistics import call_key
from covey_planner.lowering.decision import Decision
from covey_planner.lowering.domains import Rows, domain, domain_of, held, pairs, pairs_of, values
from covey_planner.lowering.ending import Ending
from covey_planner.lowering.fusing import Fused
from covey_planner.lowering.grouping import Ends, ends
from covey_planner.lowering.in_order import ranked
from covey_planner.lowering.residual import Answers
from covey_planner.physical import MATCH, AskStep, Domain, Given, Prompts, Question
from covey_planner.profiles import PromptProfile
from covey_planner.prompts import Prompt, filter_prompt, for_labels, join_prompt, spoken_labels

GroupedQuery = Callable[[Sequence[str]], str]
"""A query over groups that yields the given SELECT list."""


class Steps:
    """The steps so far. calls: all of the statement's, so that it is known which questions come again."""

    def __init__(self, profile: PromptProfile, calls: Iterable[Call]) -> None:
        self.done: list[AskStep] = []
        self._profile = profile
        self._uses = Counter(_question(call) for call in calls)
        self._answered: dict[object, tuple[str, ...]] = {}
        self._asked: list[frozenset[object]] = []
        self._tables = 0

    def program(
        self,
        rows: Rows,
        decisions: Sequence[Decision],
        polarity: Mapping[object, set[bool]],
        ending: Ending | None = None,
        uses: int = 1,
        flags: Sequence[str] = (),
        entries: Sequence[int] = (),
    ) -> dict[object, Answers]:
        """Ask a decision program, whose calls are about the same arguments; answers by the calls' identity.

        polarity: whether a call's true or false answers, or both, are looked for. ending: what may end it early,
        where nobody else looks at the answers; uses: of how many places of a call that is so. entries: where the
        program begins, by which flags (conditions on rows) hold.
        """
        asked = len({decision.call.identity for decision in decisions})
        first = decisions[0].call
        prior = self._prior(first) if asked == 1 else ()
        matches = any(MATCH in (decision.on_true, decision.on_false) for decision in decisions)
        if not matches or any(self._uses[_question(decision.call)] > uses for decision in decisions):
            ending = None
        tables: dict[object, tuple[str, ...]] = {}
        questions: list[Question] = []
        for decision in decisions:
            call, table = decision.call, self._table()
            keep_all = polarity[call.identity] != {True} or self._comes_again(call)
            questions.append(self._question(call, table, keep_all, decision))
            tables[call.identity] = (*tables.get(call.identity, ()), table)
        self._emit(rows, [decision.call for decision in decisions], questions, prior, ending, flags)
        if flags:
            self.done[-1] = replace(self.done[-1], entries=tuple(entries))
        found: dict[object, Answers] = {}
        for decision in decisions:
            call = decision.call
            keep_all = polarity[call.identity] != {True} or self._comes_again(call)
            own = (*prior, *tables[call.identity])
            found[call.identity] = Answers(call, own, keys_of(call), keep_all)
            if keep_all and (prior or not self._prior(call)):
                self._answered[_question(call)] = own
        return found

    def fused(self, rows: Rows, asked: Fused) -> dict[object, Answers]:
        """Ask values and keep all of their answers."""
        program = asked.program
        polarity: dict[object, set[bool]] = {group[0].call.identity: {True, False} for group in asked.groups}
        return self.program(rows, program.decisions, polarity, flags=asked.flags, entries=program.entries)

    def answered(self, call: Call) -> bool:
        """Whether an earlier step holds answers of this question, so that it is asked about other values only."""
        return bool(self._prior(call))

    def grouped(
        self,
        query: GroupedQuery,
        with_: Callable[[str], str],
        call: Call,
        given: Callable[[Sequence[Argument]], Given] | None = None,
    ) -> Answers:
        """Ask about groups: `query` yields the arguments, one row a group. given: what estimates need, if wanted."""
        table = self._table()
        anchors, partners = _sides(call)

        def side(arguments: Sequence[Argument]) -> Domain:
            known = None if given is None else given(arguments)
            return domain_of(arguments, query(values(arguments)), with_, known=known)

        prompt = self._prompt(call)
        step = AskStep(prompt.prefix, (self._question(call, table, True),), side(anchors))
        if partners:
            both = [*anchors, *partners]
            linked = pairs_of(query(values(both)), len(anchors), len(partners), with_)
            known = None if given is None else given(both)
            step = replace(step, partners=side(partners), pairs=linked, pairs_given=known)
        self._add(step, [call])
        return Answers(call, (table,), keys_of(call), True)

    def finished(self) -> tuple[AskStep, ...]:
        """All steps. What several of them ask, of whatever columns and with whatever answers, keeps its side."""
        times = Counter(question for asked in self._asked for question in asked)
        return tuple(
            step if all(times[question] == 1 for question in asked) else replace(step, other=None)
            for step, asked in zip(self.done, self._asked, strict=True)
        )

    def _emit(
        self,
        rows: Rows,
        calls: Sequence[Call],
        questions: Sequence[Question],
        prior: Sequence[str],
        ending: Ending | None,
        flags: Sequence[str],
    ) -> None:
        call = calls[0]
        anchors, partners = _sides(call)
        deciding = None if ending is None else ending.deciding
        ranked_in_groups = (
            deciding is not None and bool(deciding.order.sql) and deciding.around <= rows.relations
        )
        met = pairs(anchors, partners, rows, ranked_in_groups) if partners else None
        linked = met is not None and met.pairs is not None
        if (
            call.kind == "label"
            and partners
            and not linked
            and ending is not None
            and ending.deciding is not None
        ):
            ending = None  # what would have to end is an order, which only a margin does
        found = None if ending is None else ends(ending, anchors, partners, rows, linked, self._group_table)
        if found is None:
            questions = [
                replace(question, on_true=max(question.on_true, -1), on_false=max(question.on_false, -1))
                for question in questions
            ]
        found = found or Ends()
        prefix = self._prompt(call).prefix
        step = AskStep(
            prefix,
            tuple(questions),
            met.anchors if linked and met is not None else domain(anchors, rows, prior, found.order, flags),
            exists=found.exists,
            each=found.each,
            enough=found.enough,
            ordered=found.ordered,
            groups=found.groups,
            chosen=call.chosen,
        )
        if met is not None:
            step = replace(step, partners=met.partners, pairs=met.pairs, pairs_given=met.given)
            if found.apart is not None:
                step = replace(
                    step,
                    anchors=ranked(met.anchors, anchors, rows, found.apart.anchors, found.apart.relations),
                    partners=ranked(
                        met.partners, partners, rows, found.apart.partners, found.apart.relations
                    ),
                    pair_order=found.apart.order,
                )
            if found == Ends() and all(each.chosen or each.anchor is None for each in calls):
                step = replace(step, other=self._other(calls))
        self._add(step, calls)

    def _add(self, step: AskStep, calls: Iterable[Call]) -> None:
        self.done.append(self._computed_once(step))
        self._asked.append(frozenset(call.template for call in calls))

    def _computed_once(self, step: AskStep) -> AskStep:
        """The step with its computed texts in tables, so that what computes them runs once."""
        names = [f"__covey_t{len(self.done)}{side}" for side in "ap"]
        sides = (step.anchors, step.partners)
        before = [(name, side.once) for name, side in zip(names, sides, strict=True) if side and side.once]
        anchors, partners = (
            held(side, name) if side and side.once else side for name, side in zip(names, sides, strict=True)
        )
        assert anchors is not None
        return replace(step, anchors=anchors, partners=partners, before=(*step.before, *before))

    def _other(self, calls: Sequence[Call]) -> Prompts | None:
        """The prompts of a step from the other side; None where it has none."""
        others = [other for call in calls if (other := call.from_other_side) is not None]
        if len(others) < len(calls):
            return None
        prompts = list(map(self._prompt, others))
        return Prompts(prompts[0].prefix, tuple(prompt.suffix for prompt in prompts))

    def _question(self, call: Call, table: str, keep_all: bool, decision: Decision | None = None) -> Question:
        on_true, on_false = (decision.on_true, decision.on_false) if decision is not None else (-1, -1)
        suffix = self._prompt(call).suffix
        on_null = None if decision is None else decision.on_null
        question = Question(call.text, suffix, table, "all" if keep_all else "true", on_true, on_false)
        question = replace(question, key=call_key(call), hint=call.selectivity, on_null=on_null)
        if call.kind == "label":
            labels, end = spoken_labels(call.labels, suffix, self._profile)
            return replace(question, kind="label", labels=labels, end=end, accepted=call.accepted)
        return replace(question, kind=call.kind, above=call.above)

    def _prior(self, call: Call) -> tuple[str, ...]:
        """Tables that hold answers of the same question; pairs are not left out one by one."""
        return () if call.is_join else self._answered.get(_question(call), ())

    def _comes_again(self, call: Call) -> bool:
        return self._uses[_question(call)] > 1

    def _prompt(self, call: Call) -> Prompt:
        return prompt_of(call, self._profile)

    def _group_table(self) -> str:
        return f"__covey_g{len(self.done)}"

    def _table(self) -> str:
        self._tables += 1
        return f"__covey_a{self._tables - 1}"


def prompt_of(call: Call, profile: PromptProfile) -> Prompt:
    """The segments of a call's prompt; none of one that asks nothing."""
    if call.kind == "count":
        return Prompt((), ())
    anchors, partners = call.sides
    profile = for_labels(profile) if call.kind == "label" else profile
    if partners:
        return join_prompt(call.template, profile, anchors, partners)
    return filter_prompt(call.template, profile)


def keys_of(call: Call) -> tuple[int, ...]:
    """Argument numbers in the order of an answer table's keys: the anchor's, then the partner's."""
    return (*call.sides[0], *call.sides[1])


def _sides(call: Call) -> tuple[list[Argument], list[Argument]]:
    anchors, partners = call.sides
    return [call.arguments[number] for number in anchors], [call.arguments[number] for number in partners]


def _question(call: Call) -> object:
    """Equal for calls whose prompts are equal wherever the values are."""
    return (call.template, call.sides, call.kind, call.labels, call.test)
