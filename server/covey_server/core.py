"""What all queries share: the database, the guard, the history, and the model as a query sees it; runs nothing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

import duckdb
from covey_engine.operators.watch import CancelWatch
from covey_planner.errors import PlanError

from covey_server import lifecycle
from covey_server.errors import BadRequest
from covey_server.execution import AiPlan
from covey_server.guard import Checked, Guard
from covey_server.lanes import Cursors
from covey_server.lifecycle import History
from covey_server.statements import Outline, Parameters, columns_of, outline
from covey_server.substrait import written


class AiSide(Protocol):
    """The planner, the operators and the model, as queries see them."""

    def plan(
        self,
        checked: Checked,
        cursor: duckdb.DuckDBPyConnection,
        parameters: Parameters | None,
    ) -> AiPlan | None:
        """Plan a statement that seems to have AI calls; None where it has none after all."""
        ...

    def changed(self, names: frozenset[str]) -> None:
        """A statement with these names in it (lower case) has changed tables or views."""
        ...

    def concerns(self, names: frozenset[str]) -> bool:
        """Whether a statement with these names in it may read a view that has AI calls."""
        ...


@dataclass(frozen=True)
class Core:
    """What all queries share. ai: None where the server runs without a model. statement_bytes: of the longest
    statement; watch: interrupts who is cancelled.
    """

    database: Cursors
    guard: Guard
    history: History
    ai: AiSide | None
    slice_bytes: int
    statement_bytes: int = 1 << 20
    watch: CancelWatch = field(default_factory=CancelWatch)

    def refuse_long(self, statement: str | bytes) -> None:
        """Raise BadRequest for a statement, as text or as a plan, longer than may be: nobody else runs while DuckDB and
        the planner read it.
        """
        size = len(statement.encode() if isinstance(statement, str) else statement)
        if size > self.statement_bytes:
            raise BadRequest(
                f"the statement has {size:,} bytes, more than the {self.statement_bytes:,} of the server's setting "
                "statement_bytes: put long lists of values into a table, as by bulk ingestion, and join it"
            )

    def describe(
        self, cursor: duckdb.DuckDBPyConnection, checked: Checked, parameters: Parameters | None
    ) -> tuple[Outline, AiPlan | None]:
        """What a statement will yield, and its plan if it has AI calls; runs nothing."""
        if lifecycle.TABLE in checked.names:
            cursor.register(lifecycle.TABLE, self.history.table())
        if checked.plan_form is not None:
            # What is wrong with the statement is said before it is written.
            self.describe(cursor, replace(checked, plan_form=None), None)
            plan = written(cursor, self.guard, checked)
            return plan.outline, plan
        if checked.consumed is None:
            return self._describe(cursor, checked, parameters)
        try:
            checked.consumed.check(lambda table: columns_of(cursor, f"SELECT * FROM {table}"))
            return self._describe(cursor, checked, parameters)
        except PlanError as error:
            # A place in the SQL is none in the plan.
            raise type(error)(error.message) from None

    def _describe(
        self, cursor: duckdb.DuckDBPyConnection, checked: Checked, parameters: Parameters | None
    ) -> tuple[Outline, AiPlan | None]:
        views = checked.kind == "plain" and self.ai is not None and self.ai.concerns(checked.names)
        if checked.kind == "ai" or views:
            if self.ai is None:
                raise BadRequest("this server runs without a model, so it cannot answer AI calls")
            plan = self.ai.plan(checked, cursor, parameters)
            if plan is not None:
                return plan.outline, plan
        return outline(cursor, checked, parameters), None


@dataclass(frozen=True)
class Ready:
    """A plan made ahead. writes: how often the database had been written before; schema: the session's, by default."""

    plan: AiPlan
    writes: int
    schema: str | None

    def holds(self, writes: int, schema: str | None) -> bool:
        """Whether it would still be made like this."""
        return (writes, schema) == (self.writes, self.schema)
