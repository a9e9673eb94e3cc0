"""Statements with AI calls in, runnable plans out: where server, planner and operators meet."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import cast

import duckdb
import pyarrow as pa
from covey_engine.operators.executor import Executor, Learn
from covey_planner.cost.statistics import CallKey, Selectivity
from covey_planner.cost.stored import StoredStatistics
from covey_planner.errors import PlanError, Unsupported
from covey_planner.language.views import expand
from covey_planner.plan import Planned, PlanOptions, plan
from covey_storage.catalog import Database

from covey_server import lifecycle
from covey_server.estimating import Estimating
from covey_server.execution import AiPlan
from covey_server.explaining import EXPLAINED, ExplainPlan
from covey_server.guard import Checked, Guard, tokenize
from covey_server.plans import ModelPlan
from covey_server.statements import (
    Outline,
    Parameters,
    outline,
    parameter_schema,
    parameter_values,
    select_schema,
)
from covey_server.views import StoredViews


@dataclass(frozen=True)
class CursorCatalog:
    """What the planner sees of the database: what one cursor's transaction sees, and the system table."""

    database: Database
    cursor: duckdb.DuckDBPyConnection
    guard: Guard

    def columns(self) -> Mapping[str, Mapping[str, str]]:
        """The columns of every table and view, with their DuckDB types."""
        return {**self.database.columns(self.cursor), lifecycle.TABLE: lifecycle.DUCKDB_TYPES}

    def views(self) -> Mapping[str, str]:
        """The statement that creates each view."""
        return self.database.views(self.cursor)

    def describe(self, sql: str) -> list[tuple[str, str]]:
        """Name and DuckDB type of what an AI-free statement yields."""
        # A text in another dialect is seen as DuckDB's SQL here for the first time.
        self.guard.refuse_functions(tuple(tokenize(sql)))
        return self.database.describe(sql, self.cursor)

    def describe_aside(self, sql: str) -> list[tuple[str, str]]:
        """The same on another cursor, first: DuckDB ends a transaction in which a statement cannot be read."""
        self.guard.refuse_functions(tuple(tokenize(sql)))
        try:
            return self.database.describe(sql)
        except duckdb.CatalogException:
            return self.database.describe(sql, self.cursor)


@dataclass(frozen=True)
class _Request:
    """What a plan is made of, for making it once more. unexpanded: the text before views were put into it."""

    sql: str
    options: PlanOptions
    values: Parameters
    statistics: StoredStatistics | None
    unexpanded: str | None


