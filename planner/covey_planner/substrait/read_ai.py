"""AI functions of a plan in, the calls of our SQL out. Knows their arguments, never what they ask.

`ai_functions.yaml` is the contract; the planner checks questions, labels and options when it reads the SQL.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from covey_planner.errors import BindError
from covey_planner.substrait.literals import string
from covey_planner.substrait.select import Sql

TYPES = {
    "ai_filter": "BOOLEAN",
    "ai_score": "DOUBLE",
    "ai_classify": "VARCHAR",
    "ai_sentiment": "VARCHAR",
    "ai_count_tokens": "BIGINT",
}
"""What each function yields; ai_classify a list with the option output_mode multi."""


def call(name: str, arguments: Sequence[Any], texts: Sequence[str]) -> Sql:
    """The SQL of an AI function. arguments: as in the plan; texts: the same as SQL, "" for one that is a map.

    Raises BindError with the argument's number.
    """
    values = [
        text if text else _map(argument, name, at) for at, (argument, text) in _numbered(arguments, texts)
    ]
    kind = TYPES.get(name)
    if name == "ai_classify" and "'output_mode': 'multi'" in values[-1]:
        kind = "VARCHAR[]"
    return Sql(f"{name.upper()}({', '.join(values)})", kind)


def _numbered(arguments: Sequence[Any], texts: Sequence[str]) -> Any:
    return enumerate(zip(arguments, texts, strict=True), 1)


def _map(argument: Any, name: str, at: int) -> str:
    """A map: labels with their descriptions as the second argument of ai_classify, else options."""
    pairs = [(entry.key.string, entry.value.string) for entry in argument.value.literal.map.key_values]
    if name == "ai_classify" and at == 2:
        return f"[{', '.join(_label(label, description) for label, description in pairs)}]"
    return f"{{{', '.join(f'{string(key)}: {_option(name, key, value)}' for key, value in pairs)}}}"


def _label(label: str, description: str) -> str:
    return f"({string(label)}, {string(description)})"


def _option(name: str, key: str, value: str) -> str:
    match key:
        case "selectivity":
            return value if _number(value) else string(value)
        case "anchor":
            return value if value.isdigit() else string(value)
        case "examples":
            return f"[{', '.join(_example(name, item) for item in _items(name, value))}]"
        case _:
            return string(value)


def _items(name: str, value: str) -> list[Any]:
    try:
        items = json.loads(value)
    except ValueError:
        items = None
    if not isinstance(items, list):
        raise BindError(f"the examples of {name} are no JSON list")
    return items


def _example(name: str, item: Any) -> str:
    match item:
        case {"input": str() as text, "labels": [*labels]} if all(isinstance(label, str) for label in labels):
            return f"{{'input': {string(text)}, 'labels': [{', '.join(map(string, labels))}]}}"
    raise BindError(f'an example of {name} must be {{"input": text, "labels": [label]}}')


def _number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit() and text.isascii()
