"""What stands around the query that is planned: nothing, or a statement that writes. Taken off before, put back after.

Nothing is bound or run here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot.tokenizer_core import Token, TokenType

from covey_planner.binding.ctes import without_calls
from covey_planner.errors import Unsupported
from covey_planner.language.parse import (
    Scan,
    Site,
    Statement,
    describe_text,
    parse,
    parse_tree,
    splice,
    token_position,
)
from covey_planner.language.refusals import place_refused
from covey_planner.language.render import render
from covey_planner.language.views import as_written
from covey_planner.language.writing import Change, Writing, refusing, view, windows
from covey_planner.physical import PhysicalPlan


@dataclass(frozen=True)
class Surrounding:
    """statement: the query to be planned; texts: the values of its parameters; before, after: the text around it."""

    writing: Writing | None
    statement: Statement
    texts: tuple[str, ...]
    before: str = ""
    after: str = ""
    change: Change | None = None

    @property
    def yields(self) -> bool:
        """Whether the query's own columns matter: what an UPDATE sets has no names."""
        return self.change is None

    def described(self, query: str) -> str:
        """The whole statement without AI calls. query: its query without them."""
        if self.change is not None:
            return render(without_calls(self.change.statement()), copy=False)
        return f"{self.before}{query}{self.after}"

    def finished(self, physical: PhysicalPlan, scan: Scan, given: str | None) -> PhysicalPlan:
        """The plan of the whole statement. physical: of the query; scan: with the sites that it has now; given: the
        text before other views were put into it, where there were any.
        """
        if self.writing is None or self.change is not None:
            return physical
        if self.writing.kind != "view":
            return replace(physical, residual=f"{self.before}{physical.residual}{self.after}")
        name, spans = self.writing.name, windows(scan.tokens)

        def stand_in(site: Site) -> str:
            in_window = any(start < site.start < end for start, end in spans)
            return refusing(name, site.type, in_window)

        text = self.before + describe_text(scan, self.texts, stand_in)
        if given is not None:
            return PhysicalPlan((), as_written(given, text))
        written = scan.sql[scan.tokens[0].start : scan.tokens[-1].end + 1]
        return PhysicalPlan((), view(text, name, written))


def take_off(scanned: Scan, texts: Sequence[str], dialect: str) -> Surrounding:
    """Read a scanned statement. texts: the values of its parameters. Raises PlanError."""
    writing = scanned.writing
    if writing is None:
        return Surrounding(None, parse(scanned, texts, dialect), tuple(texts))
    if writing.kind == "change":
        position = token_position(scanned.tokens[0])
        tree = parse_tree(scanned, texts, dialect)
        if tree is None:
            raise Unsupported("an AI call in this statement is not supported", position)
        change = Change.of(tree, position)
        return Surrounding(writing, Statement(scanned, change.select, ()), tuple(texts), change=change)
    query, own = _part(scanned, texts, writing)
    if writing.kind == "view":
        _check_view(scanned, dialect)
    before, after = _around(scanned, texts, query)
    return Surrounding(writing, parse(query, own, dialect), own, before, after)


def _part(scanned: Scan, texts: Sequence[str], writing: Writing) -> tuple[Scan, tuple[str, ...]]:
    """The query inside a statement, and the values of its parameters."""
    tokens = scanned.tokens[writing.first : writing.last]
    if not tokens:
        site = scanned.sites[0]
        raise place_refused(scanned.tokens, site.function, site.position, site.start)
    if tokens[0].text.upper() == "VALUES":
        word = tokens[0]
        keyword = Token(TokenType.VALUES, word.text, word.line, word.col, word.start, word.end)
        tokens = (keyword, *tokens[1:])
    start, end = tokens[0].start, tokens[-1].end + 1
    for site in scanned.sites:
        if not start <= site.start < end:
            raise place_refused(scanned.tokens, site.function, site.position, site.start)
    inside = [start <= place.start < end for place in scanned.placeholders]
    places = tuple(place for place, own in zip(scanned.placeholders, inside, strict=True) if own)
    values = tuple(text for text, own in zip(texts, inside, strict=True) if own)
    return replace(scanned, tokens=tokens, placeholders=places), values


def _around(scanned: Scan, texts: Sequence[str], query: Scan) -> tuple[str, str]:
    """The text before and after the query, with the values of the parameters in it."""
    first, last = scanned.tokens[0].start, scanned.tokens[-1].end + 1
    start, end = query.tokens[0].start, query.tokens[-1].end + 1
    changes = [
        (place.start, place.end, text)
        for place, text in zip(scanned.placeholders, texts, strict=True)
        if not start <= place.start < end
    ]
    before = splice(scanned.sql[:start], [(0, first, ""), *(c for c in changes if c[1] <= start)])
    after = [(a - end, b - end, text) for a, b, text in changes if a >= end]
    return before, splice(scanned.sql[end:last], after)


def _check_view(scanned: Scan, dialect: str) -> None:
    if scanned.placeholders:
        raise Unsupported("a view has no parameters", scanned.placeholders[0].position)
    if dialect != "duckdb":
        raise Unsupported(
            "a view with AI calls is written in dialect duckdb", token_position(scanned.tokens[0])
        )