@dataclass(frozen=True)
class ModelSide:
    """The pinned model with its planner and operators. estimating: without it EXPLAIN shows no figures."""

    database: Database
    executor: Executor
    options: PlanOptions
    guard: Guard
    estimating: Estimating | None = None

    @cached_property
    def views(self) -> StoredViews:
        """The views that have AI calls."""
        return StoredViews(self.database)

    def concerns(self, names: frozenset[str]) -> bool:
        """Whether a statement with these names in it may read a view that has AI calls."""
        return self.views.concern(names)

    def _expanded(self, sql: str, cursor: duckdb.DuckDBPyConnection, dialect: str) -> str:
        """The statement with the queries of such views in their place."""
        tokens = tuple(tokenize(sql)) if dialect == "duckdb" else ()
        names = frozenset(token.text for token in tokens)
        if not tokens or not self.views.concern(names):
            return sql
        if tokens[0].text == "alter":
            self.views.note(names)
        return expand(sql, self.views.read(cursor), dialect)

    def changed(self, names: frozenset[str]) -> None:
        """Forget what was counted of these tables, and how often questions about them were true."""
        if self.estimating is not None:
            self.estimating.changed(names, _tables(self.database))

    def plan(
        self, checked: Checked, cursor: duckdb.DuckDBPyConnection, parameters: Parameters | None
    ) -> AiPlan | None:
        """Plan a statement; None where it has no AI calls. Raises PlanError."""
        sql, dialect = checked.sql, checked.dialect
        learn = self._learn() if checked.settled else None
        values = parameter_values(parameters) if parameters is not None else ()
        expanded = self._expanded(sql, cursor, dialect)
        options = replace(self.options, dialect=dialect, optimize=checked.optimize, anchor=checked.anchor)
        statistics = None
        if self.estimating is not None:
            options, statistics = self.estimating.options(options), self.estimating.statistics(cursor)
            options = replace(options, sampling=checked.sampling and checked.settled)
        try:
            given = sql if expanded != sql else None
            request = _Request(expanded, options, values, statistics, given)
            planned = self._planned(request, cursor)
        except PlanError as error:
            # Where views were put in, places in the text are no places in the statement.
            if expanded == sql:
                raise error from None
            raise type(error)(error.message + self._broken(sql, cursor, options)) from None
        if planned.kind == "plain":
            return None
        if planned.view:
            self.views.note([planned.view])
        # What the planner wrote for DuckDB holds all of the statement but its AI calls.
        self.guard.refuse_functions(tuple(tokenize(planned.describe_sql)))
        # DuckDB counts parameters from 1.
        names = [str(key + 1) if isinstance(key, int) else key for key in planned.parameters]
        expected = parameter_schema(cursor, list(zip(names, planned.parameter_types, strict=True)))
        revise = partial(self._revised, request) if planned.samples else None
        if planned.explain is not None:
            if planned.explain.analyze and planned.writes:
                raise Unsupported("EXPLAIN ANALYZE would run a statement that writes: use EXPLAIN")
            seen = _reading(EXPLAINED, expected)
            return ExplainPlan(ModelPlan(self.executor, planned, seen, learn, revise))
        if not planned.writes:
            schema = select_schema(cursor, planned.describe_sql)
            return ModelPlan(self.executor, planned, _reading(schema, expected), learn, revise)
        # The guard has seen the statement as written, which DuckDB may not be able to parse.
        seen = outline(cursor, self.guard.check(planned.describe_sql))
        return ModelPlan(self.executor, planned, replace(seen, parameters=expected), learn, revise)

    def _broken(self, sql: str, cursor: duckdb.DuckDBPyConnection, options: PlanOptions) -> str:
        """Which of the views that a statement names is not in order by itself, for a message; empty where none is."""
        views, names = self.views.read(cursor), {token.text for token in tokenize(sql)}
        for name in sorted(names & views.keys()):
            try:
                query = expand(views[name].query, views)
                self._planned(_Request(query, options, (), None, None), cursor)
            except PlanError:
                return f", in the view {views[name].name}"
        return ""

    def _planned(self, request: _Request, cursor: duckdb.DuckDBPyConnection) -> Planned:
        catalog = CursorCatalog(self.database, cursor, self.guard)
        return plan(
            request.sql, catalog, request.options, request.values, request.statistics, request.unexpanded
        )

    def _revised(
        self, request: _Request, cursor: duckdb.DuckDBPyConnection, found: Mapping[CallKey, Selectivity]
    ) -> Planned:
        """The statement planned again, by what a sample has shown and what was counted before."""
        assert request.statistics is not None, "without statistics nothing is in doubt"
        known = cast("MutableMapping[CallKey, Selectivity]", request.statistics.answers)
        answers = ChainMap(dict(found), known)
        statistics = request.statistics.within(cursor, answers)
        options = replace(request.options, sampling=False)
        return self._planned(replace(request, options=options, statistics=statistics), cursor)

    def _learn(self) -> Learn | None:
        """Keeps what a statement finds that reads the database as it is from now on."""
        if self.estimating is None:
            return None
        remembered = self.estimating.remembered
        return partial(remembered.note, since=remembered.now)


def _tables(database: Database) -> frozenset[str]:
    """The names of all tables, lower case."""
    cursor = database.cursor()
    try:
        rows = cursor.execute("SELECT lower(table_name) FROM duckdb_tables()").fetchall()
    finally:
        cursor.close()
    return frozenset(name for (name,) in rows)


def _reading(schema: pa.Schema, parameters: pa.Schema) -> Outline:
    """What is known of a statement that only reads."""
    return Outline(schema, parameters, update=False, counts=False, eager=False)
