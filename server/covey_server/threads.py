"""The threads of a server: some for what may wait for long, some for what must never wait behind it; runs nothing.

A statement holds a thread as long as DuckDB or the model works for it, an upload as long as its client sends. What ends
them has threads of its own: else it would wait for the very statements that it is to end.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

_STATEMENTS = 128
"""Each running stream holds one while it waits."""

_UPLOADS = 64
_ASIDE = 16


class Threads:
    """statements: for SQL, encoding and waiting for the model. uploads: for what reads from a client. aside: for
    cancelling, letting go and explaining errors.
    """

    def __init__(self, statements: int = _STATEMENTS, uploads: int = _UPLOADS, aside: int = _ASIDE) -> None:
        self.statements = ThreadPoolExecutor(statements, thread_name_prefix="covey")
        self.uploads = ThreadPoolExecutor(uploads, thread_name_prefix="covey upload")
        self.aside = ThreadPoolExecutor(aside, thread_name_prefix="covey aside")

    def shutdown(self) -> None:
        """Begin nothing more; what runs goes on."""
        for pool in self._all:
            pool.shutdown(wait=False, cancel_futures=True)

    def alive(self) -> bool:
        """Whether any of them still runs."""
        return any(thread.is_alive() for pool in self._all for thread in pool._threads)

    @property
    def _all(self) -> tuple[ThreadPoolExecutor, ...]:
        return self.statements, self.uploads, self.aside
