"""The rows of a running statement in, batches out one at a time; never frames or sends them.

A DuckDB connection has one open result at a time. Where the next statement of a transaction comes while the
rows of the last one are still being fetched, the rest of them is spooled.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import IO

import pyarrow as pa

from covey_server.errors import BadRequest, NoRoom

_IN_MEMORY = 32 << 20
"""A spool up to this many bytes stays in memory."""

_SPOOL_BYTES = 8 << 30
"""A spool never grows beyond this."""


_TOO_LARGE = "the rest of the result was dropped: it is too large to be kept while other statements run"


class Rows:
    """Batches of one schema; any thread may read, spool or close, one at a time under the given lock."""

    def __init__(
        self,
        schema: pa.Schema,
        batches: Iterator[pa.RecordBatch],
        close: Callable[[], None],
        lock: threading.RLock | None = None,
    ) -> None:
        self.schema = schema
        self._batches = batches
        self._close = close
        self._lock = lock or threading.RLock()
        self._spool: IO[bytes] | None = None
        self._failure: Exception | None = None
        self._closed = False
        self._given_up = False

    def give_up(self) -> None:
        """Nobody wants the rest: whoever reads it stops after the batch at hand. Callable from any thread."""
        self._given_up = True

    def next(self) -> pa.RecordBatch | None:
        """The next batch with rows, None after the last; raises what the statement raises."""
        with self._lock:
            for batch in self._batches:
                if batch.num_rows:
                    return batch
            failure, self._failure = self._failure, None
            if failure is not None:
                raise failure
            return None

    def spool(self) -> int:
        """Read the rest from the source, let go of it, and keep the rows here; their number.

        A failure of the source is kept too: it is raised after the rows that came before it. Where they cannot be kept,
        there are none, and NoRoom is raised in their place.
        """
        with self._lock:
            if self._closed or self._spool is not None:
                return 0
            # Closed in close(): the spool lives as long as the rows.
            self._spool = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY, prefix="covey-spool-")  # noqa: SIM115
            rows = 0
            try:
                rows = self._fill(self._spool)
                self._batches = iter(pa.ipc.open_stream(pa.PythonFile(self._spool, "r")))
            except OSError as error:
                # What is kept in memory is written to the disk as it grows, or not before it is read.
                self._batches = iter(())
                self._failure = NoRoom(
                    "the rest of the result was dropped, as it cannot be kept while other statements run: "
                    f"{tempfile.gettempdir()}: {error.strerror or error}"
                )
                with suppress(OSError):
                    self._spool.close()
            self._let_go()
            return rows

    def _fill(self, spool: IO[bytes]) -> int:
        """Write the rest of the rows into the spool, and go back to its beginning; their number. Raises OSError."""
        rows = 0
        with pa.ipc.new_stream(pa.PythonFile(spool, "w"), self.schema) as writer:
            for batch in self._rest():
                if spool.tell() > _SPOOL_BYTES:
                    self._failure = BadRequest(_TOO_LARGE)
                    break
                writer.write_batch(batch)
                rows += batch.num_rows
        spool.seek(0)
        return rows

    def _rest(self) -> Iterator[pa.RecordBatch]:
        """The batches that are left, as long as anybody wants them; what stops them is kept."""
        try:
            for batch in self._batches:
                if self._given_up:
                    return
                yield batch
        except Exception as error:
            self._failure = error

    @property
    def failure(self) -> Exception | None:
        """What stopped the source while it was spooled."""
        return self._failure

    def close(self) -> None:
        """Let go of the source and the spool; further reads find nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._batches = iter(())
            self._let_go()
            if self._spool is not None:
                self._spool.close()

    def _let_go(self) -> None:
        close, self._close = self._close, _nothing
        close()


def _nothing() -> None:
    """The source is closed already."""
