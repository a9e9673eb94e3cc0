"""Putting answers back into the statement: copies of the syntax tree with answers in the places of AI calls.

An answer table is always read under reserved column names, so that no name of the statement is captured.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from typing import Literal, Protocol

from sqlglot import exp

from covey_planner.binding.asking_joins import fragile
from covey_planner.binding.sources import is_comma
from covey_planner.call import Call
from covey_planner.cost.unanswered import Unanswered
from covey_planner.language.multi import is_list
from covey_planner.language.parse import site_null, site_number, sites_of
from covey_planner.language.render import render
from covey_planner.logical import BLOCK, JOIN, Attached
from covey_planner.lowering.domains import key
from covey_planner.lowering.lookup import lookup
from covey_planner.lowering.once import Once
from covey_planner.lowering.semi_joins import as_predicates, in_place


@dataclass(frozen=True)
class Answers:
    """The answer tables of one call; their keys do not overlap.

    order: argument numbers in the order of the keys. everything: all answers are kept, not only the true
    ones.
    """

    call: Call
    tables: tuple[str, ...]
    order: tuple[int, ...]
    everything: bool

    @property
    def keys(self) -> list[str]:
        """The keys of the call's arguments, as SQL over the statement's relations."""
        return [key(self.call.arguments[number].sql) for number in self.order]

    def aliased(self, alias: str) -> str:
        """The tables as one member of FROM, with reserved column names."""
        columns = [f"{alias}_{n}" for n in range(len(self.order))] + [f"{alias}_answer"]
        table = self.tables[0]
        if len(self.tables) > 1:
            table = "(" + " UNION ALL ".join(f"SELECT * FROM {name}" for name in self.tables) + ")"
        return f"{table} AS {alias}({', '.join(columns)})"

    def equalities(self, alias: str) -> list[str]:
        """Conditions that join the aliased tables, one for each key."""
        return [f"{alias}_{n} = {own}" for n, own in enumerate(self.keys)]

    def is_answer(self, answer: bool, alias: str) -> str:
        """A predicate that is true where the call's answer is `answer`, and not true elsewhere."""
        names = ", ".join(f"{alias}_{n}" for n in range(len(self.order)))
        chosen = f" WHERE {'' if answer else 'NOT '}{alias}_answer" if self.everything else ""
        own = ", ".join(self.keys)
        keys = f"({own})" if len(self.order) > 1 else own
        return f"{keys} IN (SELECT {names} FROM {self.aliased(alias)}{chosen})"

    def value(self, alias: str) -> str:
        """The call's answer as a value; NULL where there is none. The tables hold all answers.

        No correlated subquery: DuckDB evaluates those once for values that are equal, and equal values
        (0.0 and -0.0, or texts under a collation) may have different keys.
        """
        if self.call.kind == "label" and self.call.accepted is None:
            own = ", ".join(self.keys)
            names = ", ".join(f"{alias}_{n}" for n in range(len(self.order)))
            found = f"({own}) IN (SELECT {names} FROM {self.aliased(alias)} WHERE {alias}_answer = {{0}})"
            texts = [f"'{label}'" for label in (name.replace("'", "''") for name in self.call.labels)]
            return f"CASE {' '.join(f'WHEN {found.format(text)} THEN {text}' for text in texts)} END"
        if self.call.kind in ("score", "count"):
            return self.found(alias)
        true, false = self.is_answer(True, alias), self.is_answer(False, alias)
        return f"CASE WHEN {true} THEN TRUE WHEN {false} THEN FALSE END"

    def found(self, alias: str) -> str:
        """The answer as it stands in the tables."""
        columns = [f"{alias}_{n}" for n in range(len(self.order))]
        return lookup(self.aliased(alias), columns, f"{alias}_answer", self.keys)


@dataclass(frozen=True)
class Insertion:
    """An answer table joined into a SELECT's FROM. at: before which of its joins; -1 behind all of them."""

    kind: Literal["CROSS", "LEFT"]
    answers: Answers
    alias: str
    at: int

    @property
    def columns(self) -> list[str]:
        """The reserved columns that it adds to FROM."""
        return [f"{self.alias}_{n}" for n in range(len(self.answers.order))] + [f"{self.alias}_answer"]


class Beside(Protocol):
    """What is joined to the sides of a join: `LEFT JOIN … ON …`. columns: the reserved columns that it adds to FROM."""

    left: list[str]
    right: list[str]
    columns: list[str]

    def put(self, join: exp.Expr) -> None:
        """Join it to a copied join."""
        ...


