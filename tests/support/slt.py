"""Text in the format of sqllogictest in, records out; and what a record's rows look like as text. Runs nothing.

A file is a sequence of records, separated by empty lines; `#` begins a comment.

    statement ok                    a statement that succeeds
    statement error <regex>         one that fails with a message in which the regular expression is found
    query <types> [<mode> [<label>]]    a query, then `----`, then its rows, values separated by tabs

types: a letter for each column, I (integer), R (floating point, decimal) or T (anything else). mode: `nosort` (the
default: the rows come in this order), `rowsort` (in any order), `subset` (what stands below `----` is the number of
rows; each of them is one of those of the earlier query with this label). Queries with the same label give the same
rows. NULL is `NULL`, an empty text `(empty)`; line breaks and tabs are `\\n` and `\\t`.

Before a record may stand `skipif <name>` and `onlyif <name>` (a dialect, `covey`, `oracle`, `optimizer-on`,
`optimizer-off`), and
`bind <JSON list>`, the values of its parameters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

_MODES = ("nosort", "rowsort", "subset")


@dataclass(frozen=True)
class Record:
    """A statement and what it does.

    line: of its first line in the file, from 1. kind: "ok", "error" or "query". expected: lines of the result, or
    the regular expression of the error. result: span of lines of the file, from 0, that holds the result.
    """

    line: int
    kind: str
    sql: str
    expected: tuple[str, ...] = ()
    types: str = ""
    mode: str = "nosort"
    label: str = ""
    only: frozenset[str] = frozenset()
    skipped: frozenset[str] = frozenset()
    values: tuple[Any, ...] | None = None
    result: tuple[int, int] = (0, 0)

    def concerns(self, names: frozenset[str]) -> bool:
        """Whether a run that goes by these names runs it."""
        return self.only <= names and not self.skipped & names


def parse(text: str) -> list[Record]:
    """The records of a file. Raises ValueError with the line of what is malformed."""
    lines = text.split("\n")
    records: list[Record] = []
    at = 0
    while at < len(lines):
        if not lines[at].strip() or lines[at].startswith("#"):
            at += 1
            continue
        end = next((n for n in range(at, len(lines)) if not lines[n].strip()), len(lines))
        records.append(_record(lines, at, end))
        at = end
    return records


def _record(lines: Sequence[str], at: int, end: int) -> Record:
    record = Record(at + 1, "", "")
    while True:
        head = "" if at == end else lines[at]
        word, _, rest = head.partition(" ")
        at += 1
        match word:
            case "skipif":
                record = replace(record, skipped=record.skipped | {rest})
            case "onlyif":
                record = replace(record, only=record.only | {rest})
            case "bind":
                record = replace(record, values=tuple(json.loads(rest)))
            case "statement" if rest == "ok":
                return replace(record, kind="ok", sql="\n".join(lines[at:end]))
            case "statement" if rest.startswith("error "):
                expected = (rest.removeprefix("error "),)
                return replace(record, kind="error", sql="\n".join(lines[at:end]), expected=expected)
            case "query":
                return _query(record, rest.split(), lines, at, end)
            case _:
                raise ValueError(f"line {at}: {head!r} begins no record")


def _query(record: Record, words: Sequence[str], lines: Sequence[str], at: int, end: int) -> Record:
    cut = next((n for n in range(at, end) if lines[n] == "----"), None)
    mode = words[1] if len(words) > 1 else "nosort"
    if cut is None or not 1 <= len(words) <= 3 or mode not in _MODES or set(words[0]) - set("IRT"):
        raise ValueError(
            f"line {at}: a query is `query <types> [<mode> [<label>]]`, with its rows after ----"
        )
    return replace(
        record,
        kind="query",
        sql="\n".join(lines[at:cut]),
        expected=tuple(lines[cut + 1 : end]),
        types=words[0],
        mode=mode,
        label=words[2] if len(words) > 2 else "",
        result=(cut + 1, end),
    )


def written(rows: Iterable[Sequence[Any]], record: Record) -> tuple[str, ...]:
    """Rows as the lines of a result. Raises AssertionError where their types are not those announced."""
    lines = ["\t".join(_values(row, record.types)) for row in rows]
    if record.mode == "subset":
        return (str(len(lines)),)
    return tuple(lines if record.mode == "nosort" else sorted(lines))


def _values(row: Sequence[Any], types: str) -> Iterator[str]:
    assert len(row) == len(types), f"{len(row)} columns, not {len(types)}"
    for value, kind in zip(row, types, strict=True):
        assert value is None or _kind(value) == kind, f"{value!r} is not of type {kind}"
        yield _value(value)


def _kind(value: Any) -> str:
    whole = isinstance(value, Decimal) and value.as_tuple().exponent == 0
    if whole or (isinstance(value, int) and not isinstance(value, bool)):
        return "I"
    return "R" if isinstance(value, float | Decimal) else "T"


def _value(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case float() | Decimal():
            return f"{float(value) + 0.0:.6g}"
        case "":
            return "(empty)"
        case _:
            return str(value).replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


@dataclass(frozen=True)
class Outcome:
    """What a record did: rows, or the message of its error."""

    rows: tuple[tuple[Any, ...], ...] | None = None
    error: str | None = None


def complaint(record: Record, outcome: Outcome, labelled: Mapping[str, Record]) -> str | None:
    """What is wrong with an outcome; None where nothing is. labelled: the first record of each label."""
    where = f"line {record.line}: {record.sql}\n    "
    if record.kind == "error":
        if outcome.error is None:
            return f"{where}did not fail"
        found = re.search(record.expected[0], outcome.error)
        return None if found else f"{where}failed with {outcome.error!r}, not {record.expected[0]!r}"
    if outcome.error is not None:
        return f"{where}failed: {outcome.error}"
    if record.kind == "ok":
        return None
    assert outcome.rows is not None
    try:
        lines = written(outcome.rows, record)
    except AssertionError as wrong:
        return f"{where}{wrong}"
    if lines != record.expected:
        return (
            f"{where}gave\n    "
            + "\n    ".join(lines)
            + "\n    and not\n    "
            + "\n    ".join(record.expected)
        )
    first = labelled.get(record.label)
    if first is None or first is record:
        return None
    if record.mode != "subset":
        return None if sorted(lines) == sorted(first.expected) else f"{where}differs from line {first.line}"
    left = list(first.expected)
    for line in written(outcome.rows, replace(record, mode="nosort")):
        if line not in left:
            return f"{where}gave {line!r}, which is no row of line {first.line}"
        left.remove(line)
    return None


def first_of_each_label(records: Iterable[Record]) -> dict[str, Record]:
    """The query whose rows those of the same label repeat."""
    found: dict[str, Record] = {}
    for record in records:
        if record.label and record.mode != "subset":
            found.setdefault(record.label, record)
    return found
