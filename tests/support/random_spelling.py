"""A statement with marks in it goes in, the same in the SQL of a dialect comes out; draws and runs nothing.

A mark stands for what dialects spell differently. It is a text, so that texts with marks are put together like SQL.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping

DIALECTS = ("duckdb", "snowflake", "bigquery")

_OPEN, _NEXT, _CLOSE = "\x01", "\x02", "\x03"
_PARTS = re.compile(f"([{_OPEN}{_NEXT}{_CLOSE}])")
_HOLES = re.compile(r"\{(\d)\}")


def mark(form: str, *parts: str) -> str:
    """A mark for a form of `_FORMS`; parts may hold marks."""
    return f"{_OPEN}{form}" + "".join(f"{_NEXT}{part}" for part in parts) + _CLOSE


def spelled(text: str, dialect: str) -> str:
    """A text in the words of a dialect."""
    forms = {**_FORMS["duckdb"], **_FORMS[dialect]}
    stack: list[list[str]] = [[""]]
    for part in _PARTS.split(text):
        if part == _OPEN:
            stack.append([""])
        elif part == _NEXT:
            stack[-1].append("")
        elif part == _CLOSE:
            name, *parts = stack.pop()
            stack[-1][-1] += forms[name](*parts)
        else:
            stack[-1][-1] += part
    return stack[0][0]


def _sometimes(*parts: str) -> bool:
    """Either of two ways, always the same for the same parts."""
    return bool(zlib.crc32("".join(parts).encode()) & 1)


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _quoted(value: str) -> str:
    quote = '"' if _sometimes(value) else "'"
    return quote + value.replace("\\", "\\\\").replace(quote, f"\\{quote}") + quote


def _given(template: str, values: tuple[str, ...]) -> str:
    """A prompt as BigQuery's tuple of texts and values, unless the values got other numbers by that."""
    parts = _HOLES.split(template)
    numbers = [int(number) for number in parts[1::2]]
    # A literal among the values would be read as a part of the question.
    if numbers != list(range(len(values))) or any(value[0] in "'\"" for value in values):
        return f"PROMPT({_quoted(template)}, {', '.join(values)})"
    words = [_quoted(part.replace("{{", "{").replace("}}", "}")) if part else "" for part in parts]
    words[1::2] = values
    return f"({', '.join(filter(None, words))})"


def _asked(function: str, template: str, *values: str) -> str:
    return f"AI_{function}(PROMPT({_text(template)}, {', '.join(values)}))"


def _dollar_asked(function: str, template: str, *values: str) -> str:
    said = f"$${template}$$" if _sometimes(template, *values) else _text(template)
    return f"AI_{function}(PROMPT({said}, {', '.join(values)}))"


def _tuple_asked(function: str, template: str, *values: str) -> str:
    name = "AI.IF" if function == "FILTER" else f"AI.{function}"
    return f"{name}({'prompt => ' if _sometimes(template, *values) else ''}{_given(template, values)})"


def _labels(words: str) -> str:
    return "[" + ", ".join(_text(word) for word in words) + "]"


def _many(value: str, words: str) -> str:
    """A list of labels for plain DuckDB: those whose own question is answered yes."""
    asked = (f"Does the label '{word}' fit?" for word in words)
    fitting = (
        f"CASE WHEN AI_FILTER({_text(q)}, {value}) THEN '{word}' END"
        for q, word in zip(asked, words, strict=True)
    )
    return (
        f"CASE WHEN {value} IS NOT NULL THEN list_filter([{', '.join(fitting)}], lambda v: v IS NOT NULL) END"
    )


