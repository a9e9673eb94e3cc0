"""Session options through the real ADBC driver: set in SQL and by Flight SQL, each session for itself."""

from __future__ import annotations

import adbc_driver_flightsql.dbapi as dbapi
import pytest
from covey_server.errors import BadRequest, Refused
from covey_server.options import Assignment, assignment
from support.sql import rows, run

OPTION = "adbc.flight.sql.session.option.ai_on_overflow"


def seen(connection: dbapi.Connection) -> str:
    """The option as the server tells it."""
    return str(connection.adbc_connection.get_option(OPTION))


def test_sql_and_the_protocol_set_the_same_option(connect) -> None:
    one, other = connect(autocommit=True), connect(autocommit=True)
    assert seen(one) == "error"
    assert run(one, "SET ai_on_overflow = 'NULL'") == 0
    assert seen(one) == "null"
    assert seen(other) == "error"
    one.adbc_connection.set_options(**{OPTION: "truncate"})
    assert seen(one) == "truncate"
    run(one, "RESET ai_on_overflow")
    assert seen(one) == "error"


def test_the_optimizer_is_switched_by_session(connect) -> None:
    one, other = connect(autocommit=True), connect(autocommit=True)
    option = OPTION.replace("ai_on_overflow", "ai_optimizer")
    run(one, "SET ai_optimizer = 'off'")
    seen_by = [str(connection.adbc_connection.get_option(option)) for connection in (one, other)]
    assert seen_by == ["off", "on"]
    with pytest.raises(dbapi.ProgrammingError, match="ai_optimizer is 'on' or 'off', not 'no'"):
        run(one, "SET ai_optimizer = 'no'")


def test_the_choice_of_anchors_is_a_sessions_own(connect) -> None:
    one, other = connect(autocommit=True), connect(autocommit=True)
    option = OPTION.replace("ai_on_overflow", "ai_anchor")
    run(one, "SET ai_anchor = 'first'")
    seen_by = [str(connection.adbc_connection.get_option(option)) for connection in (one, other)]
    assert seen_by == ["first", "cheapest"]
    run(one, "RESET ai_anchor")
    with pytest.raises(dbapi.ProgrammingError, match="ai_anchor is 'cheapest' or 'first', not 'last'"):
        run(one, "SET ai_anchor = 'last'")


def test_a_transaction_does_not_take_the_option_back(connect) -> None:
    connection = connect()
    run(connection, "SET ai_on_overflow TO truncate")
    connection.rollback()
    assert seen(connection) == "truncate"


def test_an_unknown_value_changes_nothing(connect) -> None:
    connection = connect(autocommit=True)
    run(connection, "SET ai_on_overflow = 'null'")
    with pytest.raises(dbapi.ProgrammingError, match="'error', 'null' or 'truncate', not 'shorten'"):
        run(connection, "SET ai_on_overflow = 'shorten'")
    with pytest.raises(dbapi.Error):
        connection.adbc_connection.set_options(**{OPTION: "shorten"})
    assert seen(connection) == "null"
    assert rows(connection, "SELECT 1") == [(1,)]


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("set ai_on_overflow = 'null'", "null"),
        ("set ai_on_overflow to truncate", "truncate"),
        ("set session ai_on_overflow = 'Error'", "Error"),
        ("set ai_on_overflow = default", None),
        ("reset ai_on_overflow", None),
        ("reset session ai_on_overflow", None),
    ],
)
def test_forms(words: str, value: str | None) -> None:
    assert assignment(words.split()) == Assignment("ai_on_overflow", value)


@pytest.mark.parametrize(
    "words", ["set ai_on_overflow = ?", "set ai_on_overflow = 3", "reset ai_on_overflow 1"]
)
def test_malformed(words: str) -> None:
    with pytest.raises(BadRequest, match="'error', 'null' or 'truncate'"):
        assignment(words.split())


@pytest.mark.parametrize("words", ["set threads = 1", "set global ai_on_overflow = 'null'", "set", "reset"])
def test_other_settings_are_refused(words: str) -> None:
    with pytest.raises(Refused, match="not available to SQL users"):
        assignment(words.split())
