"""A cursor and a tag go in, the figures of the tag's latest statement come out; read from `covey_queries`."""

from __future__ import annotations

import time
from dataclasses import dataclass

from adbc_driver_manager.dbapi import Cursor

UNFINISHED = ("planned", "running")
PATIENCE = 2.0  # seconds to wait for the server to close its books on a statement whose rows have all arrived


@dataclass(frozen=True)
class Run:
    """One statement's figures.

    `prompt_tokens` is what the prompts would have cost one by one; of those, `fresh_tokens` were computed and
    `shared_tokens` were taken from a prompt computed before. `prefix_tokens_saved` is the part of these that whole
    texts alone would not have shared: what different texts begin with alike.
    """

    query_id: str
    state: str
    rows: int
    prompts: int
    prompt_tokens: int
    fresh_tokens: int
    shared_tokens: int
    seconds: float
    prefix_tokens_saved: int = 0

    @property
    def saved(self) -> float:
        """The part of the prompts' tokens that sharing saved, between 0 and 1."""
        return 1 - self.fresh_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    def line(self) -> str:
        """The figures in one line, as they are printed under a result."""
        rows = f"{self.rows:,} row{'' if self.rows == 1 else 's'}"
        tokens = (
            "no tokens"
            if not self.prompts
            else f"{self.fresh_tokens:,} fresh and {self.shared_tokens:,} shared tokens"
        )
        if self.prefix_tokens_saved:
            tokens += f" ({self.prefix_tokens_saved:,} by common beginnings of texts)"
        return f"{rows}, {tokens}, {self.seconds:.2f} s"


def latest_run(cursor: Cursor, tag: str) -> Run | None:
    """Return the latest statement noted under `tag`, once it has ended; None where there is none."""
    deadline = time.monotonic() + PATIENCE
    while True:
        cursor.execute(
            "SELECT query_id, state, coalesce(rows, 0), coalesce(prompts, 0), coalesce(prompt_tokens, 0), "
            "coalesce(fresh_tokens, 0), coalesce(shared_tokens, 0), coalesce(seconds, 0.0), "
            "coalesce(prefix_tokens_saved, 0) "
            f"FROM covey_queries WHERE tag = '{tag}' ORDER BY started DESC, query_id DESC LIMIT 1"
        )
        row = cursor.fetchone()
        if row is None:
            return None
        rows, prompts, alone, fresh, shared = (int(value) for value in row[2:7])
        run = Run(str(row[0]), str(row[1]), rows, prompts, alone, fresh, shared, float(row[7]), int(row[8]))
        if run.state not in UNFINISHED or time.monotonic() > deadline:
            return run
        time.sleep(0.02)
