"""From SQL text to a plan: AI-free text passes through verbatim, everything else becomes steps and a residual
query.

Never runs the model, and DuckDB only to describe AI-free statements.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from covey_planner.binding.bind import bind
from covey_planner.binding.scope import Aside, Catalog, Viewing, describe
from covey_planner.cost.estimate import StepEstimate, estimate
from covey_planner.cost.statistics import Counting
from covey_planner.errors import BindError, PlanError, Unsupported
from covey_planner.explaining.report import Report, Sampling
from covey_planner.explaining.trace import Trace
from covey_planner.language import foreign
from covey_planner.language.comparisons import ask_comparisons
from covey_planner.language.constants import select_in_values
from covey_planner.language.correlated import put_ctes_in_place
from covey_planner.language.explained import Explain
from covey_planner.language.flatten import flatten
from covey_planner.language.fragile import check_joins
from covey_planner.language.lambdas import lists_to_rows
from covey_planner.language.laterals import ask_in_laterals
from covey_planner.language.multi import ask_each_label
from covey_planner.language.outputs import forget_positions, name_outputs
from covey_planner.language.parameter_types import infer_types, typed_nulls
from covey_planner.language.parameters import literals, parameter_keys, placeholder_scan
from covey_planner.language.parse import Scan, Statement, describe_text, scan, token_position
from covey_planner.language.semi_joins import semi_joins_to_exists
from covey_planner.language.surrounding import Surrounding, take_off
from covey_planner.language.unions import exists_of_each_branch, in_each_branch
from covey_planner.logical import Logical
from covey_planner.lowering.lower import lower
from covey_planner.lowering.once import Once
from covey_planner.lowering.sampling import samples
from covey_planner.optimize import optimize
from covey_planner.ordering.anchors import Anchors
from covey_planner.ordering.arrange import arrange, settled
from covey_planner.ordering.costing import Costing
from covey_planner.ordering.doubt import Doubt, Posed, doubt
from covey_planner.ordering.foresight import foresee
from covey_planner.physical import PhysicalPlan
from covey_planner.planned import Planned, PlanOptions
from covey_planner.rules import NEEDED, RULES

__all__ = ["PlanOptions", "Planned", "plan"]


class _Once:
    """A catalog asked for its columns once."""

    def __init__(self, catalog: Catalog) -> None:
        self._columns = catalog.columns()
        self.describe = catalog.describe
        self.describe_aside = catalog.describe_aside if isinstance(catalog, Aside) else catalog.describe
        self.views: Callable[[], Mapping[str, str]] = catalog.views if isinstance(catalog, Viewing) else dict

    def columns(self) -> Mapping[str, Mapping[str, str]]:
        """What the catalog said."""
        return self._columns


def plan(
    sql: str,
    catalog: Catalog,
    options: PlanOptions,
    parameters: Sequence[object] | Mapping[str, object] = (),
    statistics: Counting | None = None,
    unexpanded: str | None = None,
) -> Planned:
    """Plan a statement. Raises PlanError, with one line and a position, for what is wrong with an AI
    statement.

    Without values for its parameters an AI statement is planned with typed NULLs, to be described. unexpanded: the
    text before views were put into it, where there were any.
    """
    try:
        return _plan(sql, catalog, options, parameters, statistics, unexpanded)
    except RecursionError:
        raise Unsupported("the statement is nested too deeply for an AI call in it to be planned") from None


def _plan(
    sql: str,
    catalog: Catalog,
    options: PlanOptions,
    parameters: Sequence[object] | Mapping[str, object],
    statistics: Counting | None,
    unexpanded: str | None,
) -> Planned:
    scanned = scan(sql, options.dialect)
    if scanned is None:
        return _plain(sql, catalog, options.dialect)
    catalog = _Once(catalog)
    keys = parameter_keys(scanned.placeholders)
    types = infer_types(scanned.tokens, scanned.placeholders, catalog) if keys else {}
    unbound = bool(keys) and not parameters
    scanned = replace(scanned, unbound=unbound)
    texts = (
        typed_nulls(scanned.tokens, scanned.placeholders, types)
        if unbound
        else literals(scanned.placeholders, parameters)
    )
    around = take_off(scanned, texts, options.dialect)
    statement = _rewritten(around.statement, catalog, options)
    scanned = statement.scan
    described, logical, once = _bound(statement, around, catalog, options.dialect)
    columns = _describe(catalog, described, scanned) if around.yields else ()
    if around.yields:
        name_outputs(statement, [name for name, _ in columns])
    forget_positions(statement.tree)
    trace = Trace() if scanned.explain is not None and scanned.explain.verbose else None
    explained = scanned.explain is not None
    arranged = _arranged(logical, statement.tree, catalog.columns(), options, statistics, explained, trace)
    open_ = doubt(arranged.posed) if options.sampling and not unbound else Doubt()
    counted = statistics is not None and options.encode is not None
    physical = lower(
        arranged.logical,
        statement.tree,
        options.profile,
        options.optimize,
        (explained and counted) or bool(open_.keys),
        around.change.statement() if around.change is not None else None,
        [name for name, _ in columns],
        once,
    )
    sampled = samples(physical, open_.keys.keys())
    physical = around.finished(physical, scanned, unexpanded)
    sampling = Sampling(sampled, open_.keys) if sampled else None
    return Planned(
        kind="ai",
        physical=physical,
        sql=sql,
        describe_sql=around.described(described),
        writes=around.writing is not None,
        view=around.writing.view if around.writing is not None else "",
        tables=_tables(statement.tree, catalog),
        columns=columns,
        parameters=keys,
        parameter_types=tuple(types[key] for key in keys),
        unbound=unbound,
        explain=scanned.explain,
        report=_report(physical, scanned.explain, options, statistics, trace, sampling),
        samples=sampled,
        doubt=open_,
        anchors=arranged.anchors,
    )


def _rewritten(statement: Statement, catalog: Catalog, options: PlanOptions) -> Statement:
    """The statement in fewer forms, each of which says the same; its tree is changed."""
    statement = ask_each_label(lists_to_rows(statement))
    if options.optimize:
        statement = ask_comparisons(statement, options.dialect)
    select_in_values(statement)
    check_joins(statement.tree)
    put_ctes_in_place(statement.tree)
    ask_in_laterals(statement.tree)
    if options.optimize:
        flatten(statement.tree, catalog.columns())
        semi_joins_to_exists(statement.tree)
        exists_of_each_branch(statement.tree)
        in_each_branch(statement.tree, catalog)
    return statement


def _bound(
    statement: Statement, around: Surrounding, catalog: Catalog, dialect: str
) -> tuple[str, Logical, Once]:
    """AI-free SQL with the columns of a statement that yields any, its blocks, and what is to be run once."""
    if dialect == "duckdb":
        described = describe_text(statement.scan, around.texts) if around.yields else ""
        once = Once.find(statement.tree, catalog)
        return described, bind(statement, catalog), once
    foreign.adapt(statement, dialect)
    described = foreign.described(statement) if around.yields else ""
    try:
        once = Once.find(statement.tree, catalog)
        return described, bind(statement, catalog), once
    except PlanError as error:
        raise foreign.placed(error, statement) from None


@dataclass(frozen=True)
class _Arranged:
    """Blocks as they are to run. posed: those that were ordered by cost; anchors: None where nothing was."""

    logical: Logical
    posed: tuple[Posed, ...] = ()
    anchors: Anchors | None = None


def _arranged(
    logical: Logical,
    tree: exp.Query,
    stored: Mapping[str, Mapping[str, str]],
    options: PlanOptions,
    statistics: Counting | None,
    explained: bool,
    trace: Trace | None,
) -> _Arranged:
    """The rules, then the order by cost as far as there is something to count with. explained: figures are wanted."""
    given = optimize(logical, RULES if options.optimize else NEEDED, trace)
    if statistics is None or options.encode is None:
        return _Arranged(given)
    cheapest = options.anchor == "cheapest"
    if explained or (options.optimize and not settled(given, cheapest)):
        foresee(given, tree, stored, statistics)
    if not options.optimize:
        return _Arranged(given)
    price = options.price or options.pricing.seconds
    costing = Costing(statistics, options.encode, price, options.chunk_tokens)
    posed: list[Posed] = []
    found = arrange(given, tree, options.profile, costing, stored, cheapest, posed)
    if trace is not None:
        trace.compare("ordering by cost", given, found)
    return _Arranged(found, tuple(posed), Anchors(costing) if cheapest else None)


def _report(
    physical: PhysicalPlan,
    explain: Explain | None,
    options: PlanOptions,
    statistics: Counting | None,
    trace: Trace | None,
    sampling: Sampling | None,
) -> Report | None:
    """What EXPLAIN has to say, None where it was not asked for; without statistics or tokens, no estimates."""
    if explain is None:
        return None
    estimates: tuple[StepEstimate, ...] = ()
    if statistics is not None and options.encode is not None:
        estimates = estimate(physical, statistics, options.encode, options.chunk_tokens)
    changes = () if trace is None else tuple(trace.changes)
    return Report(physical, explain, estimates, options.pricing, changes, sampling=sampling)


def _plain(sql: str, catalog: Catalog, dialect: str) -> Planned:
    """Ordinary SQL; its parameters' types are guessed as far as its tokens can be read."""
    tokens, places = placeholder_scan(sql, dialect)
    keys = parameter_keys(places) if places else ()
    types = infer_types(tokens, places, catalog) if places else {}
    return Planned(
        kind="plain",
        physical=PhysicalPlan((), sql),
        sql=sql,
        describe_sql=sql,
        parameters=keys,
        parameter_types=tuple(types[key] for key in keys),
    )


def _describe(catalog: Catalog, described: str, scanned: Scan) -> tuple[tuple[str, str], ...]:
    """The result's columns; DuckDB's complaint gets the place of the first name that it quotes."""
    try:
        return tuple(describe(catalog, described))
    except BindError as error:
        found = re.search(r'"([^"]+)"|with name (\S+)', error.message)
        name = (found[1] or found[2]).lower() if found is not None else ""
        places = [token_position(token) for token in scanned.tokens if token.text.lower() == name]
        raise BindError(error.message, places[0] if places else None) from None


def _tables(tree: exp.Query, catalog: Catalog) -> tuple[str, ...]:
    """Stored tables and views that the statement names, as stored."""
    stored = {name.lower(): name for name in catalog.columns()}
    ctes = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    named = [table for table in tree.find_all(exp.Table) if isinstance(table.this, exp.Identifier)]
    keys = [
        table.name.lower() if table.name.lower() in stored else f"{table.db}.{table.name}".lower()
        for table in named
        if table.db or table.name.lower() not in ctes
    ]
    return tuple(dict.fromkeys(stored[key] for key in keys if key in stored))
