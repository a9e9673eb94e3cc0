"""From the logical to the physical plan: steps in dependency order, then the residual; never runs SQL.

A block's filters become steps one after another; each leaves answers that the domains of the later ones use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from covey_planner.binding.ctes import with_clause
from covey_planner.binding.volatile import volatile
from covey_planner.call import Call
from covey_planner.cost.unanswered import CERTAIN, Unanswered, asked, odds_of
from covey_planner.language.parse import sites_of
from covey_planner.logical import (
    All,
    Any,
    Ask,
    Block,
    Cheap,
    Condition,
    Joined,
    Logical,
    Mixed,
    Not,
    Value,
    filters,
    is_cheap,
    leaves,
    relations_of,
)
from covey_planner.lowering.answering import Values
from covey_planner.lowering.asked import all_calls, literals, place, required, same_calls
from covey_planner.lowering.decision import decide
from covey_planner.lowering.domains import Link, Member, Rows
from covey_planner.lowering.ending import Ending, Quota, ending_of, quota_of, strict
from covey_planner.lowering.flags import Flags
from covey_planner.lowering.frame import Frame
from covey_planner.lowering.fusing import Fused, fused, values_of
from covey_planner.lowering.grouping import probed
from covey_planner.lowering.guarded import Program
from covey_planner.lowering.label_lists import Lists
from covey_planner.lowering.limited import ROWS, Limited, limited
from covey_planner.lowering.once import Once
from covey_planner.lowering.outer_joins import Joins
from covey_planner.lowering.ranked import later
from covey_planner.lowering.ranked_pairs import ranked_ending
from covey_planner.lowering.residual import Answers, Insertion, Rewrites
from covey_planner.lowering.semi_joins import to_be_predicates
from covey_planner.lowering.steps import Steps
from covey_planner.physical import Odds, PhysicalPlan
from covey_planner.profiles import PromptProfile
from covey_planner.rules.share_documents import documents


def lower(
    logical: Logical,
    tree: exp.Query,
    profile: PromptProfile,
    optimize: bool = True,
    estimated: bool = False,
    written: exp.Expr | None = None,
    names: Sequence[str] = (),
    once: Once | None = None,
) -> PhysicalPlan:
    """The physical plan of a bound statement. names: of its columns.

    optimize: questions on the same documents come together, and a step ends where enough is known. estimated: with
    what its estimates need. written: the statement that runs in the end, where it is not the tree itself. once:
    the parts that are to be run once.
    """
    late = limited(logical, tree) if optimize and names and written is None else None
    lowering = Lowering(logical, tree, profile, optimize, estimated, late)
    lowering.rewrites.once = once = once or Once()
    for block in logical.blocks:
        lowering.block(block, None)
    residual = lowering.rewrites.sql(written or tree) if late is None else lowering.below_limit(late, names)
    free = None if lowering.free is None else lowering.free.apply
    return PhysicalPlan(*once.placed(lowering.steps.finished(), residual, free), profile.name)


class Lowering:
    """A statement while its blocks are lowered, one after another."""

    def __init__(
        self,
        logical: Logical,
        tree: exp.Query,
        profile: PromptProfile,
        optimize: bool,
        estimated: bool,
        late: Limited | None,
    ) -> None:
        calls = [call for block in logical.blocks for call in all_calls(block)]
        self.calls = {call.site: call for call in calls}
        self._tree = tree
        self.optimize = optimize
        self.late = frozenset[int]() if late is None else late.sites
        self.free = Unanswered(self.calls) if estimated else None
        self.steps = Steps(profile, calls)
        self.rewrites = Rewrites()
        self.lists = Lists.of(tree)
        self.values = Values(self)
        self._found: dict[int, tuple[Answers, bool | None]] = {}
        self._aliases = 0

    def block(self, block: Block, outer: Rows | None, quota: Quota | None = None) -> None:
        """Lower a block, everything it reads being lowered. quota: rows that are wanted around a subquery."""
        source, conditions = filters(block.plan)
        ending = ending_of(block, self._tree, quota) if self.optimize else None
        frame = Frame(block, source, self._rows(block), outer, ending)
        self.rewrites.predicates[block.number] = to_be_predicates(source.attached)
        if self.optimize and block.probe is not None and not strict(block.select):
            frame.rows.links.append(probed(block.probe))
        joins = Joins(self, frame)
        decided: dict[object, str] = {}
        for condition in conditions:
            if not is_cheap(condition):
                joins.settle(relations_of(condition))
            last = condition is conditions[-1]
            then = self._then(frame, condition) if last and self.optimize and frame.ending is None else None
            exact = last and all(map(self._shown, conditions[:-1]))
            if exact and self.optimize and frame.ending is None and block.select is self._tree and not then:
                frame = replace(frame, ending=ranked_ending(self, frame))
            self._filter(frame, condition, then, exact)
            for call, positive in required(condition):
                # No bare literal: DuckDB refuses to order by one.
                decided[call.identity] = "(NOT FALSE)" if positive else "(NOT TRUE)"
        joins.settle(None)
        for value in block.values:
            if value.call.identity in decided and not value.grouped:
                self.rewrites.sites[value.call.site] = decided[value.call.identity]
        for nested in block.nested:
            self.block(nested, frame.reach(()))
        answered = self.late | self.rewrites.sites.keys()
        open_ = [value for value in block.values if value.call.site not in answered]
        exact = self.optimize and outer is None and all(map(self._shown, conditions))
        self.values.of_rows(frame, [value for value in open_ if not value.grouped], exact)
        self.rewrites.sites.update(frame.joined)
        self.rewrites.lists.update(frame.lists)
        self.values.of_groups(frame, [value for value in open_ if value.grouped])

    def below_limit(self, late: Limited, names: Sequence[str]) -> str:
        """Ask what is wanted for the rows below the LIMIT alone; the residual."""
        calls = [call for call in late.calls if call.site not in self.rewrites.sites]
        if not calls:
            return self.rewrites.sql(self._tree)
        table, first = late.query(self.rewrites, len(names)), len(self.steps.done)
        with_free = None if self.free is None else lambda _: ""
        member = late.member(len(names), None if self.free is None else self.free.sql)
        rows = Rows(lambda _: "", with_free, [member])
        frame = Frame(late.block, filters(late.block.plan)[0], rows, None, None)
        joins: list[str] = []
        for group, answers in self.values.answers(frame, [Value(call, False) for call in calls], ()):
            alias = self.alias()
            if self.lists.holds(group[0].call.site):
                self.rewrites.sites.update({value.call.site: answers.value(alias) for value in group})
                self.note_lists(group, answers)
                continue
            joins.append(f"LEFT JOIN {answers.aliased(alias)} ON {' AND '.join(answers.equalities(alias))}")
            self.rewrites.sites.update({value.call.site: f"{alias}.{alias}_answer" for value in group})
        step = self.steps.done[first]
        self.steps.done[first] = replace(step, before=((ROWS, table), *step.before))
        return late.residual(self.rewrites, names, joins)

    def _rows(self, block: Block) -> Rows:
        """No rows yet."""
        free = self.free
        return Rows(
            lambda text: with_clause(block.ctes, self.rewrites.apply, text),
            None if free is None else lambda text: with_clause(block.ctes, free.apply, text),
        )

    def _filter(self, frame: Frame, condition: Condition, then: Fused | None, exact: bool) -> None:
        """Lower one of a block's filters and note what holds for the rows that pass it.

        then: values to ask with it, of the rows that pass. exact: it is the last one, and domains show exactly what
        those before it leave, so that it may end before all is asked.
        """
        if documents(condition) is None:
            rows = frame.reach(())
            quota = quota_of(frame.block, self._tree, rows) if exact and self.optimize else None
            self.ask(frame, condition, (), quota)
            frame.rows.links += self.links(condition)
            if quota is not None and quota.taken:
                self.rewrites.conditions[frame.block.number] = quota.taken
                frame.rows.links.append(Link(quota.taken, relations_of(condition), True, CERTAIN))
            return
        ending = frame.ending if exact else None
        found = self._program(frame, condition, (), then, ending)
        parts = condition.parts if isinstance(condition, All) else (condition,)
        calls = [part.call for part in parts if isinstance(part, Ask) and part.call.is_join]
        if len(calls) == len(parts) and frame.insertable:
            self._insert_join(frame, calls[-1], found[calls[-1].identity])
        else:
            frame.rows.links += self.links(condition)
        for group in then.groups if then is not None else ():
            self.values.note(frame, group, found[group[0].call.identity])

    def _then(self, frame: Frame, last: Condition) -> Fused | None:
        """The values that the step of a block's last filter can ask while its documents are there."""
        shared = documents(last)
        asked = {leaf.call.identity for leaf in leaves(last) if isinstance(leaf, Ask)}
        waiting = self.late if frame.outer is not None else self.late | later(frame.block)
        groups = [
            group
            for group in same_calls(
                [v for v in frame.block.values if not v.grouped and v.call.site not in waiting]
            )
            if shared is not None
            and documents(Ask(group[0].call)) == shared
            and group[0].call.identity not in asked
            and not self.steps.answered(group[0].call)
        ]
        if groups and any(leaf.call.kind == "label" for leaf in leaves(last) if isinstance(leaf, Ask)):
            groups = [group for group in groups if any(not value.guards for value in group)]
            calls = [group[0].call for group in groups]
            return Fused(groups, Program(decide(last, calls), ())) if groups else None
        return fused(self, frame.reach(()), groups, last)

    def links(self, condition: Condition, form: str = "{}") -> list[Link]:
        """A condition as a predicate for domain queries; none where it changes from one query to the next, or holds
        an answer that they cannot look up.
        """
        if not self._shown(condition):
            return []
        subquery = any(expr.find(exp.Query) is not None for expr in _exprs(condition))
        odds = None if is_cheap(condition) else odds_of(condition)
        if odds is not None and "NOT" in form:
            odds = Odds("not", (odds,))
        return [Link(form.format(self._truth(condition)), relations_of(condition), subquery, odds)]

    def _shown(self, condition: Condition) -> bool:
        """Whether domain queries can show what a condition leaves."""
        return not any(volatile(expr) is not None or self.open(expr) for expr in _exprs(condition))

    def _truth(self, condition: Condition) -> str:
        """A condition as SQL, its calls answered."""
        match condition:
            case Ask(call):
                return self.rewrites.sites[call.site]
            case Not(part):
                return f"NOT ({self._truth(part)})"
            case All(parts):
                return " AND ".join(f"({self._truth(part)})" for part in parts)
            case Any(parts):
                return " OR ".join(f"({self._truth(part)})" for part in parts)
            case Cheap(expr=expr) | Mixed(expr=expr):
                return self.rewrites.sql(expr)

    def ask(
        self, frame: Frame, condition: Condition, guards: Sequence[Link], quota: Quota | None = None
    ) -> None:
        """Ask what a condition needs, for rows on which it is still open. quota: of how many its truth is wanted."""
        if is_cheap(condition):
            return
        if documents(condition) is not None:
            self._program(frame, condition, guards)
            return
        values = values_of(condition) if self.optimize else ()
        if values:
            self._wanted(frame, values, guards)
            return
        match condition:
            case All(parts) | Any(parts):
                form = "({}) IS TRUE" if isinstance(condition, All) else "({}) IS NOT TRUE"
                for part in parts:
                    self.ask(frame, part, guards)
                    guards = [*guards, *self.links(part, form)]
            case Mixed(values=wanted, blocks=blocks):
                for block in blocks:
                    self.block(block, frame.reach(guards), quota)
                self._wanted(frame, wanted, guards)

    def _wanted(self, frame: Frame, wanted: Sequence[Value], guards: Sequence[Link]) -> None:
        """Ask the calls in a condition, as values."""
        for group, answers in self.values.answers(frame, wanted, guards):
            self._found.update({value.call.site: (answers, None) for value in group})
            if group[0].call.kind == "boolean":
                text = answers.value(self.alias())
                self.rewrites.sites.update({value.call.site: text for value in group})
                self.note_lists(group, answers)
            else:
                self.values.note(frame, group, answers)

    def note_lists(self, group: Sequence[Value], answers: Answers, frame: Frame | None = None) -> None:
        """Note the lists of labels that these answers complete. frame: of a block that they can be joined into."""
        self.lists.note([value.call for value in group], answers, self.rewrites, self.alias, frame)

    def flag(self, join: Joined) -> None:
        """Let the ON of a join, its calls answered, read answers beside its sides and hold no subquery for them."""
        if join.flagged is None:
            return
        flags = Flags()
        asked = [leaf for condition in filters(join.plan)[1] for leaf in leaves(condition)]
        calls = [call for leaf in asked for call in (leaf.calls if isinstance(leaf, Mixed) else ())]
        self.rewrites.forget_lists({call.site for call in calls})
        for call in [*calls, *(leaf.call for leaf in asked if isinstance(leaf, Ask))]:
            if call.site in self._found:  # else it is a constant by now
                answers, answer = self._found[call.site]
                self.rewrites.sites[call.site] = flags.text(answers, answer, join.right, self.alias())
        self.rewrites.flags[join.flagged] = flags

    def _program(
        self,
        frame: Frame,
        condition: Condition,
        guards: Sequence[Link],
        then: Fused | None = None,
        ending: Ending | None = None,
    ) -> dict[object, Answers]:
        """One step for a tree of calls about the same documents; its sites are then answered.

        then: what is asked where the tree is true.
        """
        sites = list(literals(condition, True))
        polarity: dict[object, set[bool]] = {}
        for call, positive in sites:
            polarity.setdefault(call.identity, set()).add(positive)
        program = Program(decide(condition), ()) if then is None else then.program
        flags = () if then is None else then.flags
        polarity.update({group[0].call.identity: {True, False} for group in then.groups} if then else {})
        answers = self.steps.program(
            frame.reach(guards), program.decisions, polarity, ending, flags=flags, entries=program.entries
        )
        tree = {call.identity for call, _ in sites}
        last = [decision.call for decision in program.decisions if decision.call.identity in tree][-1]
        chain = isinstance(condition, All) and all(isinstance(part, Ask) for part in condition.parts)
        for call, positive in sites:
            if chain and call.identity != last.identity:
                self.rewrites.sites[call.site] = (
                    "TRUE"  # the last call is asked only where the others are true
                )
                continue
            if call.identity not in answers:
                self.rewrites.sites[call.site] = "NULL"  # whatever it is, the others make the tree false
                continue
            self._found[call.site] = answers[call.identity], positive
            text = answers[call.identity].is_answer(positive, self.alias())
            self.rewrites.sites[call.site] = text if positive else f"(NOT ({text}))"
        return answers

    def _insert_join(self, frame: Frame, call: Call, answers: Answers) -> None:
        """A required question about pairs: its answer table is joined into FROM."""
        alias = self.alias()
        on = answers.equalities(alias)
        conditions = [*on, *([f"{alias}_answer"] if answers.everything else [])]
        self.rewrites.sites[call.site] = f"({' AND '.join(conditions)})"
        insertion = Insertion("CROSS", answers, alias, place(frame, call))
        self.rewrites.insertions.setdefault(frame.block.number, []).append(insertion)
        names, odds = frozenset({alias}), (asked(call),) if self.free is not None else ()
        frame.rows.members.append(Member(answers.aliased(alias), names, names, odds=odds))
        for number, equality in zip(answers.order, on, strict=True):
            relations = call.arguments[number].relations | {alias}
            frame.rows.links.append(Link(equality, relations, odds=CERTAIN))
        if answers.everything:
            frame.rows.links.append(Link(f"{alias}_answer", frozenset({alias}), odds=CERTAIN))

    def open(self, expr: exp.Expr) -> bool:
        """Whether an expression holds a call that is not answered yet, or whose answer only the residual finds."""
        return any(not self.rewrites.sites.get(number) for number in sites_of(expr))

    def alias(self) -> str:
        """A fresh name for an answer table in a query."""
        self._aliases += 1
        return f"__covey_j{self._aliases - 1}"


def _exprs(condition: Condition) -> list[exp.Expr]:
    """What a condition holds beside calls that stand alone."""
    return [leaf.expr for leaf in leaves(condition) if isinstance(leaf, Cheap | Mixed)]
