"""Answers beside the sides of a join: from answer tables to columns that its ON reads; never a subquery in that ON.

DuckDB 2.0.1 fails, and gives up the whole database, on some subqueries in ON beside a RIGHT or FULL join. So each side
is joined with what it needs before: an answer about one side as it is, answers about pairs as a map for each left row,
by the key of the right one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from covey_planner.language.render import render
from covey_planner.lowering.residual import Answers


@dataclass
class Flags:
    """What is joined to the sides of one join. left, right: `LEFT JOIN … ON …`; columns: what these add to FROM."""

    left: list[str] = field(default_factory=list)
    right: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)

    def text(self, answers: Answers, answer: bool | None, own: frozenset[str], alias: str) -> str:
        """What the ON reads in place of a call. answer: like `Answers.is_answer`, None for the answer as a value.

        own: the relations on the right side.
        """
        arguments = answers.call.arguments
        right = [n for n, number in enumerate(answers.order) if arguments[number].relations & own]
        left = [n for n in range(len(answers.order)) if n not in right]
        value = self._pairs(answers, answer, left, right, alias) if left and right else ""
        if not value:
            side = self.right if right else self.left
            side.append(f"LEFT JOIN {answers.aliased(alias)} ON {' AND '.join(answers.equalities(alias))}")
            self.columns += [*(f"{alias}_{n}" for n in (*left, *right)), f"{alias}_answer"]
            value = f"{alias}.{alias}_answer"
        if answer is None:
            return value
        return f"({value} IS TRUE)" if answer else f"({value} IS NOT FALSE)"

    def _pairs(
        self, answers: Answers, answer: bool | None, left: list[int], right: list[int], alias: str
    ) -> str:
        """Answers about pairs: a map beside each left row, its key beside each right row."""
        table, other = answers.aliased(alias), f"{alias}k"
        wanted = "" if answer is None else f" WHERE {'' if answer else 'NOT '}{alias}_answer"
        rights = " || ".join(f"{alias}_{n}" for n in right)
        lefts, keys = [f"{alias}_{n}" for n in left], answers.keys
        columns = ", ".join([*lefts, f"{alias}_map"])
        each = f"map_from_entries(list(({rights}, {alias}_answer)))"
        mapped = (
            f"(SELECT {', '.join(lefts)}, {each} FROM {table}{wanted} GROUP BY ALL) AS {alias}({columns})"
        )
        on = " AND ".join(f"{alias}.{name} = {keys[n]}" for name, n in zip(lefts, left, strict=True))
        self.left.append(f"LEFT JOIN {mapped} ON {on}")
        there = f"(SELECT DISTINCT {rights} FROM {table}{wanted}) AS {other}({other}_key)"
        self.right.append(f"LEFT JOIN {there} ON {other}_key = {' || '.join(keys[n] for n in right)}")
        self.columns += [*lefts, f"{alias}_map", f"{other}_key"]
        return f"{alias}.{alias}_map[{other}.{other}_key]"

    def put(self, join: exp.Expr) -> None:
        """Join them to the sides of a copied join, which becomes text."""
        table = join.this
        if self.right:
            table.replace(exp.Var(this=f"({' '.join([render(table), *self.right])})"))
        text = " ".join([*self.left, render(join).strip()])
        join.replace(exp.Var(this=f" {text}"))
