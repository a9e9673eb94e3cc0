"""An address goes in, a DB-API 2.0 connection over ADBC's Flight SQL driver comes out; results stay Arrow.

Every connection carries a tag in a call header. The server notes it beside each statement, so a connection
finds the figures of its own statements among those of others.
"""

from __future__ import annotations

import re
import socket
import uuid
from collections.abc import Mapping

import adbc_driver_manager
from adbc_driver_flightsql import DatabaseOptions
from adbc_driver_flightsql import connect as open_database
from adbc_driver_manager import dbapi

from covey.address import DEFAULT_URI, DIALECTS, Address, parse_address
from covey.figures import Run, latest_run

Warning = dbapi.Warning
Error = dbapi.Error
InterfaceError = dbapi.InterfaceError
DatabaseError = dbapi.DatabaseError
DataError = dbapi.DataError
OperationalError = dbapi.OperationalError
IntegrityError = dbapi.IntegrityError
InternalError = dbapi.InternalError
ProgrammingError = dbapi.ProgrammingError
NotSupportedError = dbapi.NotSupportedError
Cursor = dbapi.Cursor

TAG_HEADER = f"{DatabaseOptions.RPC_CALL_HEADER_PREFIX.value}x-covey-tag"
DIALECT_HEADER = f"{DatabaseOptions.RPC_CALL_HEADER_PREFIX.value}ai_dialect"
OWN_DIALECT = {f"{DatabaseOptions.RPC_CALL_HEADER_PREFIX.value}x-covey-dialect": DIALECTS[0]}
"""For the client's own statements, whatever the dialect of the connection is."""
DRIVER_OPTIONS = {
    DatabaseOptions.WITH_COOKIE_MIDDLEWARE.value: "true",
    # One row comes in one message, however long its text is; the driver's own limit is 16 MiB.
    DatabaseOptions.WITH_MAX_MSG_SIZE.value: str(2**31 - 1),
}
TAG = re.compile(r"[A-Za-z0-9._-]{1,64}")


class UnreachableError(OperationalError):
    """Nothing accepts connections at the address."""

    def __init__(self, address: Address, reason: str) -> None:
        super().__init__(
            f"no server answers at {address.place} ({reason}); start one: covey serve --port {address.port}",
            status_code=adbc_driver_manager.AdbcStatusCode.IO,
        )


class Connection(dbapi.Connection):
    """An ADBC DB-API connection that knows its tag and, by it, the figures of its `last_run()`."""

    # polars reads Arrow only from a class whose module is named adbc…; pandas asks isinstance.
    __module__ = "adbc_driver_manager.covey"

    def __init__(
        self,
        database: adbc_driver_manager.AdbcDatabase,
        connection: adbc_driver_manager.AdbcConnection,
        *,
        tag: str,
        autocommit: bool,
    ) -> None:
        super().__init__(database, connection, autocommit=autocommit)
        self.tag = tag

    def last_run(self) -> Run | None:
        """What the server noted of the statement that this connection ran last; None before the first.

        The statement that asks carries a tag of its own, so it never finds itself.
        """
        with self.own_cursor(f"{self.tag}.figures") as cursor:
            return latest_run(cursor, self.tag)

    def beside(self, tag: str) -> Connection:
        """Another connection to the same server, with a session of its own, whose statements carry this tag."""
        opened = adbc_driver_manager.AdbcConnection(self._db._db, **{**OWN_DIALECT, TAG_HEADER: tag})
        return Connection(self._db, opened, tag=tag, autocommit=True)  # type: ignore[arg-type]

    def substrait(self, sql: str) -> bytes:
        """The Substrait plan of a query, which runs by `cursor.execute(plan)` here or wherever its tables are.

        Raises ProgrammingError with what a plan has no room for.
        """
        with self.cursor() as cursor:
            cursor.execute(f"EXPLAIN (FORMAT substrait) {sql}")
            ((plan,),) = cursor.fetchall()
        return bytes(plan)

    def own_cursor(self, tag: str | None = None) -> Cursor:
        """A cursor for the client's own statements; `tag`: what names them instead of the connection's tag."""
        return self.cursor(adbc_stmt_kwargs={**OWN_DIALECT, TAG_HEADER: tag or self.tag})


def connect(
    uri: str = DEFAULT_URI,
    *,
    tag: str | None = None,
    autocommit: bool = True,
    timeout: float = 5.0,
    dialect: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Connection:
    """Connect to the server at `uri` (`grpc://host:port`, `grpc+tls://host:port`, or just `host:port`).

    `tag` names this connection's statements in the system table `covey_queries` (default: a random one);
    `timeout` is how long to wait, in seconds, for the address to accept a connection; `dialect` is that of the
    statements, `duckdb`, `snowflake` or `bigquery` (default: what the server takes, DuckDB's), until
    `SET ai_dialect` changes it; `options` go to the ADBC driver as they are. Raises ValueError for an address, a tag
    or a dialect that cannot be one, and `UnreachableError` where no server listens.
    """
    address = parse_address(uri)
    name = tag or uuid.uuid4().hex
    if not TAG.fullmatch(name):
        raise ValueError(f"{name!r} is not a tag: use 1 to 64 letters, digits, dots, dashes or underscores")
    if dialect is not None and dialect not in DIALECTS:
        raise ValueError(f"{dialect!r} is not a dialect: there is {', '.join(DIALECTS)}")
    probe(address, timeout)
    database = open_database(
        address.uri,
        db_kwargs={**DRIVER_OPTIONS, **(options or {})},
    )
    try:
        headers = {TAG_HEADER: name, **({DIALECT_HEADER: dialect} if dialect is not None else {})}
        connection = adbc_driver_manager.AdbcConnection(database, **headers)
    except Error:
        database.close()
        raise
    return Connection(database, connection, tag=name, autocommit=autocommit)


def probe(address: Address, timeout: float) -> None:
    """Raise `UnreachableError` where nothing listens: the driver would say so late, and at length."""
    try:
        socket.create_connection((address.host, address.port), timeout).close()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UnreachableError(address, reason) from None
