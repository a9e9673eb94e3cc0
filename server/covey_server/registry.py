"""Handles in, prepared statements and queries out, until they are closed or unused for too long."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field

from covey_server.core import Ready
from covey_server.errors import NoSuchThing, ServerError, Stopped
from covey_server.guard import Checked
from covey_server.lifecycle import Record
from covey_server.query import Query
from covey_server.statements import Outline, Parameters

_REMEMBERED = 1000
"""Results that are gone and about which it is still known why."""

_CLOSED = "the query was cancelled, as its session was closed"


@dataclass
class Prepared:
    """A prepared statement. bound: the rows of parameters that the next execution takes; ready: its plan, for one."""

    checked: Checked
    outline: Outline
    session: str
    transaction: bytes | None
    ready: Ready | None = None
    bound: list[Parameters] = field(default_factory=list)
    used: float = field(default_factory=time.monotonic)


class Registry:
    """What clients hold handles of; methods may be called from any thread."""

    def __init__(self, statement_ttl: float, ticket_ttl: float) -> None:
        self._statement_ttl = statement_ttl
        self._ticket_ttl = ticket_ttl
        self._lock = threading.Lock()
        self._prepared: dict[bytes, Prepared] = {}
        self._queries: dict[str, Query] = {}
        self._fetched: set[str] = set()
        self._sessions: dict[str, str] = {}
        self._gone: OrderedDict[str, Record] = OrderedDict()

    def prepare(self, prepared: Prepared) -> bytes:
        """Keep a prepared statement; its handle."""
        handle = secrets.token_bytes(16)
        with self._lock:
            self._prepared[handle] = prepared
        return handle

    def prepared(self, handle: bytes) -> Prepared:
        """A prepared statement by its handle. Raises NoSuchThing."""
        with self._lock:
            found = self._prepared.get(handle)
        if found is None:
            raise NoSuchThing("the prepared statement is unknown, was closed or has expired")
        found.used = time.monotonic()
        return found

    def close_prepared(self, handle: bytes) -> None:
        """Forget a prepared statement; harmless where it is gone."""
        with self._lock:
            self._prepared.pop(handle, None)

    def close_session(self, session: str) -> None:
        """Forget a session's prepared statements, and stop its queries."""
        with self._lock:
            self._prepared = {key: held for key, held in self._prepared.items() if held.session != session}
            theirs = [query for key, query in self._queries.items() if self._sessions.get(key) == session]
            waiting = [query for query in theirs if query.id not in self._fetched]
        for query in theirs:
            query.cancel(Stopped(_CLOSED))
        for query in waiting:
            query.close("cancelled", _CLOSED)
            self.forget(query)

    def add(self, query: Query, session: str = "") -> None:
        """Keep a query whose rows are still to be fetched; it is stopped when its session is closed."""
        with self._lock:
            self._queries[query.id] = query
            self._sessions[query.id] = session

    def query(self, handle: str) -> Query:
        """A live query. Raises NoSuchThing."""
        with self._lock:
            found = self._queries.get(handle)
        if found is None:
            raise self._missing(handle)
        found.touched = time.monotonic()
        return found

    def fetch(self, handle: str) -> Query:
        """A query for the one who fetches its rows, which can be done once. Raises NoSuchThing."""
        query = self.query(handle)
        with self._lock:
            if handle in self._fetched:
                raise NoSuchThing("the result is being fetched already")
            self._fetched.add(handle)
        return query

    def forget(self, query: Query) -> None:
        """Drop a query that is over."""
        with self._lock:
            self._queries.pop(query.id, None)
            self._sessions.pop(query.id, None)
            self._fetched.discard(query.id)
            self._gone[query.id] = query.record
            while len(self._gone) > _REMEMBERED:
                self._gone.popitem(last=False)

    def live(self) -> list[Query]:
        """All queries that are not over."""
        with self._lock:
            return list(self._queries.values())

    def reap(self) -> None:
        """Forget prepared statements and results that nobody has used for their time to live."""
        now = time.monotonic()
        with self._lock:
            self._prepared = {
                key: held for key, held in self._prepared.items() if now - held.used <= self._statement_ttl
            }
            stale = [
                query
                for key, query in self._queries.items()
                if key not in self._fetched and now - query.touched > self._ticket_ttl
            ]
        for query in stale:
            query.record.end("expired")
            self.forget(query)
            query.cancel()
            query.close("expired")

    def was_cancelled(self, handle: str) -> bool:
        """Whether a query is gone because it was cancelled."""
        record = self._gone.get(handle)
        return record is not None and record.state == "cancelled"

    def _missing(self, handle: str) -> ServerError:
        """Why there is nothing behind a ticket."""
        record = self._gone.get(handle)
        match None if record is None else record.state:
            case "finished":
                return NoSuchThing("the result was fetched already: a ticket is good for one fetch")
            case "cancelled":
                assert record is not None
                return Stopped(record.error or "the query was cancelled")
            case "expired":
                return NoSuchThing(
                    f"the result has expired, as nobody fetched it for {self._ticket_ttl:g} s: run the statement again"
                )
            case "failed":
                assert record is not None
                return NoSuchThing(f"the query has failed, and its result is gone: {record.error}")
            case _:
                return NoSuchThing("the result is unknown, was fetched already or has expired")
