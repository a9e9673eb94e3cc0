"""Handles in, prepared statements and queries out, until they are closed or unused for too long."""

from __future__ import annotations

import secrets
import threading
import time
from dataclasses import dataclass, field

from covey_server.core import Ready
from covey_server.errors import NoSuchThing
from covey_server.guard import Checked
from covey_server.query import Query
from covey_server.statements import Outline, Parameters


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
        """Forget a session's prepared statements."""
        with self._lock:
            self._prepared = {key: held for key, held in self._prepared.items() if held.session != session}

    def add(self, query: Query) -> None:
        """Keep a query whose rows are still to be fetched."""
        with self._lock:
            self._queries[query.id] = query

    def query(self, handle: str) -> Query:
        """A live query. Raises NoSuchThing."""
        with self._lock:
            found = self._queries.get(handle)
        if found is None:
            raise NoSuchThing("the result is unknown, was fetched already or has expired")
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
            self._fetched.discard(query.id)

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
            self.forget(query)
            query.cancel()
            query.close("expired")
