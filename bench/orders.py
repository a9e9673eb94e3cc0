"""The best order of a problem's predicates by the answers themselves: every set of applied predicates is tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import duckdb
import numpy as np
from covey_planner.call import Call
from covey_planner.logical import (
    All,
    Ask,
    Block,
    Condition,
    Mixed,
    Not,
    filters,
    is_cheap,
    leaves,
    relations_of,
)
from covey_planner.logical import Any as Either
from covey_planner.ordering.costs import Costs
from covey_planner.ordering.posing import Unit
from covey_planner.ordering.problem import Choice, Ordered, Problem
from covey_planner.ordering.sources import sql
from covey_storage.tokenizer import Tokenizer
from numpy.typing import NDArray
from truth import Answers, question_number, text_number

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class _Texts:
    """Of the rows of a relation: the number of each text, and its tokens."""

    numbers: NDArray[np.uint64]
    lengths: NDArray[np.int64]


@dataclass
class Exact:
    """Takes the place of the search: knows the rows and the answers."""

    cursor: duckdb.DuckDBPyConnection
    tokenizer: Tokenizer
    answers: Answers
    _posed: list[tuple[Problem, tuple[Unit, ...], Block]] = field(default_factory=list)
    _ids: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    _tables: dict[str, str] = field(default_factory=dict)
    _texts: dict[tuple[str, str], _Texts] = field(default_factory=dict)

    def note(self, problem: Problem, units: tuple[Unit, ...], block: Block) -> None:
        """Remember what a problem stands for."""
        self._posed.append((problem, units, block))

    def order(self, problem: Problem, _seconds: object) -> Ordered:
        """The order with the fewest fresh tokens."""
        _, units, block = next(
            posed for posed in reversed(self._posed) if posed[0].documents is problem.documents
        )
        world = _World(self, problem, units, block)
        count, costs = len(problem.predicates), Costs(problem)

        @cache
        def best(mask: int, group: int) -> tuple[float, int]:
            if mask == (1 << count) - 1:
                return 0.0, -1
            return min(
                (
                    world.price(mask, number, way.group == group)
                    + best(mask | 1 << way.predicate, way.group)[0],
                    number,
                )
                for number, way in enumerate(costs.ways)
                if not mask >> way.predicate & 1
                and all(mask >> n & 1 for n in problem.predicates[way.predicate].after)
            )

        choices, mask, group = [], 0, -1
        while mask != (1 << count) - 1:
            way = costs.ways[best(mask, group)[1]]
            choices.append(Choice(way.predicate, way.side, way.group == group, 0.0, 0.0))
            mask, group = mask | 1 << way.predicate, way.group
        return Ordered(tuple(choices))

    def texts(self, key: str, table: str, column: str) -> _Texts:
        """The texts of a relation's rows."""
        if (table, column) not in self._texts:
            rows = self.cursor.execute(f"SELECT {column} FROM {table} ORDER BY id").fetchall()
            tokens = [np.array(self.tokenizer.encode(text), np.int32) for (text,) in rows]
            self._texts[table, column] = _Texts(
                np.array([text_number(each) for each in tokens], np.uint64),
                np.array([len(each) for each in tokens], np.int64),
            )
        return self._texts[table, column]


