"""DoPut commands and their uploads in, the answers' bytes out: parameters, updates, bulk ingestion."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from covey_server.callers import Call
from covey_server.errors import Unsupported
from covey_server.flightsql import FlightSql, transaction_of
from covey_server.framing import Upload
from covey_server.ingest import ingest
from covey_server.proto import flight_sql_pb2 as sql
from covey_server.query import Query
from covey_server.statements import parameter_rows
from covey_server.uploads import Uploaded
from covey_server.wire import unpack


def put(flight: FlightSql, call: Call, packed: bytes, upload: Upload) -> list[bytes]:
    """Carry out a DoPut; the metadata of its results."""
    command = unpack(packed)
    match command:
        case sql.CommandPreparedStatementQuery():
            held = flight.registry.prepared(command.prepared_statement_handle)
            held.bound = parameter_rows(_read(upload), held.outline.parameters)
            return []
        case sql.CommandPreparedStatementUpdate():
            held = flight.registry.prepared(command.prepared_statement_handle)
            table = _read(upload)
            rows = parameter_rows(table, held.outline.parameters) or held.bound
            if table is not None and table.num_columns and not table.num_rows:
                return [_count(0)]
            return [_count(_finish(flight.run_prepared(call, held, rows)))]
        case sql.CommandStatementUpdate():
            checked = flight.check(call, command.query)
            return [_count(_finish(flight.run(call, checked, transaction_of(command))))]
        case sql.CommandStatementSubstraitPlan():
            checked = flight.check_plan(call, command.plan)
            return [_count(_finish(flight.run(call, checked, transaction_of(command))))]
        case sql.CommandStatementIngest():
            lane = flight.sessions.lane(call.session, transaction_of(command), join=True)
            return [_count(ingest(lane, command, Uploaded(upload)))]
    raise Unsupported(f"{type(command).__name__} cannot be put")


def _read(upload: Upload) -> pa.Table | None:
    return Uploaded(upload).table() if upload.begins() else None


def _finish(query: Query) -> int:
    """Run a query sent as an update to its end too; the rows it changed or yielded."""
    try:
        return query.spool()
    finally:
        query.close("finished")


def _count(records: int) -> bytes:
    result: Any = sql.DoPutUpdateResult(record_count=records)
    return result.SerializeToString()  # type: ignore[no-any-return]
