"""From SQL text to a plan: AI-free text passes through verbatim, everything else becomes steps and a residual
query.

Never runs the model, and DuckDB only to describe AI-free statements.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from sqlglot import exp

from covey_planner.binding.bind import bind
from covey_planner.binding.scope import Aside, Catalog, describe
from covey_planner.cost.estimate import StepEstimate, estimate
from covey_planner.cost.prompted import Encode
from covey_planner.cost.roofline import Pricing
from covey_planner.cost.statistics import Counting
from covey_planner.cost.work import Work
from covey_planner.errors import BindError, PlanError, Unsupported
from covey_planner.explaining.as_json import write_json
from covey_planner.explaining.as_text import write_text
from covey_planner.explaining.report import Report, Sampling
from covey_planner.explaining.trace import Trace
from covey_planner.language import foreign
from covey_planner.language.comparisons import ask_comparisons
from covey_planner.language.constants import select_in_values
from covey_planner.language.explained import Explain
from covey_planner.language.flatten import flatten
from covey_planner.language.fragile import check_joins
from covey_planner.language.multi import ask_each_label
from covey_planner.language.outputs import forget_positions, name_outputs
from covey_planner.language.parameter_types import infer_types, typed_nulls
from covey_planner.language.parameters import literals, parameter_keys, placeholder_scan
from covey_planner.language.parse import Scan, describe_text, scan, token_position
from covey_planner.language.semi_joins import semi_joins_to_exists
from covey_planner.language.surrounding import take_off
from covey_planner.language.unions import exists_of_each_branch
from covey_planner.lowering.lower import lower
from covey_planner.lowering.sampling import samples
from covey_planner.optimize import optimize
from covey_planner.ordering.anchors import Anchors
from covey_planner.ordering.arrange import arrange, settled
from covey_planner.ordering.costing import Costing
from covey_planner.ordering.doubt import Doubt, Posed, doubt
from covey_planner.ordering.foresight import foresee
from covey_planner.physical import AskStep, PhysicalPlan
from covey_planner.profiles import PromptProfile
from covey_planner.rules import NEEDED, RULES


@dataclass(frozen=True)
class PlanOptions:
    """How to plan. max_context: the model's context in tokens, 0 for unknown.

    optimize: without it questions are asked in the order in which they are written, of every row for which they may
    matter, and none is left out because others have decided; for comparing and for finding faults. encode: the
    model's tokens of a fixed text; chunk_tokens: tokens of one of its passes: without them nothing is estimated or
    ordered by cost. pricing: the device, by which work becomes seconds and dollars; price: seconds of some work in its
    stead, None where no device is known: then tokens decide. anchor: which side of a question about pairs is computed
    once, where no option of the call pins it: the cheapest as far as statistics say, or the first that it mentions.
    sampling: a sample may be asked first where the order depends on it.
    """

    profile: PromptProfile
    dialect: str = "duckdb"
    max_context: int = 0
    optimize: bool = True
    encode: Encode | None = None
    chunk_tokens: int = 16_384
    price: Callable[[Work], float | None] | None = None
    anchor: Literal["cheapest", "first"] = "cheapest"
    sampling: bool = False
    pricing: Pricing = field(default_factory=Pricing)


@dataclass(frozen=True)
class Planned:
    """A planned statement.

    kind: "plain" is ordinary SQL for DuckDB, verbatim and with its parameters. physical: the plan; for a
    plain statement, its text as the residual. describe_sql: AI-free SQL with the same result columns; writes: it
    changes something, so that it must not be run to be described; view: the name of
    the view that it creates, in lower case. tables:
    stored tables and views that an AI statement reads. parameters: keys in binding order (numbers from 0, or
    names), with their types; unbound: no values were given, so the plan serves only to describe. explain: how the
    plan is to be explained, None where it is to run; report: what there is to say then. samples: steps whose answers
    are to be known first, as the order depends on what is in doubt. anchors: weighs the sides of steps once they
    are counted, None where nothing is chosen by cost.
    """

    kind: Literal["ai", "plain"]
    physical: PhysicalPlan
    sql: str
    describe_sql: str
    writes: bool = False
    view: str = ""
    tables: tuple[str, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()
    parameters: tuple[int | str, ...] = ()
    parameter_types: tuple[str, ...] = ()
    unbound: bool = False
    explain: Explain | None = None
    report: Report | None = None
    samples: tuple[AskStep, ...] = ()
    doubt: Doubt = field(default_factory=Doubt)
    anchors: Anchors | None = None

    @property
    def text(self) -> str:
        """What EXPLAIN says; empty where it was not asked for."""
        if self.report is None:
            return ""
        return write_json(self.report) if self.report.explain.form == "json" else write_text(self.report)

    @property
    def estimates(self) -> tuple[StepEstimate, ...]:
        """What each step will cost, where the plan is explained."""
        return () if self.report is None else self.report.estimates


class _Once:
    """A catalog asked for its columns once."""

    def __init__(self, catalog: Catalog) -> None:
        self._columns = catalog.columns()
        self.describe = catalog.describe
        self.describe_aside = catalog.describe_aside if isinstance(catalog, Aside) else catalog.describe

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
    statement = ask_each_label(around.statement)
    if options.optimize:
        statement = ask_comparisons(statement, options.dialect)
    select_in_values(statement)
    check_joins(statement.tree)
    if options.optimize:
        flatten(statement.tree, catalog.columns())
        semi_joins_to_exists(statement.tree)
        exists_of_each_branch(statement.tree)
    scanned = statement.scan
    if options.dialect == "duckdb":
        described = describe_text(scanned, around.texts) if around.yields else ""
        logical = bind(statement, catalog)
    else:
        foreign.adapt(statement, options.dialect)
        described = foreign.described(statement) if around.yields else ""
        try:
            logical = bind(statement, catalog)
        except PlanError as error:
            raise foreign.placed(error, statement) from None
    columns = _describe(catalog, described, scanned) if around.yields else ()
    if around.yields:
        name_outputs(statement, [name for name, _ in columns])
    forget_positions(statement.tree)
    trace = Trace() if scanned.explain is not None and scanned.explain.verbose else None
    posed: list[Posed] = []
    anchors: Anchors | None = None
    optimized = optimize(logical, RULES if options.optimize else NEEDED, trace)
    counted = statistics is not None and options.encode is not None
    ordered = options.optimize and not settled(optimized, options.anchor == "cheapest")
    if counted and (ordered or scanned.explain is not None):
        foresee(optimized, statement.tree, catalog.columns(), statistics)
    if options.optimize and statistics is not None and options.encode is not None:
        price = options.price or options.pricing.seconds
        costing = Costing(statistics, options.encode, price, options.chunk_tokens)
        cheapest, stored = options.anchor == "cheapest", catalog.columns()
        given = optimized
        optimized = arrange(given, statement.tree, options.profile, costing, stored, cheapest, posed)
        anchors = Anchors(costing) if cheapest else None
        if trace is not None:
            trace.compare("ordering by cost", given, optimized)
    open_ = doubt(posed) if options.sampling and not unbound else Doubt()
    explained = scanned.explain is not None and counted
    written = around.change.statement() if around.change is not None else None
    names = [name for name, _ in columns]
    physical = lower(
        optimized,
        statement.tree,
        options.profile,
        options.optimize,
        explained or bool(open_.keys),
        written,
        names,
    )
    sampled = samples(physical, open_.keys.keys())
    physical = around.finished(physical, scanned, unexpanded)
    estimates: tuple[StepEstimate, ...] = ()
    if explained:
        assert statistics is not None
        assert options.encode is not None
        estimates = estimate(physical, statistics, options.encode, options.chunk_tokens)
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
        report=None
        if scanned.explain is None
        else Report(
            physical,
            scanned.explain,
            estimates,
            options.pricing,
            () if trace is None else tuple(trace.changes),
            sampling=Sampling(sampled, open_.keys) if sampled else None,
        ),
        samples=sampled,
        doubt=open_,
        anchors=anchors,
    )


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