@dataclass
class Rewrites:
    """What is known so far: the text for each answered site ("" where only the residual has one), the answer tables
    joined into each block, the joins of each block that become predicates, what is joined to the sides of a join, by
    its number, what else the rows of a block have to fulfil, the text of lists of labels, by their sites, and the parts
    that are run once.
    """

    sites: dict[int, str] = field(default_factory=dict)
    insertions: dict[int, list[Insertion]] = field(default_factory=dict)
    predicates: dict[int, list[Attached]] = field(default_factory=dict)
    flags: dict[int, Beside] = field(default_factory=dict)
    conditions: dict[int, str] = field(default_factory=dict)
    lists: dict[tuple[int, ...], str] = field(default_factory=dict)
    once: Once = field(default_factory=Once)

    def apply(self, node: exp.Expr) -> exp.Expr:
        """A copy with all known answers in place; a call without one becomes a typed NULL."""
        if isinstance(node, exp.Column | exp.Literal):
            return node.copy()
        holder = exp.Paren(this=node.copy())
        self.once.put(holder, self.apply)
        joins: list[exp.Expr] = []
        for part in list(holder.walk()):
            if fragile(part) or part.meta_get(JOIN) in self.flags:
                joins.append(part)
            number = site_number(part)
            if number is not None:
                part.replace(exp.Var(this=self.sites.get(number) or site_null(part)))
            elif self.lists and is_list(part) and (sites := sites_of(part)) in self.lists:
                part.replace(exp.Var(this=self.lists[sites]))
            elif isinstance(part, exp.Select) and part.meta_get(BLOCK) is not None:
                self._apply_to_block(part, part.meta_get(BLOCK))
        for number, join in enumerate(
            reversed(joins)
        ):  # the inner ones first: what is around them becomes text
            select = join.parent if isinstance(join.parent, exp.Select) else None
            if select is None or any(other is join for other in select.args["joins"]):
                flags = self.flags.get(join.meta_get(JOIN))
                columns = [in_place(join, number)] if flags is None else flags.columns
                if flags is not None:
                    flags.put(join)
                if select is not None:
                    hide(select, columns)
        copy: exp.Expr = holder.this
        return copy

    def _apply_to_block(self, select: exp.Select, number: int) -> None:
        predicates = self.predicates.get(number, [])
        joins = [(select.args["joins"][join.position], join) for join in predicates]
        if number in self.insertions:
            insert(select, self.insertions[number])
        if joins:
            as_predicates(select, joins, self.sql)
        restrict(select, self.conditions.get(number))

    def forget_lists(self, sites: Set[int]) -> None:
        """Write lists of labels with these sites out."""
        self.lists = {own: text for own, text in self.lists.items() if sites.isdisjoint(own)}

    def sql(self, node: exp.Expr) -> str:
        """The text of such a copy."""
        return render(self.apply(node), copy=False)


def insert(select: exp.Select, insertions: Sequence[Insertion]) -> None:
    """Join answer tables into a copied SELECT; `*` goes on meaning what it meant."""
    joins: list[exp.Expr] = list(select.args.get("joins") or [])
    before: dict[int, list[exp.Expr]] = {}
    for insertion in insertions:
        at = len(joins) if insertion.at < 0 else insertion.at
        on = " AND ".join(insertion.answers.equalities(insertion.alias)) if insertion.kind == "LEFT" else None
        table = exp.Var(this=insertion.answers.aliased(insertion.alias))
        join = exp.Join(this=table, on=exp.Var(this=on) if on else None)
        join.set("side" if insertion.kind == "LEFT" else "kind", insertion.kind)
        before.setdefault(at, []).append(join)
    merged: list[exp.Expr] = []
    for at, written in enumerate(joins):
        if isinstance(written, exp.Join) and is_comma(written):
            written.set("kind", "CROSS")
        merged += [*before.get(at, []), written]
    merged += before.get(len(joins), [])
    select.set("joins", merged)
    hide(select, [name for insertion in insertions for name in insertion.columns])


def hide(select: exp.Select, columns: Sequence[str]) -> None:
    """Leave reserved columns out of `*`."""
    for item in select.expressions:
        if isinstance(item, exp.Star):
            hidden = [exp.to_identifier(name) for name in columns]
            item.set("except_", [*(item.args.get("except_") or []), *hidden])


def restrict(select: exp.Select, condition: str | None) -> None:
    """Add a condition to a copied SELECT."""
    if condition is None:
        return
    where = select.args.get("where")
    parts = (
        [exp.Var(this=condition)] if where is None else [exp.Paren(this=where.this), exp.Var(this=condition)]
    )
    select.set("where", exp.Where(this=exp.and_(*parts, copy=False)))


def grouped_query(
    rewrites: Rewrites | Unanswered, select: exp.Select, columns: Sequence[str], having: Sequence[str]
) -> str:
    """A SELECT up to HAVING, yielding `columns` beside its own list (which GROUP BY may refer to by number).

    having: further conditions on the groups. Conditions in HAVING that wait for an answer are left out.
    """
    copy = select.copy()
    for key_ in ("with_", "distinct", "order", "limit", "offset", "qualify"):
        copy.set(key_, None)
    clause = copy.args.get("having")
    parts = list(clause.this.flatten()) if clause is not None and isinstance(clause.this, exp.And) else []
    parts = parts or ([clause.this] if clause is not None else [])
    answered = rewrites.sites if isinstance(rewrites, Rewrites) else ()
    known = [part for part in parts if all(site_number(n) in {None, *answered} for n in part.walk())]
    conditions = [exp.Paren(this=part.copy()) for part in known] + [exp.Var(this=text) for text in having]
    copy.set("having", exp.Having(this=exp.and_(*conditions, copy=False)) if conditions else None)
    copy.set("expressions", [*copy.expressions, *(exp.Var(this=column) for column in columns)])
    return rewrites.sql(copy)
