"""Flight SQL commands in, what they mean to sessions, statements and metadata out; never touches gRPC.

Every method blocks and runs in a worker thread. A `Call` ties it to its caller, who may cancel it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

import pyarrow as pa
from covey_planner.substrait.asked import plan_asked

from covey_server import catalog_commands, lifecycle, substrait
from covey_server.callers import Call
from covey_server.core import Core, Ready
from covey_server.dialects import check
from covey_server.errors import BadRequest, Stopped
from covey_server.framing import encode_schema, frame_batch
from covey_server.guard import Checked
from covey_server.options import ANCHOR, DIALECT, OPTIMIZER, SAMPLING, choice
from covey_server.proto import flight_sql_pb2 as sql
from covey_server.query import Query
from covey_server.registry import Prepared, Registry
from covey_server.sessions import Session, Sessions
from covey_server.statements import EMPTY, Outline, Parameters
from covey_server.wire import flight_info, ticket, unpack

if TYPE_CHECKING:
    # A server without a model starts without the operators.
    pass


class Stream(Protocol):
    """Rows to send."""

    @property
    def schema(self) -> pa.Schema:
        """Of the rows."""
        ...

    def start(self) -> None:
        """Start them."""
        ...

    def next(self) -> list[bytes] | None:
        """The next framed messages; None after the last."""
        ...

    def cancel(self) -> None:
        """Stop; callable from any thread."""
        ...

    def close(self) -> None:
        """Let go."""
        ...


class TableStream:
    """A table that is there already."""

    def __init__(self, table: pa.Table, slice_bytes: int) -> None:
        self.schema = table.schema
        self._batches = iter(table.to_batches())
        self._slice_bytes = slice_bytes

    def start(self) -> None:
        """There is nothing to start."""

    def next(self) -> list[bytes] | None:
        """The next batch, framed."""
        for batch in self._batches:
            if batch.num_rows:
                return list(frame_batch(batch, self._slice_bytes))
        return None

    def cancel(self) -> None:
        """There is nothing to stop."""

    def close(self) -> None:
        """There is nothing to let go."""


class FlightSql:
    """The commands. facts: what GetSqlInfo tells."""

    def __init__(self, core: Core, sessions: Sessions, registry: Registry, facts: dict[int, object]) -> None:
        self.core = core
        self.sessions = sessions
        self.registry = registry
        self._facts = facts

    def check(self, call: Call, text: str) -> Checked:
        """The statement of a text in the client's dialect. Raises what is wrong with it."""
        self.core.refuse_long(text)
        dialect = choice(DIALECT, call.dialect) if call.dialect is not None else call.option(DIALECT)
        asked = plan_asked(text)
        if asked is None:
            return self._optioned(call, check(self.core.guard, text, dialect))
        checked = check(self.core.guard, asked[0], dialect)
        if checked.of_session:
            raise BadRequest("only queries can be written as Substrait plans")
        return self._optioned(call, replace(checked, plan_form=asked[1], written=text))

    def check_plan(self, call: Call, plan: Any) -> Checked:
        """The statement of a Substrait plan, whatever the client's dialect. Raises what is wrong with it."""
        self.core.refuse_long(plan.plan)
        return self._optioned(call, substrait.check(self.core.guard, plan.plan))

    def _checked(self, call: Call, command: Any) -> Checked:
        """The statement of a command that holds a text or a plan."""
        if isinstance(command, sql.CommandStatementSubstraitPlan):
            return self.check_plan(call, command.plan)
        return self.check(call, command.query)

    def _optioned(self, call: Call, checked: Checked) -> Checked:
        anchor = cast("Literal['cheapest', 'first']", call.option(ANCHOR))
        optimize, sampling = (call.option(name) == "on" for name in (OPTIMIZER, SAMPLING))
        return replace(checked, optimize=optimize, anchor=anchor, sampling=sampling)

    def info(self, call: Call, packed: bytes) -> Any:
        """GetFlightInfo: plan a statement (and run it if it writes), or announce a metadata answer."""
        command = unpack(packed)
        match command:
            case (
                sql.CommandStatementQuery()
                | sql.CommandStatementSubstraitPlan()
                | sql.CommandPreparedStatementQuery()
            ):
                query = self.begin(call, command)
                return self.query_info(query, packed)
            case _:
                schema = catalog_commands.schema_of(command)
                return flight_info(packed, encode_schema(schema), packed)

    def query_info(self, query: Query, packed: bytes) -> Any:
        """The FlightInfo of a planned query."""
        return flight_info(packed, encode_schema(query.schema), ticket(query.id), query.affected)

    def schema(self, call: Call, packed: bytes) -> pa.Schema:
        """GetSchema: what a command would yield; nothing runs."""
        command = unpack(packed)
        match command:
            case sql.CommandStatementQuery() | sql.CommandStatementSubstraitPlan():
                checked = self._checked(call, command)
                return self.describe(call, checked, transaction_of(command), None).schema
            case sql.CommandPreparedStatementQuery():
                held = self.registry.prepared(command.prepared_statement_handle)
                if not held.bound:
                    return held.outline.schema
                transaction = self.sessions.successor(call.session, held.transaction)
                return self.describe(call, held.checked, transaction, held.bound[0]).schema
            case _:
                return catalog_commands.schema_of(command)

    def fetch(self, call: Call, packed: bytes) -> Stream:
        """DoGet: the rows behind a ticket, not yet started."""
        command = unpack(packed)
        match command:
            case sql.TicketStatementQuery():
                call.query = self.registry.fetch(command.statement_handle.decode("ascii", "replace"))
                return call.query
            case _:
                return TableStream(self._table(call, command), self.core.slice_bytes)

    def begin(self, call: Call, command: Any) -> Query:
        """A planned query for a statement or a prepared statement, kept for its fetch."""
        if isinstance(command, sql.CommandPreparedStatementQuery):
            held = self.registry.prepared(command.prepared_statement_handle)
            query = self.run_prepared(call, held, held.bound)
        else:
            query = self.run(call, self._checked(call, command), transaction_of(command))
        self.registry.add(query, call.session.id)
        return query

    def resume(self, packed: bytes) -> Query:
        """A query that PollFlightInfo asks about again. Raises NoSuchThing."""
        command = unpack(packed)
        if not isinstance(command, sql.TicketStatementQuery):
            raise BadRequest("the request is not a Flight SQL command")
        return self.registry.query(command.statement_handle.decode("ascii", "replace"))

    def run_prepared(self, call: Call, held: Prepared, parameters: Sequence[Parameters]) -> Query:
        """Plan a prepared statement with these rows of parameters."""
        transaction = self.sessions.successor(call.session, held.transaction)
        ready, held.ready = held.ready, None
        return self.run(call, held.checked, transaction, parameters, None if parameters else ready)

    def run(
        self,
        call: Call,
        checked: Checked,
        transaction: bytes | None,
        parameters: Sequence[Parameters] = (),
        ready: Ready | None = None,
    ) -> Query:
        """Plan a statement, which runs it if it writes. ready: its plan, which serves if nothing has been written."""
        if checked.of_session:
            return self._about_session(call, checked, transaction)
        lane = self.sessions.lane(call.session, transaction)
        session = call.session
        plan = None
        if ready is not None and not lane.explicit and ready.holds(self.sessions.writes, session.schema):
            plan = ready.plan
        call.query = query = Query(
            self.core, checked, lane, parameters, call.tag, call.on_overflow, session.user, plan
        )
        if call.cancelled:
            query.close()
            raise Stopped("the query was cancelled")
        query.plan()
        return query

    def describe(
        self, call: Call, checked: Checked, transaction: bytes | None, parameters: Parameters | None
    ) -> Outline:
        """What a statement would yield; nothing runs."""
        return self.plan(call, checked, transaction, parameters)[0]

    def plan(
        self, call: Call, checked: Checked, transaction: bytes | None, parameters: Parameters | None
    ) -> tuple[Outline, Ready | None]:
        """What a statement would yield, and its plan where it can be run later; nothing runs."""
        if checked.of_session:
            return Outline(EMPTY, EMPTY, update=True, counts=False, eager=True), None
        lane = self.sessions.lane(call.session, transaction)
        writes, schema = self.sessions.writes, call.session.schema
        try:
            with lane.statement() as cursor:
                seen, plan = self.core.describe(cursor, checked, parameters)
            # What a transaction sees others do not, and the system table is there for one cursor.
            lasting = plan is not None and not lane.explicit and lifecycle.TABLE not in checked.names
            return seen, Ready(plan, writes, schema) if plan is not None and lasting else None
        except Exception:
            lane.failed()
            raise
        finally:
            lane.release()

    def _about_session(self, call: Call, checked: Checked, transaction: bytes | None) -> Query:
        """Carry out what changes the session alone; a query that has ended."""
        if checked.assignment is not None:
            call.set_option(checked.assignment)
        else:
            self._end_or_begin(call.session, checked, transaction)
        query = Query(self.core, checked, self.sessions.lane(call.session, None), (), call.tag)
        query.affected = 0
        query.record.end("finished")
        return query

    def _end_or_begin(self, session: Session, checked: Checked, transaction: bytes | None) -> None:
        """BEGIN, COMMIT and ROLLBACK as SQL are about the session's own transaction."""
        if transaction:
            raise BadRequest("the client has begun this transaction: end it there, not in SQL")
        if checked.kind == "begin":
            if session.sql_transaction is not None:
                raise BadRequest("a transaction is open already")
            session.sql_transaction = self.sessions.begin(session)
        elif session.sql_transaction is None:
            raise BadRequest("no transaction is open")
        else:
            self.sessions.end(session.sql_transaction, checked.kind == "commit")

    def _table(self, call: Call, command: Any) -> pa.Table:
        return catalog_commands.table_of(
            command, self._facts, lambda: self.sessions.lane(call.session, None, join=True)
        )


def prepare(
    flight: FlightSql, call: Call, checked: Checked, transaction: bytes | None
) -> tuple[bytes, Outline]:
    """Describe a statement and keep it; its handle and what it would yield."""
    seen, ready = flight.plan(call, checked, transaction, None)
    return flight.registry.prepare(Prepared(checked, seen, call.session.id, transaction, ready)), seen


def transaction_of(command: Any) -> bytes | None:
    """The transaction that a command names, if any."""
    return command.transaction_id if command.HasField("transaction_id") else None