class _World:
    """The rows of one problem."""

    def __init__(self, exact: Exact, problem: Problem, units: Sequence[Unit], block: Block) -> None:
        self._exact, self._problem, self._units = exact, problem, units
        self._costs = Costs(problem)
        self._table: dict[str, str] = {}
        plain = [c for c in filters(block.plan)[1] if is_cheap(c)]
        for unit in units:
            for leaf in leaves(unit.condition) if unit.condition is not None else ():
                for inner in leaf.blocks if isinstance(leaf, Mixed) else ():
                    plain += [c for c in filters(inner.plan)[1] if is_cheap(c)]
        for call in self._calls():
            for argument in call.arguments:
                assert argument.table is not None
                self._table.update(dict.fromkeys(argument.relations, argument.table))
        self._plain = {key: self._rows(key, plain) for key in self._table}
        self._links: dict[tuple[str, str], Flags] = {}
        for condition in plain:
            keys = sorted(relations_of(condition) & self._table.keys())
            if len(keys) == 2:
                self._links[keys[0], keys[1]] = self._matrix(keys, condition)
        self._unary: dict[int, tuple[str, Flags]] = {}
        self._edges: dict[int, tuple[str, str, Flags]] = {}
        for number, unit in enumerate(units):
            self._apply(number, unit)
        self._states: dict[int, Any] = {}

    def _calls(self) -> list[Call]:
        found = [unit.call for unit in self._units if unit.call is not None]
        for unit in self._units:
            if unit.condition is not None:
                found += [leaf.call for leaf in leaves(unit.condition) if isinstance(leaf, Ask)]
                found += [c for leaf in leaves(unit.condition) if isinstance(leaf, Mixed) for c in leaf.calls]
        return found

    def _rows(self, key: str, plain: Sequence[Condition]) -> Flags:
        own = [sql(c) for c in plain if relations_of(c) == {key}]
        where = " AND ".join(f"({text})" for text in own) or "true"
        found = self._exact.cursor.execute(
            f"SELECT {where} FROM {self._table[key]} AS {_alias(key)} ORDER BY id"
        ).fetchall()
        return np.array([row[0] for row in found], np.bool_)

    def _matrix(self, keys: Sequence[str], condition: Condition) -> Flags:
        one, other = (f"{self._table[key]} AS {_alias(key)}" for key in keys)
        found = self._exact.cursor.execute(
            f"SELECT {sql(condition)} FROM {one}, {other} ORDER BY {_alias(keys[0])}.id, {_alias(keys[1])}.id"
        ).fetchall()
        return np.array([row[0] for row in found], np.bool_).reshape(len(self._plain[keys[0]]), -1)

    def _column(self, call: Call, numbers: Sequence[int]) -> tuple[str, _Texts]:
        (number,) = numbers
        argument = call.arguments[number]
        assert argument.table is not None
        assert argument.column is not None
        return min(argument.relations), self._exact.texts("", argument.table, argument.column)

    def _answers(self, call: Call) -> Flags:
        """What a call answers for each row, or each pair of rows of its first-mentioned and other side."""
        text = "".join(str(part) for part in call.template.parts)
        anchors, partners = call.sides
        numbers = self._column(call, anchors)[1].numbers
        if partners:
            numbers = numbers[:, None] + self._column(call, partners)[1].numbers
        return self._exact.answers.true(question_number(text), numbers)

    def _apply(self, number: int, unit: Unit) -> None:
        """What a predicate leaves: rows of a relation, or pairs of rows."""
        predicate = self._problem.predicates[number]
        if predicate.effect == "none" or unit.condition is None:
            return
        calls = [leaf.call for leaf in leaves(unit.condition) if isinstance(leaf, Ask)]
        call = unit.call if unit.call is not None else calls[0]
        anchors, partners = call.sides
        key = self._column(call, anchors)[0]
        if not partners:
            self._unary[number] = key, self._tree(unit.condition)
            return
        other = self._column(call, partners)[0]
        true = self._tree(unit.condition) if calls else self._answers(call)
        if predicate.effect == "keep":
            self._edges[number] = key, other, true
            return
        # A subquery: its partners are its own.
        outer = self._problem.relations[predicate.outer].name
        if outer != key:
            key, other, true = other, key, true.T
        kept = (true & self._link(key, other) & self._plain[other]).any(axis=1)
        self._unary[number] = key, kept if predicate.effect == "semi" else ~kept
        self._edges[number] = key, other, np.zeros((0, 0), np.bool_)

    def _link(self, one: str, other: str) -> Flags:
        if one > other:
            return self._link(other, one).T
        everything = np.ones((len(self._plain[one]), len(self._plain[other])), np.bool_)
        return self._links.get((one, other), everything)

    def _tree(self, condition: Condition) -> Flags:
        match condition:
            case Ask(call):
                return self._answers(call)
            case Not(part):
                return ~self._tree(part)
            case All(parts):
                return np.logical_and.reduce([self._tree(part) for part in parts])
            case Either(parts):
                return np.logical_or.reduce([self._tree(part) for part in parts])
            case Mixed(values=(value,)):
                return self._answers(value.call)
        raise AssertionError("no tree of calls")

    def _state(self, mask: int) -> tuple[dict[str, Flags], dict[tuple[str, str], Flags]]:
        """The rows left, and the joins among them."""
        if mask in self._states:
            return self._states[mask]
        alive = {key: rows.copy() for key, rows in self._plain.items()}
        private = {pair[1] for pair in self._edges.values() if not pair[2].size}
        joins = {keys: matrix for keys, matrix in self._links.items() if not set(keys) & private}
        for number in range(len(self._units)):
            if not mask >> number & 1:
                continue
            if number in self._unary:
                key, rows = self._unary[number]
                alive[key] &= rows
            elif number in self._edges:
                one, other, true = self._edges[number]
                if one > other:
                    one, other, true = other, one, true.T
                joins[one, other] = joins.get((one, other), np.True_) & true
        for _ in alive:
            for (one, other), matrix in joins.items():
                alive[one] = alive[one] & (matrix & alive[other]).any(axis=1)
                alive[other] = alive[other] & (matrix & alive[one][:, None]).any(axis=0)
        self._states[mask] = alive, joins
        return alive, joins

    def price(self, mask: int, number: int, joined: bool) -> float:
        """Fresh tokens of a way to ask a predicate."""
        way = self._costs.ways[number]
        predicate, unit = self._problem.predicates[way.predicate], self._units[way.predicate]
        side = predicate.sides[way.side]
        call = unit.calls[way.side] if unit.calls else self._first(unit)
        if call is None:
            return 0.0
        anchors, partners = call.sides
        alive, joins = self._state(mask)
        key, texts = self._column(call, anchors)
        documents = _distinct(texts, alive[key])
        total = documents[1] * side.prompt.question * predicate.asks
        if not joined:
            total += side.prompt.head + documents[0] + documents[1] * side.prompt.document
        if not partners:
            return float(total)
        other, others = self._column(call, partners)
        meets = self._meets(key, other, alive, joins, predicate.effect)
        codes = texts.numbers[:, None] * np.uint64(3) + others.numbers
        _, first = np.unique(codes[meets], return_index=True)
        lengths = np.broadcast_to(others.lengths, meets.shape)[meets][first]
        if side.early:
            true = meets & self._answers(call)
            tries = 1.2 * (meets.sum(axis=1) + 1) / (true.sum(axis=1) + 1)
            share = np.minimum(tries, meets.sum(axis=1)).sum() / max(1, meets.sum())
            lengths = lengths * share
            return float(total + lengths.sum() + len(lengths) * share * side.prompt.pair)
        return float(total + predicate.asks * (lengths.sum() + len(lengths) * side.prompt.pair))

    def _first(self, unit: Unit) -> Call | None:
        found = (
            [leaf.call for leaf in leaves(unit.condition) if isinstance(leaf, Ask)] if unit.condition else []
        )
        return found[0] if found else None

    def _meets(
        self, key: str, other: str, alive: dict[str, Flags], joins: dict[tuple[str, str], Flags], effect: str
    ) -> Flags:
        """Which rows of two relations a question is asked about."""
        if effect in ("semi", "anti"):
            return self._link(key, other) & alive[key][:, None] & alive[other]
        reached = {key: np.eye(len(alive[key]), dtype=np.bool_) & alive[key]}
        while True:
            before = len(reached)
            for (one, two), matrix in joins.items():
                for here, there, way in ((one, two, matrix), (two, one, matrix.T)):
                    if here in reached and there not in reached:
                        reached[there] = (reached[here].astype(np.int32) @ (way & alive[there])) > 0
            if len(reached) == before:
                break
        return reached.get(other, alive[key][:, None] & alive[other])


def _alias(key: str) -> str:
    return key.partition("@")[0]


def _distinct(texts: _Texts, alive: Flags) -> tuple[int, int]:
    """Tokens and number of the different texts of some rows."""
    _, first = np.unique(texts.numbers[alive], return_index=True)
    return int(texts.lengths[alive][first].sum()), len(first)
