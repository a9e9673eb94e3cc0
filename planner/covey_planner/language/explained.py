"""The words between EXPLAIN and a statement: how it is to be explained; never looks at the statement."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from covey_planner.errors import Unsupported

GAP = r"(?>\s+|--[^\n]*|/\*.*?\*/)"
"""White space or a comment."""

_OPENINGS = "SELECT|WITH|FROM|VALUES|INSERT|CREATE|UPDATE|DELETE|MERGE"
_EXPLAIN = re.compile(
    rf"\A{GAP}*EXPLAIN\b(?P<words>(?:{GAP}+(?:ANALYZE|ANALYSE|VERBOSE)\b)*)"
    rf"(?:{GAP}*\((?P<options>[^()]*)\)(?={GAP}*(?:{_OPENINGS}|\()))?",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class Explain:
    """analyze: run the statement and add what happened. verbose: with the rules' work, prompts and SQL. form: of the
    text.
    """

    analyze: bool = False
    verbose: bool = False
    form: Literal["text", "json"] = "text"


def strip_explain(sql: str) -> tuple[str, Explain | None]:
    """A statement with a leading EXPLAIN blanked out, so that every position stays what it was.

    Options stand as words, or in parentheses: `EXPLAIN (ANALYZE, FORMAT json) SELECT …`. Raises Unsupported.
    """
    found = _EXPLAIN.match(sql)
    if found is None:
        return sql, None
    explain = Explain()
    for word in re.sub(GAP, " ", found["words"], flags=re.DOTALL).split():
        explain = _set(explain, word, "")
    for option in (found["options"] or "").split(","):
        name, _, value = option.strip().partition(" ")
        if name:
            explain = _set(explain, name, value.strip().strip("'\""))
    return re.sub(r"\S", " ", found[0]) + sql[found.end() :], explain


def opening(sql: str) -> str:
    """A leading EXPLAIN with its options; empty where there is none."""
    found = _EXPLAIN.match(sql)
    return found[0] if found is not None else ""


def without_verbose(sql: str) -> str:
    """A statement whose leading EXPLAIN says no VERBOSE, which DuckDB does not know; all else stays in its place."""
    found = _EXPLAIN.match(sql)
    if found is None or "VERBOSE" not in found[0].upper():
        return sql
    words = re.sub(r"(?i)\bVERBOSE\b", " " * len("VERBOSE"), sql[: found.end("words")])
    options = found["options"]
    if options is None:
        return words + sql[found.end("words") :]
    kept = [option.strip() for option in options.split(",") if not re.match(r"(?i)\s*VERBOSE\b", option)]
    listed = f"({', '.join(kept)})" if kept else ""
    return words + sql[found.end("words") : found.start("options") - 1] + listed + sql[found.end() :]


def _set(explain: Explain, name: str, value: str) -> Explain:
    match name.upper(), value.lower():
        case (("ANALYZE" | "ANALYSE"), ("" | "true" | "on" | "1")):
            return replace(explain, analyze=True)
        case "VERBOSE", ("" | "true" | "on" | "1"):
            return replace(explain, verbose=True)
        case (("ANALYZE" | "ANALYSE" | "VERBOSE"), ("false" | "off" | "0")):
            return explain
        case "FORMAT", ("text" | "json") as form:
            return replace(explain, form="json" if form == "json" else "text")
    shown = f"{name} {value}".strip()
    raise Unsupported(
        f"EXPLAIN of an AI statement takes ANALYZE, VERBOSE and FORMAT text or json, not {shown!r}"
    )
