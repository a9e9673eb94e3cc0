"""Random queries and changes with AI calls over small tables, as hypothesis strategies; runs nothing.

Every query has one answer: what would depend on the order of rows (LIMIT without ORDER BY, row numbers) is left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from support.random_spelling import DIALECTS, spelled
from support.random_statements import Statements
from support.random_wide import Wide

_TAPE = 220
"""Bytes of choices for one statement: they bound how large it gets."""


@dataclass(frozen=True)
class Drawn:
    """Statements with marks, of which the last is a query, and the dialects that have a word for all of it."""

    statements: tuple[str, ...]
    dialects: tuple[str, ...]

    def spelled(self, dialect: str) -> tuple[str, ...]:
        """The statements in a dialect."""
        return tuple(spelled(text, dialect) for text in self.statements)


def draw(tape: bytes, form: str) -> Drawn:
    """Statements of a form, as the bytes of a tape choose."""
    writer = Wide(tape) if form == "wide" else Statements(tape)
    match writer, form:
        case Wide(), _:
            statements: tuple[str, ...] = writer.wide()
        case _, "query":
            statements = (writer.query(),)
        case _, "change":
            statements = writer.change()
        case _:
            statements = writer.view()
    return Drawn(statements, DIALECTS[:1] if writer.duckdb_only else DIALECTS)


_TAPES = st.binary(min_size=_TAPE, max_size=_TAPE)


def drawn(*forms: str) -> st.SearchStrategy[Drawn]:
    """Statements of one of these forms ("query", "change", "view", "wide"), as a rule with an AI call at least."""
    return st.builds(draw, _TAPES, st.sampled_from(forms))


def queries() -> st.SearchStrategy[str]:
    """A query in DuckDB's SQL, with an AI call at least as a rule."""
    return drawn("query").map(lambda found: found.spelled("duckdb")[0])
