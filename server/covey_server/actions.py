"""Actions in, the bytes of their results out: prepared statements, transactions, options, cancellation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from covey_server import options
from covey_server.callers import Call
from covey_server.errors import BadRequest, NoSuchThing, ServerError, Unsupported
from covey_server.flightsql import FlightSql, prepare, transaction_of
from covey_server.framing import encode_schema
from covey_server.guard import Checked
from covey_server.proto import flight_pb2 as flight_messages
from covey_server.proto import flight_sql_pb2 as sql
from covey_server.wire import pack, unpack

_Option = flight_messages.SessionOptionValue
_OptionError = flight_messages.SetSessionOptionsResult


def act(flight: FlightSql, call: Call, kind: str, body: bytes) -> list[bytes]:
    """Carry out an action. Raises Unsupported for one that is not known."""
    if kind not in ACTIONS:
        raise Unsupported(f"the action {kind} is not supported")
    return ACTIONS[kind][1](flight, call, body)


def _create_prepared(flight: FlightSql, call: Call, body: bytes) -> list[bytes]:
    request = _expect(body, sql.ActionCreatePreparedStatementRequest)
    return _prepared(flight, call, flight.check(call, request.query), transaction_of(request))


def _create_prepared_plan(flight: FlightSql, call: Call, body: bytes) -> list[bytes]:
    request = _expect(body, sql.ActionCreatePreparedSubstraitPlanRequest)
    return _prepared(flight, call, flight.check_plan(call, request.plan), transaction_of(request))


def _prepared(flight: FlightSql, call: Call, checked: Checked, transaction: bytes | None) -> list[bytes]:
    handle, seen = prepare(flight, call, checked, transaction)
    result = sql.ActionCreatePreparedStatementResult(
        prepared_statement_handle=handle,
        dataset_schema=b"" if seen.update else encode_schema(seen.schema),
        parameter_schema=encode_schema(seen.parameters),
        is_update=seen.update,
    )
    return [pack(result)]


def _close_prepared(flight: FlightSql, _call: Call, body: bytes) -> list[bytes]:
    request = _expect(body, sql.ActionClosePreparedStatementRequest)
    flight.registry.close_prepared(request.prepared_statement_handle)
    return []


def _begin(flight: FlightSql, call: Call, body: bytes) -> list[bytes]:
    _expect(body, sql.ActionBeginTransactionRequest)
    transaction = flight.sessions.begin(call.session)
    return [pack(sql.ActionBeginTransactionResult(transaction_id=transaction.id))]


def _end(flight: FlightSql, _call: Call, body: bytes) -> list[bytes]:
    request = _expect(body, sql.ActionEndTransactionRequest)
    if request.action not in (request.END_TRANSACTION_COMMIT, request.END_TRANSACTION_ROLLBACK):
        raise BadRequest("a transaction ends by commit or rollback")
    transaction = flight.sessions.transaction(request.transaction_id)
    flight.sessions.end(transaction, request.action == request.END_TRANSACTION_COMMIT)
    return []


def _set_options(flight: FlightSql, call: Call, body: bytes) -> list[bytes]:
    request = flight_messages.SetSessionOptionsRequest.FromString(body)
    errors = {}
    for name, value in request.session_options.items():
        problem = _set_option(flight, call, name, value)
        if problem is not None:
            errors[name] = _OptionError.Error(value=problem)
    return [_OptionError(errors=errors).SerializeToString()]


def _set_option(flight: FlightSql, call: Call, name: str, value: Any) -> int | None:
    """Set one option; what is wrong with it otherwise."""
    text = value.string_value if value.WhichOneof("option_value") == "string_value" else None
    match name:
        case "catalog":
            return None if text in ("", _catalog(flight)) else int(_OptionError.INVALID_VALUE)
        case "schema":
            try:
                flight.sessions.set_schema(call.session, text or "main")
            except ServerError:
                return int(_OptionError.INVALID_VALUE)
            return None
        case _ if name in options.CHOICES:
            try:
                call.set_option(options.Assignment(name, text or None))
            except ServerError:
                return int(_OptionError.INVALID_VALUE)
            return None
        case _:
            return int(_OptionError.INVALID_NAME)


def _get_options(flight: FlightSql, call: Call, body: bytes) -> list[bytes]:
    flight_messages.GetSessionOptionsRequest.FromString(body)
    known = {
        "catalog": _Option(string_value=_catalog(flight)),
        "schema": _Option(string_value=call.session.schema or "main"),
        **{name: _Option(string_value=call.option(name)) for name in options.CHOICES},
    }
    return [flight_messages.GetSessionOptionsResult(session_options=known).SerializeToString()]


def _close_session(flight: FlightSql, call: Call, body: bytes) -> list[bytes]:
    flight_messages.CloseSessionRequest.FromString(body)
    flight.registry.close_session(call.session.id)
    flight.sessions.close(call.session)
    result = flight_messages.CloseSessionResult
    return [result(status=result.CLOSED).SerializeToString()]


def _cancel_info(flight: FlightSql, _call: Call, body: bytes) -> list[bytes]:
    request = flight_messages.CancelFlightInfoRequest.FromString(body)
    _cancel(flight, request.info)
    result = flight_messages.CancelFlightInfoResult(status=flight_messages.CANCEL_STATUS_CANCELLED)
    return [result.SerializeToString()]


def _cancel_query(flight: FlightSql, _call: Call, body: bytes) -> list[bytes]:
    request = _expect(body, sql.ActionCancelQueryRequest)
    _cancel(flight, flight_messages.FlightInfo.FromString(request.info))
    result = sql.ActionCancelQueryResult
    return [pack(result(result=result.CANCEL_RESULT_CANCELLED))]


def _cancel(flight: FlightSql, info: Any) -> None:
    tickets = [unpack(endpoint.ticket.ticket) for endpoint in info.endpoint]
    tickets += [unpack(info.flight_descriptor.cmd)] if info.flight_descriptor.cmd and not tickets else []
    handles = [
        found.statement_handle.decode("ascii", "replace")
        for found in tickets
        if hasattr(found, "statement_handle")
    ]
    if not handles:
        raise NoSuchThing("the query to cancel is unknown")
    for handle in handles:
        if flight.registry.was_cancelled(handle):
            continue
        query = flight.registry.query(handle)
        query.cancel()
        query.close()
        flight.registry.forget(query)


def _catalog(flight: FlightSql) -> str:
    cursor = flight.core.database.cursor()
    try:
        return str(cursor.execute("SELECT current_database()").fetchall()[0][0])
    finally:
        cursor.close()


def _expect(body: bytes, kind: type) -> Any:
    message = unpack(body)
    if not isinstance(message, kind):
        raise BadRequest(f"the action takes {kind.__name__}, not {type(message).__name__}")
    return message


ACTIONS: dict[str, tuple[str, Callable[[FlightSql, Call, bytes], list[bytes]]]] = {
    "CreatePreparedStatement": ("Prepare a statement for several executions.", _create_prepared),
    "CreatePreparedSubstraitPlan": (
        "Prepare a Substrait plan for several executions.",
        _create_prepared_plan,
    ),
    "ClosePreparedStatement": ("Close a prepared statement.", _close_prepared),
    "BeginTransaction": ("Begin a transaction.", _begin),
    "EndTransaction": ("Commit or roll back a transaction.", _end),
    "SetSessionOptions": (
        f"Set options of the session: schema, {', '.join(options.CHOICES)}.",
        _set_options,
    ),
    "GetSessionOptions": ("The options of the session.", _get_options),
    "CloseSession": ("Close the session and roll back what it has open.", _close_session),
    "CancelFlightInfo": ("Stop a query.", _cancel_info),
    "CancelQuery": ("Stop a query, for older clients.", _cancel_query),
}

ENDS = frozenset({"CancelFlightInfo", "CancelQuery", "ClosePreparedStatement"})
"""Actions that end something, and wait for nothing."""
