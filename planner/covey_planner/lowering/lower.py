"""From the logical to the physical plan: steps in dependency order, then the residual; never runs SQL.

A block's filters become steps one after another; each leaves answers that the domains of the later ones use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from covey_planner.binding.sources import with_clause
from covey_planner.binding.volatile import volatile
from covey_planner.call import Argument, Call
from covey_planner.cost.unanswered import CERTAIN, Unanswered, asked, odds_of
from covey_planner.errors import Unsupported
from covey_planner.language.parse import site_number
from covey_planner.logical import (
    All,
    Any,
    Ask,
    Block,
    Cheap,
    Condition,
    Logical,
    Mixed,
    Not,
    Source,
    Value,
    filters,
    is_cheap,
    leaves,
    relations_of,
)
from covey_planner.lowering.decision import decide
from covey_planner.lowering.domains import Link, Member, Rows, values
from covey_planner.lowering.ending import Ending, ending_of
from covey_planner.lowering.limited import ROWS, Limited, limited
from covey_planner.lowering.outer_joins import Joins
from covey_planner.lowering.residual import Answers, Insertion, Rewrites, grouped_query
from covey_planner.lowering.steps import Steps
from covey_planner.physical import Given, Odds, PhysicalPlan
from covey_planner.profiles import PromptProfile
from covey_planner.rules.share_documents import documents, same_documents

_MUST = {
    "be true": "({}) IS TRUE",
    "not be true": "({}) IS NOT TRUE",
    "not be false": "({}) IS DISTINCT FROM FALSE",
}


def lower(
    logical: Logical,
    tree: exp.Query,
    profile: PromptProfile,
    optimize: bool = True,
    estimated: bool = False,
    written: exp.Expr | None = None,
    names: Sequence[str] = (),
) -> PhysicalPlan:
    """The physical plan of a bound statement. names: of its columns.

    optimize: questions on the same documents come together, and a step ends where enough is known. estimated: with
    what its estimates need. written: the statement that runs in the end, where it is not the tree itself.
    """
    late = limited(logical, tree) if optimize and names and written is None else None
    lowering = Lowering(logical, tree, profile, optimize, estimated, late)
    for block in logical.blocks:
        lowering.block(block, None)
    residual = lowering.rewrites.sql(written or tree) if late is None else lowering.below_limit(late, names)
    return PhysicalPlan(tuple(lowering.steps.done), residual, profile.name)


@dataclass(frozen=True)
class Frame:
    """A block while it is lowered; rows and joined grow.

    outer: the rows of the SELECT around a subquery; ending: what may end its last filter early; joined: by site, what
    the residual reads where an answer table is joined in; inside: it is the pairs of a join, whose ON sees no answer
    table that is joined into the block.
    """

    block: Block
    source: Source
    rows: Rows
    outer: Rows | None
    ending: Ending | None
    joined: dict[int, str] = field(default_factory=dict)
    inside: bool = False

    def reach(self, guards: Sequence[Link]) -> Rows:
        """The rows for a domain query: this block's and those around it, under additional conditions."""
        rows = replace(self.rows, links=[*self.rows.links, *guards])
        return rows.known() if self.outer is None else rows.inside(self.outer)

    @property
    def insertable(self) -> bool:
        """Whether answer tables can be joined into the block's FROM."""
        return self.source.insertable and bool(self.source.items) and not self.inside


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
        calls = [call for block in logical.blocks for call in _calls(block)]
        self._tree = tree
        self._optimize = optimize
        self._late = frozenset[int]() if late is None else late.sites
        self.free = Unanswered({call.site: call for call in calls}) if estimated else None
        self.steps = Steps(profile, calls)
        self.rewrites = Rewrites()
        self._aliases = 0

    def block(self, block: Block, outer: Rows | None) -> None:
        """Lower a block, everything it reads being lowered."""
        source, conditions = filters(block.plan)
        ending = ending_of(block, self._tree) if self._optimize else None
        frame = Frame(block, source, self._rows(block), outer, ending)
        joins = Joins(self, frame)
        required: dict[object, str] = {}
        for condition in conditions:
            if not is_cheap(condition):
                joins.settle(relations_of(condition))
            last = condition is conditions[-1]
            then = self._then(frame, condition) if last and self._optimize and frame.ending is None else []
            self._filter(frame, condition, then, frame.ending if last else None)
            for call, positive in _required(condition):
                # No bare literal: DuckDB refuses to order by one.
                required[call.identity] = "(NOT FALSE)" if positive else "(NOT TRUE)"
        joins.settle(None)
        for value in block.values:
            if value.call.identity in required and not value.grouped:
                self.rewrites.sites[value.call.site] = required[value.call.identity]
        for nested in block.nested:
            self.block(nested, frame.reach(()))
        answered = self._late | self.rewrites.sites.keys()
        open_ = [value for value in block.values if value.call.site not in answered]
        self._row_values(frame, [value for value in open_ if not value.grouped])
        self.rewrites.sites.update(frame.joined)
        self._group_values(frame, [value for value in open_ if value.grouped])

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
        for group, answers in self._answers(frame, [Value(call, False) for call in calls], ()):
            text = answers.value(self._alias())
            self.rewrites.sites.update({value.call.site: text for value in group})
        self.steps.done[first] = replace(self.steps.done[first], before=((ROWS, table),))
        return late.residual(self.rewrites, names)

    def _rows(self, block: Block) -> Rows:
        """No rows yet."""
        free = self.free
        return Rows(
            lambda text: with_clause(block.ctes, self.rewrites.apply, text),
            None if free is None else lambda text: with_clause(block.ctes, free.apply, text),
        )

    def _filter(
        self, frame: Frame, condition: Condition, then: Sequence[list[Value]], ending: Ending | None
    ) -> None:
        """Lower one of a block's filters and note what holds for the rows that pass it.

        then: values to ask with it, of the rows that pass. ending: what may end it before all is asked.
        """
        if documents(condition) is None:
            self.ask(frame, condition, ())
            frame.rows.links += self.links(condition)
            return
        found = self._program(frame, condition, (), [group[0].call for group in then], ending)
        parts = condition.parts if isinstance(condition, All) else (condition,)
        calls = [part.call for part in parts if isinstance(part, Ask) and part.call.is_join]
        if len(calls) == len(parts) and frame.insertable:
            self._insert_join(frame, calls[-1], found[calls[-1].identity])
        else:
            frame.rows.links += self.links(condition)
        for group in then:
            self._answer_rows(frame, group, found[group[0].call.identity])

    def _then(self, frame: Frame, last: Condition) -> list[list[Value]]:
        """The values that the step of a block's last filter can ask while its documents are there."""
        shared = documents(last)
        asked = {leaf.call.identity for leaf in leaves(last) if isinstance(leaf, Ask)}
        return [
            group
            for group in _same_calls(
                [v for v in frame.block.values if not v.grouped and v.call.site not in self._late]
            )
            if shared is not None
            and documents(Ask(group[0].call)) == shared
            and group[0].call.identity not in asked
            and not self.steps.answered(group[0].call)
            and any(not value.guards for value in group)
        ]

    def links(self, condition: Condition, form: str = "{}") -> list[Link]:
        """A condition as a predicate for domain queries; none where it changes from one query to the next, or holds
        an answer that they cannot look up.
        """
        exprs = [leaf.expr for leaf in leaves(condition) if isinstance(leaf, Cheap | Mixed)]
        subquery = any(expr.find(exp.Query) is not None for expr in exprs)
        if any(volatile(expr) is not None or self._open(expr) for expr in exprs):
            return []
        odds = None if is_cheap(condition) else odds_of(condition)
        if odds is not None and "NOT" in form:
            odds = Odds("not", (odds,))
        return [Link(form.format(self._truth(condition)), relations_of(condition), subquery, odds)]

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

    def ask(self, frame: Frame, condition: Condition, guards: Sequence[Link]) -> None:
        """Ask what a condition needs, for rows on which it is still open."""
        if is_cheap(condition):
            return
        if documents(condition) is not None:
            self._program(frame, condition, guards)
            return
        match condition:
            case All(parts) | Any(parts):
                form = "({}) IS TRUE" if isinstance(condition, All) else "({}) IS NOT TRUE"
                for part in parts:
                    self.ask(frame, part, guards)
                    guards = [*guards, *self.links(part, form)]
            case Mixed(values=wanted, blocks=blocks):
                for block in blocks:
                    self.block(block, frame.reach(guards))
                for group, answers in self._answers(frame, wanted, guards):
                    if group[0].call.kind == "boolean":
                        text = answers.value(self._alias())
                        self.rewrites.sites.update({value.call.site: text for value in group})
                    else:
                        self._answer_rows(frame, group, answers)

    def _program(
        self,
        frame: Frame,
        condition: Condition,
        guards: Sequence[Link],
        then: Sequence[Call] = (),
        ending: Ending | None = None,
    ) -> dict[object, Answers]:
        """One step for a tree of calls about the same documents; its sites are then answered.

        then: calls about them that are asked where the tree is true.
        """
        sites = list(_literals(condition, True))
        polarity: dict[object, set[bool]] = {}
        for call, positive in sites:
            polarity.setdefault(call.identity, set()).add(positive)
        program = decide(condition, then)
        polarity.update({call.identity: {True, False} for call in then})
        answers = self.steps.program(frame.reach(guards), program, polarity, ending)
        last = program[len(program) - len(then) - 1].call
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
            text = answers[call.identity].is_answer(positive, self._alias())
            self.rewrites.sites[call.site] = text if positive else f"(NOT ({text}))"
        return answers

    def _insert_join(self, frame: Frame, call: Call, answers: Answers) -> None:
        """A required question about pairs: its answer table is joined into FROM."""
        alias = self._alias()
        on = answers.equalities(alias)
        conditions = [*on, *([f"{alias}_answer"] if answers.everything else [])]
        self.rewrites.sites[call.site] = f"({' AND '.join(conditions)})"
        insertion = Insertion("CROSS", answers, alias, _place(frame, call))
        self.rewrites.insertions.setdefault(frame.block.number, []).append(insertion)
        names, odds = frozenset({alias}), (asked(call),) if self.free is not None else ()
        frame.rows.members.append(Member(answers.aliased(alias), names, names, odds=odds))
        for number, equality in zip(answers.order, on, strict=True):
            relations = call.arguments[number].relations | {alias}
            frame.rows.links.append(Link(equality, relations, odds=CERTAIN))
        if answers.everything:
            frame.rows.links.append(Link(f"{alias}_answer", frozenset({alias}), odds=CERTAIN))

    def _guards(self, wanted: Sequence[Value]) -> list[Link]:
        """Guards of a call's places; with several places, only what all of them share."""
        shared = [guard for guard in wanted[0].guards if all(guard in other.guards for other in wanted)]
        return [
            Link(
                _MUST[guard.must].format(self.rewrites.sql(guard.expr)),
                guard.relations,
                guard.expr.find(exp.Query) is not None,
                self.free.guard(guard) if self.free is not None else None,
            )
            for guard in shared
            if not self._open(guard.expr) and volatile(guard.expr) is None
        ]

    def _open(self, expr: exp.Expr) -> bool:
        """Whether an expression holds a call that is not answered yet, or whose answer only the residual finds."""
        numbers = [number for part in expr.walk() if (number := site_number(part)) is not None]
        return any(not self.rewrites.sites.get(number) for number in numbers)

    def _row_values(self, frame: Frame, wanted: Sequence[Value]) -> None:
        """Answers for the clauses after WHERE: domains look them up, the residual joins them."""
        for group, answers in self._answers(frame, wanted, ()):
            self._answer_rows(frame, group, answers)

    def _answers(
        self, frame: Frame, wanted: Sequence[Value], guards: Sequence[Link]
    ) -> Iterator[tuple[list[Value], Answers]]:
        """The answers to each question: one step for those about the same documents of the same rows.

        Whoever takes one notes it before asking for the next: later steps look it up.
        """
        waiting = _same_calls(wanted)
        while waiting:
            own = self._guards(waiting[0])
            together = self._together(waiting, own)
            waiting = [group for group in waiting if group not in together]
            found = self.steps.values(frame.reach([*guards, *own]), [group[0].call for group in together])
            yield from zip(together, found, strict=True)

    def _together(self, waiting: Sequence[list[Value]], guards: Sequence[Link]) -> list[list[Value]]:
        """The first group of values and those that one step can ask with it: about its documents, of its rows."""
        first, *others = waiting
        call = first[0].call
        together = [first]
        if not self._optimize or self.steps.answered(call):
            return together
        for group in others:
            other = group[0].call
            if (
                same_documents(other, call)
                and not self.steps.answered(other)
                and not any(self._open(guard.expr) for value in group for guard in value.guards)
                and self._guards(group) == guards
            ):
                together.append(group)
        return together

    def _answer_rows(self, frame: Frame, group: Sequence[Value], answers: Answers) -> None:
        """Note where a question's answers are looked up, and where the residual finds them joined in."""
        call, alias = group[0].call, self._alias()
        text = answers.value(alias)
        self.rewrites.sites.update({value.call.site: text for value in group})
        # An ON stands before the answers are joined in: it looks them up.
        late = [value for value in group if _join_of(frame, value.call) is None]
        if not (late and call.relations <= frame.source.relations and frame.insertable):
            return
        insertion = Insertion("LEFT", answers, alias, -1)
        self.rewrites.insertions.setdefault(frame.block.number, []).append(insertion)
        frame.joined.update({value.call.site: f"{alias}.{alias}_answer" for value in late})

    def _group_values(self, frame: Frame, wanted: Sequence[Value]) -> None:
        """Answers about groups: one step a question, looked up by group."""
        for group in _same_calls(wanted):
            answers = self._grouped(frame, group[0].call, self._guards(group))
            text = answers.value(self._alias())
            self.rewrites.sites.update({value.call.site: text for value in group})

    def _grouped(self, frame: Frame, call: Call, guards: Sequence[Link]) -> Answers:
        """A question about groups: its domain is the SELECT itself, up to HAVING."""
        own = frame.source.relations
        conditions = filters(frame.block.plan)[1]
        if not (call.relations <= own and all(relations_of(condition) <= own for condition in conditions)):
            raise Unsupported(
                "an AI call on groups in a correlated subquery is not supported yet", call.position
            )
        having = [guard.sql for guard in guards]

        def query(columns: Sequence[str]) -> str:
            return grouped_query(self.rewrites, frame.block.select, columns, having)

        return self.steps.grouped(query, frame.rows.with_, call, self._before_answers(frame))

    def _before_answers(self, frame: Frame) -> Callable[[Sequence[Argument]], Given] | None:
        """The groups before anything is answered, for estimates."""
        free, with_ = self.free, frame.rows.with_free
        if free is None or with_ is None:
            return None

        def given(arguments: Sequence[Argument]) -> Given:
            text = grouped_query(free, frame.block.select, values(arguments), ())
            relations = frozenset().union(*(argument.relations for argument in arguments))
            odds = frame.rows.odds(frame.rows.component(relations))
            return Given(f"{with_(text)}{text}", relations, odds)

        return given

    def _alias(self) -> str:
        self._aliases += 1
        return f"__covey_j{self._aliases - 1}"


