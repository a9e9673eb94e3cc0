"""Who a request comes from in, their session and transactions out; knows no SQL.

A session is found by the token that Handshake issued, else by its cookie, else by the client's connection.
Clients that keep cookies are told apart even where they share a connection; ADBC keeps none and has a
connection of its own.
"""

from __future__ import annotations

import secrets
import threading
import time
from dataclasses import dataclass, field

import duckdb

from covey_server.errors import BadRequest, NoSuchThing
from covey_server.lanes import Changed, Cursors, Lane, Transaction, nobody, quote

COOKIE = "arrow_flight_session_id"


@dataclass
class Session:
    """One client's options and open transactions; found by `key`, a token, a cookie or a connection.

    user: who shares the device with other users; without a name, the host that the client's connection comes from.
    options: the checked values of the options that the client has set, by name.
    """

    id: str = field(default_factory=lambda: secrets.token_hex(16))
    user: str = ""
    schema: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    transactions: dict[bytes, Transaction] = field(default_factory=dict)
    sql_transaction: Transaction | None = None
    keeps_cookies: bool = False
    used: float = field(default_factory=time.monotonic)


class Sessions:
    """All sessions and transactions; methods may be called from any thread. changed: as of a lane."""

    def __init__(
        self,
        database: Cursors,
        session_ttl: float,
        transaction_ttl: float,
        changed: Changed = nobody,
    ) -> None:
        self._database = database
        self._hears = changed
        self._session_ttl = session_ttl
        self._transaction_ttl = transaction_ttl
        self._lock = threading.Lock()
        self._by_id: dict[str, Session] = {}
        self._by_peer: dict[str, Session] = {}
        self._owners: dict[bytes, Session] = {}
        self._writes = 0

    @property
    def writes(self) -> int:
        """How often a statement has written, or what was written was committed: a plan is as old as this number."""
        return self._writes

    def _changed(self, names: frozenset[str]) -> None:
        with self._lock:
            self._writes += 1
        self._hears(names)

    def issue(self) -> Session:
        """A new session whose id is handed to the client as its token."""
        with self._lock:
            return self._add(Session())

    def find(self, token: str | None, cookie: str | None, peer: str) -> Session:
        """The session of a request; a new one where there is none yet."""
        with self._lock:
            session = self._by_id.get(token or "")
            if session is None and cookie is not None:
                session = self._by_id.get(cookie)
                if session is not None and not session.keeps_cookies:
                    # A client that keeps its cookie is never found by its connection again.
                    session.keeps_cookies = True
                    self._by_peer = {key: held for key, held in self._by_peer.items() if held is not session}
            if session is None:
                session = self._by_peer.get(peer)
            if session is None:
                session = self._by_peer[peer] = self._add(Session())
            session.used = time.monotonic()
            session.user = session.user or _host(peer)
            return session

    def begin(self, session: Session) -> Transaction:
        """Open a transaction."""
        transaction = Transaction(self._database, lambda: session.schema, self._changed)
        with self._lock:
            session.transactions[transaction.id] = transaction
            self._owners[transaction.id] = session
        return transaction

    def transaction(self, identity: bytes) -> Transaction:
        """An open transaction by its id. Raises NoSuchThing."""
        with self._lock:
            owner = self._owners.get(identity)
            if owner is None:
                raise NoSuchThing("the transaction is unknown, has ended or has expired")
            transaction = owner.transactions[identity]
            transaction.used = owner.used = time.monotonic()
            return transaction

    def end(self, transaction: Transaction, commit: bool) -> None:
        """Commit or roll back; the transaction is gone either way."""
        with self._lock:
            owner = self._owners.pop(transaction.id, None)
            if owner is not None:
                del owner.transactions[transaction.id]
                if owner.sql_transaction is transaction:
                    owner.sql_transaction = None
        transaction.end(commit)

    def successor(self, session: Session, transaction: bytes | None) -> bytes | None:
        """The transaction in which a statement prepared in `transaction` runs now.

        Drivers keep a prepared statement over commit and rollback: it goes on in the session's next
        transaction.
        """
        with self._lock:
            if not transaction or transaction in self._owners:
                return transaction
            return next(iter(session.transactions)) if len(session.transactions) == 1 else None

    def lane(self, session: Session, transaction: bytes | None, join: bool = False) -> Lane:
        """Where a statement runs: in the named transaction, in one begun in SQL, else on its own.

        join: a request that cannot name its transaction (bulk ingestion, metadata) takes the session's only
        open one.
        """
        if transaction:
            return self.transaction(transaction)
        if session.sql_transaction is not None:
            return session.sql_transaction
        if join and len(session.transactions) == 1:
            return next(iter(session.transactions.values()))
        return Lane(self._database, lambda: session.schema, self._changed)

    def set_schema(self, session: Session, schema: str) -> None:
        """Make a schema the default of the session's later statements.

        Raises BadRequest where there is none.
        """
        cursor = self._database.cursor()
        try:
            cursor.execute(f"USE {quote(schema)}")
        except duckdb.CatalogException:
            raise BadRequest(f"there is no schema {schema!r}") from None
        finally:
            cursor.close()
        session.schema = schema

    def close(self, session: Session) -> None:
        """Forget a session and roll back what it has open."""
        with self._lock:
            self._by_id.pop(session.id, None)
            self._by_peer = {peer: held for peer, held in self._by_peer.items() if held is not session}
            open_transactions = list(session.transactions.values())
        for transaction in open_transactions:
            self.end(transaction, commit=False)

    def lose(self) -> None:
        """The database is another one now, in which no transaction is open, and plans are made anew."""
        with self._lock:
            self._writes += 1
            held = [kept for session in self._by_id.values() for kept in session.transactions.values()]
        for transaction in held:
            transaction.lose()

    def close_all(self) -> None:
        """Roll back everything."""
        for session in list(self._by_id.values()):
            self.close(session)

    def reap(self) -> None:
        """Roll back transactions and forget sessions that nobody has used for their time to live."""
        now = time.monotonic()
        with self._lock:
            sessions = list(self._by_id.values())
            idle = [
                transaction
                for session in sessions
                for transaction in session.transactions.values()
                if now - transaction.used > self._transaction_ttl
            ]
        for transaction in idle:
            # A statement that runs holds the lock: its transaction is not idle.
            if transaction.lock.acquire(blocking=False):
                try:
                    self.end(transaction, commit=False)
                finally:
                    transaction.lock.release()
        for session in sessions:
            if not session.transactions and now - session.used > self._session_ttl:
                self.close(session)

    def _add(self, session: Session) -> Session:
        self._by_id[session.id] = session
        return session


def _host(peer: str) -> str:
    """A peer as gRPC names it, without its port."""
    return peer.rpartition(":")[0] if peer.startswith("ip") else peer
