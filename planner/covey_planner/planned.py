"""What a statement is planned with, and what comes of it: data alone, which `covey_planner.plan` passes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from covey_planner.cost.estimate import StepEstimate
from covey_planner.cost.prompted import Encode
from covey_planner.cost.roofline import Pricing
from covey_planner.cost.work import Work
from covey_planner.explaining.as_json import write_json
from covey_planner.explaining.as_text import write_text
from covey_planner.explaining.report import Report
from covey_planner.language.explained import Explain
from covey_planner.ordering.anchors import Anchors
from covey_planner.ordering.doubt import Doubt
from covey_planner.physical import AskStep, PhysicalPlan
from covey_planner.profiles import PromptProfile


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
