"""A connection goes in, a line on the terminal that says how far its statement is; read from `covey_queries`.

A thread of its own asks twice a second, over a connection of its own, so that the statement and its transaction are
left alone. It shows nothing where stderr is no terminal, and nothing of statements that end within a second.
"""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import TextIO

import pyarrow

from covey.connection import Connection, Error
from covey.output import Rows

BEGIN_SECONDS = 1.0
LOOK_UP_SECONDS = 0.5
_PATIENCE = 2.0
CLEAR = "\r\x1b[K"

_ASKED = """\
SELECT rows, prompts, fresh_tokens, tokens_to_come, seconds, seconds_to_come FROM covey_queries
WHERE tag = '{}' AND state = 'running' ORDER BY started DESC LIMIT 1"""


class Progress:
    """While the block runs, how far the connection's statement is stands on the terminal; afterwards nothing does."""

    def __init__(self, connection: Connection, terminal: TextIO | None = None) -> None:
        self._connection = connection
        self._terminal = sys.stderr if terminal is None else terminal
        self._ended = threading.Event()
        self._writing = threading.Lock()
        self._shown = False
        self._thread = threading.Thread(target=self._show, name="covey progress", daemon=True)

    def __enter__(self) -> Progress:
        if self._terminal.isatty():
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        if self._thread.ident is not None:
            # What it asked last is answered soon, unless the server is gone.
            self._thread.join(_PATIENCE)

    def end(self) -> None:
        """Clear the line, for good; harmless if done before."""
        with self._writing:
            self._ended.set()
            if self._shown:
                self._write(CLEAR)
            self._shown = False

    def until(self, rows: Rows, first: bool) -> Rows:
        """The same rows; the line is gone once the last have come, or the first, where each is shown at once."""

        def batches() -> Iterator[pyarrow.RecordBatch]:
            for batch in rows.batches:
                if first:
                    self.end()
                yield batch
            self.end()

        return Rows(rows.schema, batches())

    def _show(self) -> None:
        if self._ended.wait(BEGIN_SECONDS):
            return
        try:
            with self._connection.beside(f"{self._connection.tag}.progress") as own:
                while not self._ended.wait(LOOK_UP_SECONDS):
                    with own.cursor() as cursor:
                        cursor.execute(_ASKED.format(self._connection.tag))
                        row = cursor.fetchone()
                    self._say("" if row is None else line(*row))
        except Error:
            # The statement itself says what is wrong.
            return

    def _say(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        with self._writing:
            if text and not self._ended.is_set():
                self._shown = True
                self._write(CLEAR + text[:width])

    def _write(self, text: str) -> None:
        self._terminal.write(text)
        self._terminal.flush()


def line(rows: int, prompts: int, fresh: int, to_come: int, seconds: float, left: float | None) -> str:
    """How far a statement is: prompts answered of about how many, tokens computed, seconds so far and to come."""
    parts = [f"{rows:,} row{'' if rows == 1 else 's'}"] if rows else []
    if prompts:
        about = round(prompts * (fresh + to_come) / fresh) if fresh else prompts
        parts.append(
            f"{prompts:,} of about {max(about, prompts):,} prompts" if to_come else f"{prompts:,} prompts"
        )
    if fresh:
        parts.append(f"{fresh:,} tokens")
    parts.append(f"{seconds:.0f} s")
    if to_come and left is not None:
        parts.append(f"about {left:.0f} s to come")
    return ", ".join(parts)
