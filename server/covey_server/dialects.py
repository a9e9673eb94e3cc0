"""SQL text of a client's dialect in, a checked statement out; everything but AI calls becomes DuckDB's SQL here."""

from __future__ import annotations

from dataclasses import replace

from covey_planner.language.dialects import translate
from covey_planner.language.parse import scan

from covey_server.guard import Checked, Guard


def check(guard: Guard, text: str, dialect: str) -> Checked:
    """The one statement of a text. Raises PlanError, and whatever the guard raises."""
    if dialect == "duckdb":
        return guard.check(text)
    scanned = scan(text, dialect)
    if scanned is not None:
        names = frozenset(token.text.lower() for token in scanned.tokens)
        return Checked(text, "ai", names, dialect=dialect)
    return replace(guard.check(translate(text, dialect)), written=text)