_Form = Callable[..., str]
_FORMS: Mapping[str, Mapping[str, _Form]] = {
    "duckdb": {
        "column": lambda alias, name: f"{alias}.{name}",
        "table": lambda name: name,
        "text": _text,
        "joined": lambda left, right: f"{left} || {right}",
        "or_else": lambda value, other: f"coalesce({value}, {other})",
        "as_text": lambda value: f"CAST({value} AS VARCHAR)",
        "as_int": lambda value: f"CAST({value} AS INTEGER)",
        "count_if": lambda condition: f"count(*) FILTER (WHERE {condition})",
        "any_true": lambda condition: f"bool_or({condition})",
        "either": lambda condition, one, other: f"CASE WHEN {condition} THEN {one} ELSE {other} END",
        "set": lambda words: words,
        "rows": lambda alias, *rows: f"(VALUES {', '.join(rows)}) {alias}(id, t)",
        "row": lambda number, text: f"({number}, {text})",
        "change": lambda head, where: f"{head} WHERE {where}" if where else head,
        "asked": _asked,
        "asked_of": lambda function, question, value: f"AI_{function}({_text(question)}, {value})",
        "label": lambda value, words: f"AI_CLASSIFY({value}, {_labels(words)})",
        "label_of": lambda words, template, *values: (
            f"AI_CLASSIFY(PROMPT({_text(template)}, {', '.join(values)}), {_labels(words)})"
        ),
        "tokens": lambda value: f"AI_COUNT_TOKENS({value})",
        "many": lambda value, words: f"AI_CLASSIFY({value}, {_labels(words)}, {{'output_mode': 'multi'}})",
    },
    "oracle": {"many": _many},
    "snowflake": {
        "column": lambda alias, name: (
            f'{alias}."{name.upper()}"' if _sometimes(alias, name) else f"{alias}.{name}"
        ),
        "table": lambda name: name.upper(),
        "or_else": lambda value, other: f"NVL({value}, {other})",
        "count_if": lambda condition: f"COUNT_IF({condition})",
        "any_true": lambda condition: f"BOOLOR_AGG({condition})",
        "either": lambda condition, one, other: f"IFF({condition}, {one}, {other})",
        "asked": _dollar_asked,
        "label": lambda value, words: f"AI_CLASSIFY({value}, {_labels(words)}):labels[0]::VARCHAR",
        "label_of": lambda words, template, *values: (
            f"AI_CLASSIFY(PROMPT({_text(template)}, {', '.join(values)}), {_labels(words)}):labels[0]::VARCHAR"
        ),
    },
    "bigquery": {
        "column": lambda alias, name: f"`{alias}`.{name}" if _sometimes(alias, name) else f"{alias}.`{name}`",
        "table": lambda name: f"`{name}`",
        "text": _quoted,
        "joined": lambda left, right: f"CONCAT({left}, {right})",
        "or_else": lambda value, other: f"IFNULL({value}, {other})",
        "as_text": lambda value: f"CAST({value} AS STRING)",
        "as_int": lambda value: f"CAST({value} AS INT64)",
        "count_if": lambda condition: f"COUNTIF({condition})",
        "any_true": lambda condition: f"LOGICAL_OR({condition})",
        "either": lambda condition, one, other: f"IF({condition}, {one}, {other})",
        "set": lambda words: words if words == "UNION ALL" else f"{words} DISTINCT",
        "rows": lambda alias, *rows: f"({' UNION ALL '.join(rows)}) {alias}",
        "row": lambda number, text: f"SELECT {number} AS id, {text} AS t",
        "change": lambda head, where: f"{head} WHERE {where or 'TRUE'}",
        "asked": _tuple_asked,
        "asked_of": lambda function, question, value: _tuple_asked(function, f"{question}: {{0}}", value),
        "label": lambda value, words: f"AI.CLASSIFY({value}, categories => {_labels(words)})",
        "label_of": lambda words, template, *values: (
            f"AI.CLASSIFY({_given(template, values)}, {_labels(words)})"
        ),
        "tokens": lambda value: f"AI.COUNT_TOKENS({value})",
    },
}
"""How each dialect says it; where it is not named, like DuckDB."""
