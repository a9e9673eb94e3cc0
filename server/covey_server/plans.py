"""A planned statement with AI calls and the context of a run in, its running rows out; plans nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import duckdb
import pyarrow as pa
from covey_engine.operators.executor import Executor, Learn, Result
from covey_planner.cost.statistics import CallKey, Selectivity
from covey_planner.plan import Planned

from covey_server.execution import AiResult, ExecutionContext
from covey_server.statements import Outline

Revising = Callable[[duckdb.DuckDBPyConnection, Mapping[CallKey, Selectivity]], Planned]
"""Plans a statement again on a cursor in whose transaction it runs, by what a sample has shown."""


@dataclass(frozen=True)
class ModelPlan:
    """A planned statement with AI calls; its parameters' values are part of the plan. learn: hears what was true.

    revise: plans it again.
    """

    executor: Executor
    planned: Planned
    outline: Outline
    learn: Learn | None = None
    revise: Revising | None = None

    def execute(self, context: ExecutionContext) -> AiResult:
        """Start it."""
        return self.start(context, None if self.outline.update else self.outline.schema)

    def start(self, context: ExecutionContext, schema: pa.Schema | None = None) -> Result:
        """Start it. schema: what its rows are to be cast to."""
        return self.executor.execute(
            self.planned,
            context.cursor,
            query_id=context.query_id,
            cancel=context.cancel,
            overflow=context.on_overflow,
            user=context.user,
            schema=schema,
            learn=self.learn,
            revise=None if self.revise is None else partial(self.revise, context.cursor),
        )