def _literals(condition: Condition, positive: bool) -> Iterator[tuple[Call, bool]]:
    """The calls of a tree and whether each is asked for being true or, under NOT, false."""
    match condition:
        case Ask(call):
            yield call, positive
        case Not(part):
            yield from _literals(part, not positive)
        case All(parts) | Any(parts):
            for part in parts:
                yield from _literals(part, positive)


def _same_calls(wanted: Sequence[Value]) -> list[list[Value]]:
    """Values by the question they ask, in the order of the first."""
    groups: dict[object, list[Value]] = {}
    for value in wanted:
        groups.setdefault(value.call.identity, []).append(value)
    return list(groups.values())


def _required(condition: Condition) -> Iterator[tuple[Call, bool]]:
    """Calls whose answer is the same for every row that passes a filter."""
    match condition:
        case Ask(call):
            yield call, True
        case Not(Ask(call)):
            yield call, False
        case All(parts):
            for part in parts:
                yield from _required(part)


def _calls(block: Block) -> Iterator[Call]:
    """All calls of a block and of those inside its expressions."""
    for condition in filters(block.plan)[1]:
        for leaf in leaves(condition):
            if isinstance(leaf, Ask):
                yield leaf.call
            elif isinstance(leaf, Mixed):
                yield from leaf.calls
                for inner in leaf.blocks:
                    yield from _calls(inner)
    yield from (value.call for value in block.values)
    for inner in block.nested:
        yield from _calls(inner)
    for join in block.joins:
        yield from _calls(Block(block.number, block.select, block.ctes, join.plan))


def _place(frame: Frame, call: Call) -> int:
    """Before which join of the SELECT an answer table is joined in.

    Before the ON that holds the call, if one does; else as soon as all is there that the call is about.
    """
    at = _join_of(frame, call)
    if at is not None:
        return at
    items = [item.position for item in frame.source.items if item.relations & call.relations]
    attached = [join.position for join in frame.source.attached if join.relation in call.relations]
    return max([*items, *attached, -1]) + 1


def _join_of(frame: Frame, call: Call) -> int | None:
    """Which join of the SELECT holds the call in its ON."""
    joins: list[exp.Join] = frame.block.select.args.get("joins") or []
    for at, join in enumerate(joins):
        on = join.args.get("on")
        if on is not None and any(site_number(part) == call.site for part in on.walk()):
            return at
    return None
